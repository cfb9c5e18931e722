//! Measuring the link between arena and spill tier, for the planner.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use lgm::profile::Link;

use super::config::Config;
use crate::copier::{Copier, TierCopier, Transfer};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::spill::{Port, Spill, Tier};

/// A copy that is long enough to measure bandwidth by.
const LARGE: usize = 4 << 20;
/// A copy that is nothing but latency.
const SMALL: usize = 4096;
/// Copies of each kind; the fastest counts, for disturbances only slow down.
const ROUNDS: usize = 4;
/// What no link is below or above, so that a strange measurement does no harm.
const BPS: [f64; 2] = [1e6, 1e13];

/// The link of a configuration: given, or the throttle's, or measured.
pub(super) fn link(config: &Config) -> Result<Link, RuntimeError> {
    match (config.link, config.throttle) {
        (Some(link), _) => Ok(link),
        (None, Some(throttle)) => Ok(throttle.link()),
        (None, None) if config.budget.is_none() => Ok(MEMORY),
        (None, None) => measured(config),
    }
}

/// Where nothing moves, any link is as good.
const MEMORY: Link = Link {
    out_bps: 1e10,
    in_bps: 1e10,
    copy_latency_ns: 1000,
    duplex: true,
};

fn measured(config: &Config) -> Result<Link, RuntimeError> {
    let tier = Arc::new(Tier::new(&config.spill, &config.storage, LARGE as u64)?);
    let port = Port::new(&tier)?;
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
        duplex: config.spill == Spill::Ram,
    })
}
