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
    out_bytes_per_s: f64,
    in_bytes_per_s: f64,
    out_latency_ns: u64,
    in_latency_ns: u64,
    /// Over direct requests of 1 MiB with nothing in between.
    out_over_raw: f64,
    in_over_raw: f64,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProbeReport {
    folder: PathBuf,
    depth: u32,
    raw_out_bytes_per_s: f64,
    raw_in_bytes_per_s: f64,
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
        raw_out_bytes_per_s: 0.0,
        raw_in_bytes_per_s: 0.0,
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
        // The best that the disk has shown is what each way is compared with.
        self.raw_out_bytes_per_s = self.raw_out_bytes_per_s.max(probe.raw_bps[0]);
        self.raw_in_bytes_per_s = self.raw_in_bytes_per_s.max(probe.raw_bps[1]);
        self.limits.clone_from(&probe.limits);
        self.ways.push(Way {
            path: probe.path,
            encrypted: integrity == Integrity::Encrypt,
            request_bytes: probe.request_bytes,
            out_bytes_per_s: probe.bps[0],
            in_bytes_per_s: probe.bps[1],
            out_latency_ns: probe.latency_ns[0],
            in_latency_ns: probe.latency_ns[1],
            out_over_raw: probe.bps[0] / probe.raw_bps[0],
            in_over_raw: probe.bps[1] / probe.raw_bps[1],
        });
    }
}

pub(super) fn table(report: &ProbeReport) -> String {
    let gb = |bps: f64| format!("{:.2} GB/s", bps / 1e9);
    let mut text = format!(
        "{}: {} requests in flight, each of the size that was measured to do; a copy of 8 MiB at a \
         time.\n\n",
        report.folder.display(),
        report.depth
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<14}{:<10}{:>10}{:>12}{:>12}{:>12}{:>12}{:>14}{:>14}",
        "path",
        "sealed",
        "request",
        "out",
        "in",
        "out, 4 KiB",
        "in, 4 KiB",
        "out over raw",
        "in over raw"
    );
    for way in &report.ways {
        let us = |ns: u64| format!("{} µs", ns / 1000);
        let _ = writeln!(
            text,
            "{:<14}{:<10}{:>10}{:>12}{:>12}{:>12}{:>12}{:>14.2}{:>14.2}",
            way.path,
            if way.encrypted { "AES-256" } else { "CRC-32C" },
            Bytes(way.request_bytes.into()).to_string(),
            gb(way.out_bytes_per_s),
            gb(way.in_bytes_per_s),
            us(way.out_latency_ns),
            us(way.in_latency_ns),
            way.out_over_raw,
            way.in_over_raw,
        );
    }
    let _ = writeln!(
        text,
        "{:<34}{:>12}{:>12}\n\nraw: direct requests of 1 MiB, one after the other, right after \
         each way; above is the best.",
        "raw",
        gb(report.raw_out_bytes_per_s),
        gb(report.raw_in_bytes_per_s)
    );
    for line in report
        .refused
        .iter()
        .map(String::as_str)
        .chain(report.limits.iter().copied())
    {
        let _ = writeln!(text, "{line}");
    }
    text
}
