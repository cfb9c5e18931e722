//! `probe` without a folder: what the GPU of this machine is, what works on it, and what is chosen.

use std::fmt::Write as _;
use std::path::Path;

use jetson_runtime::RuntimeError;
use jetson_runtime::cuda::probe::{Choices, Decision, Probe, Room, SpillPlace};
use jetson_runtime::cuda::{CudaError, Device, Driver};
use serde::Serialize;
use vtensor::Bytes;

use super::Answer;
use crate::args::{GpuProbeArgs, SpillPlaceArg};
use crate::error::BenchError;
use crate::report::to_json;

/// What is said.
#[derive(Clone, Debug, Serialize)]
struct GpuProbeReport {
    probe: Probe,
    room: Room,
    decision: Decision,
}

/// Opens the driver that the command line names, or the system's.
pub(super) fn driver(library: Option<&Path>) -> Result<Driver, CudaError> {
    match library {
        Some(path) => Driver::open(path),
        None => Driver::system(),
    }
}

/// Probes the GPU that the command line names, and decides.
pub(super) fn run(args: &GpuProbeArgs, json: bool) -> Result<Answer, BenchError> {
    let report = report(args).map_err(RuntimeError::from)?;
    let text = if json {
        to_json(&report)
    } else {
        table(&report)
    };
    Ok(Answer { text, good: true })
}

fn report(args: &GpuProbeArgs) -> Result<GpuProbeReport, CudaError> {
    let driver = driver(args.cuda_library.as_deref())?;
    let device = Device::open(&driver, args.device_ordinal.unwrap_or(0))?;
    let choices = Choices {
        mechanism: args.mechanism,
        spill: args.gpu_spill.map(|spill| match spill {
            SpillPlaceArg::Host => SpillPlace::Host,
            SpillPlaceArg::Storage => SpillPlace::Storage,
        }),
        budget: args.gpu_budget,
    };
    let probe = Probe::of(&device)?;
    let room = Room::now(&device)?;
    Ok(GpuProbeReport {
        decision: Decision::of(&probe, &room, &choices)?,
        probe,
        room,
    })
}

/// Probes every GPU, or the one that the command line names; and why one is missing.
///
/// # Errors
/// If something was named that is not there.
pub(super) fn all(args: &GpuProbeArgs) -> Result<(Vec<Probe>, Vec<String>), BenchError> {
    let named = args.cuda_library.is_some() || args.device_ordinal.is_some();
    let probed = driver(args.cuda_library.as_deref()).and_then(|driver| {
        let ordinals = match args.device_ordinal {
            Some(ordinal) => ordinal..ordinal + 1,
            None => 0..driver.devices()?,
        };
        let probe = |ordinal| Probe::of(&Device::open(&driver, ordinal)?);
        Ok(ordinals.map(probe).collect::<Vec<_>>())
    });
    let probed = match probed {
        Err(error) if named => return Err(RuntimeError::from(error).into()),
        Err(error) => vec![Err(error)],
        Ok(probed) => probed,
    };
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for probe in probed {
        match probe {
            Ok(probe) => found.push(probe),
            Err(error) if named => return Err(RuntimeError::from(error).into()),
            Err(error) => missing.push(error.to_string()),
        }
    }
    Ok((found, missing))
}

/// What was chosen and why, as rows of a table.
pub(super) fn rows(decision: &Decision) -> Vec<(&'static str, String)> {
    let spill = match decision.spill {
        SpillPlace::Host => "host memory",
        SpillPlace::Storage => "storage",
    };
    let budget = Bytes(decision.budget_bytes);
    let chosen = format!("{}, spilling to {spill}, {budget}", decision.mechanism);
    let mut rows = vec![("chosen", chosen)];
    let because = |reason: &String| ("because", reason.clone());
    rows.extend(decision.reasons.iter().map(because));
    rows.extend((decision.warnings.iter()).map(|warning| ("warning", warning.clone())));
    rows
}

fn table(report: &GpuProbeReport) -> String {
    let GpuProbeReport {
        probe,
        room,
        decision,
    } = report;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    let (major, minor) = probe.compute;
    row(
        "device",
        format!(
            "{}, compute {major}.{minor}, copy engines: {}",
            probe.gpu, probe.copy_engines
        ),
    );
    row("class", probe.class.to_string());
    let (free, all) = (Bytes(room.free_bytes), Bytes(probe.memory_bytes));
    row("memory", format!("{free} free of {all}"));
    if let Some(release) = room.l4t {
        row("L4T", release.to_string());
    }
    for trial in &probe.trials {
        let works = if trial.works { "works" } else { "fails" };
        row("trial", format!("{}: {works}, {}", trial.name, trial.found));
    }
    if let Some(link) = &probe.link {
        let gb = |bps: f64| format!("{:.2} GB/s", bps * 1e-9);
        let mut value = format!(
            "{} out, {} in, {} both at once, {:.1} µs a copy beside its bytes",
            gb(link.out_bps),
            gb(link.in_bps),
            gb(link.both_bps),
            link.copy_latency_ns as f64 * 1e-3
        );
        if let Some([out, r#in]) = link.prefetch_bps {
            let _ = write!(value, "; prefetches {} out, {} in", gb(out), gb(r#in));
        }
        row("link", value);
    }
    for (name, value) in rows(decision) {
        row(name, value);
    }
    text
}
