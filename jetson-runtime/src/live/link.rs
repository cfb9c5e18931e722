//! The link between arena and spill tier, for the planner: given, or found at boot, or measured
//! once for each directory and process.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lgm::profile::Link;
use tracing::info;

use super::config::Config;
use crate::copier::{Copier, TierCopier, Transfer};
use crate::cuda::Device;
use crate::cuda::probe::LinkSpeed;
use crate::device::{BPS, DeviceProfile, KnownGpu, link_of};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::spill::{Spill, Tier};
use crate::storage::{self, StorageOptions, Tuning};

/// A copy that is long enough to measure bandwidth by.
const LARGE: usize = 4 << 20;
/// A copy that is nothing but latency.
const SMALL: usize = 4096;
/// Copies of each kind; the fastest counts, for disturbances only slow down.
const ROUNDS: usize = 4;
/// How long a directory is measured.
const PROBE_TIME: Duration = Duration::from_millis(400);

/// The link of a configuration: given, or the throttle's, or the profile's, or measured. Where a
/// disk was measured, also what suits it.
pub(super) fn link(config: &Config) -> Result<(Link, Option<Tuning>), RuntimeError> {
    match (config.link, config.throttle, &config.spill) {
        (Some(link), ..) => Ok((link, None)),
        (None, Some(throttle), _) => Ok((throttle.link(), None)),
        _ if config.budget.is_none() => Ok((NOTHING_MOVES, None)),
        (None, None, Spill::Ram) => match &config.gpu {
            Some(target) => Ok((of_gpu(target.device(), config)?, None)),
            None => Ok((memory()?, None)),
        },
        (None, None, Spill::File(directory)) => {
            let (link, tuning) = match of_profile(directory, config) {
                Some(known) => known,
                None => cached(directory, &config.storage)?,
            };
            Ok((link, Some(tuning)))
        }
    }
}

/// Where nothing moves, any link is as good.
pub(super) const NOTHING_MOVES: Link = Link {
    out_bps: 1e10,
    in_bps: 1e10,
    copy_latency_ns: 1000,
    duplex: true,
};

/// The link between a GPU and the host, as it was found at boot or is measured now.
fn of_gpu(device: &Device, config: &Config) -> Result<Link, RuntimeError> {
    let known = KnownGpu::of(device, config.profile.as_deref())?;
    let speed = match known.probe.link {
        Some(speed) => speed,
        None => LinkSpeed::measure(device, false)?,
    };
    let link = link_of([speed.out_bps, speed.in_bps], [speed.copy_latency_ns; 2]);
    Ok(Link {
        duplex: device.facts().copy_engines >= 2,
        ..link
    })
}

/// A directory's link as it was found at boot.
fn of_profile(directory: &Path, config: &Config) -> Option<(Link, Tuning)> {
    let path = config.profile.as_deref();
    let link = DeviceProfile::found(path)?.link(directory, &config.storage);
    match link {
        Some(link) => info!(profile = ?path, ?link, "measured at boot"),
        None => info!(profile = ?path, "it does not have the spill folder"),
    }
    link
}

/// A directory's link, measured at its first use.
fn cached(directory: &Path, options: &StorageOptions) -> Result<(Link, Tuning), RuntimeError> {
    type Known = Vec<(PathBuf, StorageOptions, (Link, Tuning))>;
    static KNOWN: Mutex<Known> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known
        .iter()
        .find(|(d, o, _)| d == directory && o == options);
    if let Some((.., link)) = found {
        return Ok(*link);
    }
    let probe = storage::probe(directory, options, PROBE_TIME)?;
    let link = (link_of(probe.bps, probe.latency_ns), probe.tuning());
    known.push((directory.into(), *options, link));
    Ok(link)
}

/// The link to a tier in memory.
fn memory() -> Result<Link, RuntimeError> {
    let tier = Tier::new(&Spill::Ram, &StorageOptions::default(), LARGE as u64)?;
    let mut copier = TierCopier::new(&Arc::new(tier))?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use vtensor::Bytes;

    use super::*;
    use crate::device::MeasuredWay;
    use crate::storage::StorageProbe;
    use crate::system::System;
    use crate::tests::disk;

    #[test]
    fn what_was_found_at_boot_is_not_measured_again_and_what_is_not_of_this_boot_is() {
        let probe = StorageProbe {
            path: "io_uring",
            bps: [1.25e15, 2e6],
            latency_ns: [7, 8],
            request_bytes: 256 << 10,
            copy_bytes: 8 << 20,
            sealers: 2,
            raw_bps: [1.0; 2],
            over_raw: [1.0; 2],
            busy: [0.5; 2],
            seal_bps: [1.0; 2],
            limits: Vec::new(),
        };
        let way = MeasuredWay::new(&disk(), &StorageOptions::default(), &probe).unwrap();
        let path = disk().join(format!("link-profile-{}", std::process::id()));
        let mut profile = DeviceProfile::new(System::here(), vec![way], Vec::new());
        let config = Config {
            budget: Some(Bytes(1 << 20)),
            spill: Spill::File(disk()),
            profile: Some(path.clone()),
            ..Config::default()
        };
        let mut found = || {
            fs::write(&path, serde_json::to_string(&profile).unwrap()).unwrap();
            let found = link(&config).unwrap();
            profile.system.boot.push('x');
            found
        };
        // No disk is that fast, so it was not measured: it is the profile's, kept in bounds.
        let (known, tuning) = found();
        let tuning = tuning.unwrap();
        assert_eq!((tuning.request_bytes, tuning.sealers), (256 << 10, 2));
        assert_eq!(
            (known.out_bps, known.in_bps, known.copy_latency_ns),
            (1e13, 2e6, 8)
        );
        assert!(found().0.out_bps < 1e13, "another boot");
        fs::remove_file(&path).unwrap();
        assert!(link(&config).unwrap().0.out_bps < 1e13, "no profile");
    }
}
