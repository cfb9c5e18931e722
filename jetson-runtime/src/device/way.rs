//! What spilling to a folder achieves in one way, as a profile keeps it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lgm::profile::Link;
use serde::{Deserialize, Serialize};

use crate::storage::{
    Integrity, IoPath, REQUEST_BYTES, SEALERS_MAX, StorageOptions, StorageProbe, Tuning,
};

/// What no link is below or above, so that a strange measurement does no harm.
pub(crate) const BPS: [f64; 2] = [1e6, 1e13];
const LATENCY_NS_MAX: u64 = 100_000_000;

/// What spilling to a folder achieves in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredWay {
    /// The folder.
    pub folder: PathBuf,
    /// The number of its file system, valid until the machine is started again.
    pub file_system: u64,
    /// How requests reach the disk: `io_uring` or `pread/pwrite`.
    pub path: String,
    /// Whether contents are sealed; otherwise they are checked.
    pub sealed: bool,
    /// The largest request.
    pub request_bytes: u32,
    /// Requests in flight.
    pub depth: u32,
    /// Threads that seal beside each engine.
    pub sealers: u32,
    /// Bytes per second out and in.
    pub bps: [f64; 2],
    /// Nanoseconds of a copy of one block, out and in.
    pub latency_ns: [u64; 2],
}

impl MeasuredWay {
    /// What a measurement has found for a folder.
    ///
    /// # Errors
    /// If the folder is gone.
    pub fn new(
        folder: &Path,
        options: &StorageOptions,
        probe: &StorageProbe,
    ) -> Result<Self, io::Error> {
        Ok(Self {
            folder: folder.into(),
            file_system: fs::metadata(folder)?.dev(),
            path: probe.path.into(),
            sealed: options.integrity == Integrity::Encrypt,
            request_bytes: probe.request_bytes,
            depth: options.depth,
            sealers: probe.sealers,
            bps: probe.bps,
            latency_ns: probe.latency_ns,
        })
    }

    /// What suits the folder; never a request for which buffers would take more than is usual.
    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            request_bytes: self.request_bytes.min(REQUEST_BYTES),
            sealers: self.sealers.min(SEALERS_MAX),
        }
    }

    /// Whether a spill file with these options, on this file system, goes this way.
    pub(super) fn serves(&self, file_system: u64, options: &StorageOptions) -> bool {
        self.file_system == file_system
            && self.sealed == (options.integrity == Integrity::Encrypt)
            && (options.request_bytes).is_none_or(|wanted| wanted == self.request_bytes)
            && self.depth == options.depth
            && (options.sealers).is_none_or(|wanted| wanted == self.sealers)
            && match options.path {
                IoPath::Auto => true,
                IoPath::Uring => self.path == "io_uring",
                IoPath::Plain => self.path != "io_uring",
            }
    }
}

/// What a measurement means to the planner.
pub(crate) fn link_of(bps: [f64; 2], latency_ns: [u64; 2]) -> Link {
    Link {
        out_bps: bps[0].clamp(BPS[0], BPS[1]),
        in_bps: bps[1].clamp(BPS[0], BPS[1]),
        copy_latency_ns: latency_ns[0].max(latency_ns[1]).min(LATENCY_NS_MAX),
        // Both directions share the disk and, with encryption, the cores.
        duplex: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_numbers_are_kept_in_bounds() {
        let link = link_of([0.0, f64::INFINITY], [0, u64::MAX]);
        assert_eq!((link.out_bps, link.in_bps), (1e6, 1e13));
        assert_eq!(link.copy_latency_ns, LATENCY_NS_MAX);
        let way = |request_bytes: u32| MeasuredWay {
            folder: PathBuf::new(),
            file_system: 0,
            path: "io_uring".into(),
            sealed: true,
            request_bytes,
            depth: 4,
            sealers: 1,
            bps: [1e9; 2],
            latency_ns: [1; 2],
        };
        // Eight buffers of 4 GiB would be no measurement saved, but a program lost.
        assert_eq!(way(u32::MAX).tuning().request_bytes, REQUEST_BYTES);
        assert_eq!(way(128 << 10).tuning().request_bytes, 128 << 10);
    }
}
