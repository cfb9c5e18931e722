//! The link between arena and spill tier, for the planner: given, or measured once for each
//! directory and process.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lgm::profile::Link;

use super::config::Config;
use crate::copier::{Copier, TierCopier, Transfer};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::spill::{Port, Spill, Tier};
use crate::storage::{self, StorageOptions};

/// A copy that is long enough to measure bandwidth by.
const LARGE: usize = 4 << 20;
/// A copy that is nothing but latency.
const SMALL: usize = 4096;
/// Copies of each kind; the fastest counts, for disturbances only slow down.
const ROUNDS: usize = 4;
/// How long a directory is measured.
const PROBE_TIME: Duration = Duration::from_millis(400);
/// What no link is below or above, so that a strange measurement does no harm.
const BPS: [f64; 2] = [1e6, 1e13];
const LATENCY_NS_MAX: u64 = 100_000_000;

/// The link of a configuration: given, or the throttle's, or measured.
pub(super) fn link(config: &Config) -> Result<Link, RuntimeError> {
    match (config.link, config.throttle, &config.spill) {
        (Some(link), ..) => Ok(link),
        (None, Some(throttle), _) => Ok(throttle.link()),
        _ if config.budget.is_none() => Ok(NOTHING_MOVES),
        (None, None, Spill::Ram) => memory(),
        (None, None, Spill::File(directory)) => cached(directory, &config.storage),
    }
}

/// Where nothing moves, any link is as good.
pub(super) const NOTHING_MOVES: Link = Link {
    out_bps: 1e10,
    in_bps: 1e10,
    copy_latency_ns: 1000,
    duplex: true,
};

/// A directory's link, measured at its first use.
fn cached(directory: &Path, options: &StorageOptions) -> Result<Link, RuntimeError> {
    type Known = Vec<(PathBuf, StorageOptions, Link)>;
    static KNOWN: Mutex<Known> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known
        .iter()
        .find(|(d, o, _)| d == directory && o == options);
    if let Some((.., link)) = found {
        return Ok(*link);
    }
    let probe = storage::probe(directory, options, PROBE_TIME)?;
    let link = Link {
        out_bps: probe.bps[0].clamp(BPS[0], BPS[1]),
        in_bps: probe.bps[1].clamp(BPS[0], BPS[1]),
        copy_latency_ns: probe.latency_ns[0]
            .max(probe.latency_ns[1])
            .min(LATENCY_NS_MAX),
        // Both directions share the device and, with encryption, the cores.
        duplex: false,
    };
    known.push((directory.into(), *options, link));
    Ok(link)
}

/// The link to a tier in memory.
fn memory() -> Result<Link, RuntimeError> {
    let tier = Tier::new(&Spill::Ram, &StorageOptions::default(), LARGE as u64)?;
    let port = Port::new(&Arc::new(tier))?;
    let mut copier = TierCopier { port };
    let mut buffer = vec![1_u8; LARGE];
    let mut best = |direction, bytes: usize| -> Result<f64, RuntimeError> {
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let device = NonNull::from(&mut buffer[..bytes]).cast();
            let start = Instant::now();
            // SAFETY: the buffer and the tier are this function's own.
            unsafe { copier.copy(&Transfer::unplanned(direction, device, 0, bytes), None) }
                .map_err(|error| RuntimeError::system("measure the spill tier")(error.errno))?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    let latency_s = best(Direction::Out, SMALL)?.max(best(Direction::In, SMALL)?);
    let out_s = best(Direction::Out, LARGE)?;
    let in_s = best(Direction::In, LARGE)?;
    let bps = |seconds: f64| (LARGE as f64 / seconds.max(1e-9)).clamp(BPS[0], BPS[1]);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let copy_latency_ns = (latency_s.min(0.1) * 1e9) as u64;
    Ok(Link {
        out_bps: bps(out_s),
        in_bps: bps(in_s),
        copy_latency_ns,
        duplex: true,
    })
}
