//! `probe` with a folder: what spilling there achieves on this machine, in each way.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetson_runtime::{
    Integrity, IoPath, MeasuredWay, RuntimeError, StorageOptions, StorageProbe, storage,
};
use serde::Serialize;
use vtensor::Bytes;

use crate::error::BenchError;

/// How long each way is measured.
const TIME: Duration = Duration::from_secs(1);

/// One way to reach the folder.
#[derive(Clone, Debug, Serialize)]
struct Way {
    path: &'static str,
    encrypted: bool,
    /// The smallest request that is nearly as fast as any.
    request_bytes: u32,
    /// Threads that seal beside an engine, to keep up with the disk.
    sealers: u32,
    out: Side,
    r#in: Side,
}

/// One direction of a way.
#[derive(Clone, Debug, Serialize)]
struct Side {
    bytes_per_s: f64,
    /// Of a copy of one block.
    latency_ns: u64,
    /// The disk alone: requests of the same size, new bytes each, as many in flight, without a
    /// pause.
    disk_bytes_per_s: f64,
    /// The one over the other, of the same moments.
    over_disk: f64,
    /// What one core copies and seals, or opens and copies, without a disk.
    seal_bytes_per_s: f64,
    /// CPU time over time.
    busy: f64,
    /// `disk`, `CPU` or `latency`.
    limited_by: &'static str,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProbeReport {
    folder: PathBuf,
    depth: u32,
    /// Of a copy that was measured.
    copy_bytes: u64,
    ways: Vec<Way>,
    /// Why a way is missing.
    refused: Vec<String>,
    /// What limits the folder.
    limits: Vec<&'static str>,
}

/// Measures every way to reach a folder; the one that the runtime prefers is the first.
pub(super) fn measure(
    folder: &Path,
    memory_backed: bool,
) -> Result<(ProbeReport, Vec<MeasuredWay>), BenchError> {
    let defaults = StorageOptions::default();
    let mut report = ProbeReport {
        folder: folder.into(),
        depth: defaults.depth,
        copy_bytes: 0,
        ways: Vec::new(),
        refused: Vec::new(),
        limits: Vec::new(),
    };
    let mut ways = Vec::new();
    for path in [IoPath::Uring, IoPath::Plain] {
        for integrity in [Integrity::Encrypt, Integrity::Checksum] {
            let options = StorageOptions {
                integrity,
                path,
                memory_backed,
                ..defaults
            };
            match storage::probe(folder, &options, TIME) {
                Ok(probe) => {
                    report.note(&probe, integrity);
                    let way = MeasuredWay::new(folder, &options, &probe);
                    ways.push(way.map_err(|source| BenchError::File {
                        path: folder.into(),
                        source,
                    })?);
                }
                // Kernels may forbid the ring; whatever else fails, fails for every way.
                Err(error @ RuntimeError::System { .. }) if path == IoPath::Uring => {
                    report.refused.push(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok((report, ways))
}

impl ProbeReport {
    fn note(&mut self, probe: &StorageProbe, integrity: Integrity) {
        self.copy_bytes = probe.copy_bytes;
        self.limits.clone_from(&probe.limits);
        let side = |at: usize| Side {
            bytes_per_s: probe.bps[at],
            latency_ns: probe.latency_ns[at],
            disk_bytes_per_s: probe.raw_bps[at],
            over_disk: probe.over_raw[at],
            seal_bytes_per_s: probe.seal_bps[at],
            busy: probe.busy[at],
            limited_by: probe.limited_by()[at],
        };
        self.ways.push(Way {
            path: probe.path,
            encrypted: integrity == Integrity::Encrypt,
            request_bytes: probe.request_bytes,
            sealers: probe.sealers,
            out: side(0),
            r#in: side(1),
        });
    }
}

pub(super) fn table(report: &ProbeReport) -> String {
    let mut text = format!(
        "{}: {} requests in flight, each of the size that was measured to do; a copy of {} at a \
         time.\n\n",
        report.folder.display(),
        report.depth,
        Bytes(report.copy_bytes)
    );
    let mut line = |cells: [&str; 12]| {
        let widths = [14, 9, 8, 9, 5, 12, 9, 12, 8, 14, 6, 10];
        for (at, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match at {
                0..5 => write!(text, "{cell:<width$}"),
                _ => write!(text, "{cell:>width$}"),
            };
        }
        text.push('\n');
    };
    line([
        "path", "sealed", "request", "threads", "", "rate", "4 KiB", "disk", "of it", "sealing",
        "busy", "limit",
    ]);
    for way in &report.ways {
        let sealed = if way.encrypted { "AES-256" } else { "CRC-32C" };
        let request = Bytes(way.request_bytes.into()).to_string();
        let threads = (1 + way.sealers).to_string();
        for (name, side) in [("out", &way.out), ("in", &way.r#in)] {
            let gb = |bps: f64| format!("{:.2} GB/s", bps / 1e9);
            line([
                way.path,
                sealed,
                &request,
                &threads,
                name,
                &gb(side.bytes_per_s),
                &format!("{} µs", side.latency_ns / 1000),
                &gb(side.disk_bytes_per_s),
                &format!("{:.2}", side.over_disk),
                &gb(side.seal_bytes_per_s),
                &format!("{:.2}", side.busy),
                side.limited_by,
            ]);
        }
    }
    text.push_str(
        "\nthreads: those that seal, where there are cores for as many as the disk keeps busy;\n\
         disk: the disk alone, requests of that size between as much memory, new bytes each,\n\
         without a pause, as many in flight, in turns with the rate; sealing: what one core\n\
         copies and seals, or opens and copies, without a disk; busy: CPU time over time.\n",
    );
    let limits = report.limits.iter().copied();
    for line in report.refused.iter().map(String::as_str).chain(limits) {
        let _ = writeln!(text, "{line}");
    }
    text
}
