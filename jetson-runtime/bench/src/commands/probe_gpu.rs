//! `probe` without a folder: what the GPU of this machine is, what works on it, and what is chosen.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use jetson_runtime::RuntimeError;
use jetson_runtime::cuda::probe::{Choices, Decision, Probe, SpillPlace, System, Validity};
use serde::Serialize;
use vtensor::Bytes;

use super::Answer;
use super::replay_gpu::open;
use crate::args::{GpuProbeArgs, SpillPlaceArg};
use crate::error::BenchError;
use crate::output_file;
use crate::report::to_json;

/// What is said.
#[derive(Clone, Debug, Serialize)]
struct GpuProbeReport {
    probe: Probe,
    /// Whether it was read from a file, not measured now.
    cached: bool,
    decision: Decision,
}

pub(super) fn run(args: &GpuProbeArgs, json: bool) -> Result<Answer, BenchError> {
    let device = open(args.cuda_library.as_deref(), args.device_ordinal);
    let device = device.map_err(RuntimeError::from)?;
    let system = System::here();
    let validity = Validity::of(&device, &system);
    let known = args
        .cache
        .as_deref()
        .and_then(|path| cached(path, &validity));
    let cached = known.is_some();
    let probe = match known {
        // What was measured holds; memory changes all the time.
        Some(probe) => {
            let (free, _) = device.memory().map_err(RuntimeError::from)?;
            Probe {
                free_bytes: free.0,
                system,
                ..probe
            }
        }
        None => Probe::of(&device, system).map_err(RuntimeError::from)?,
    };
    if let (Some(path), false) = (&args.cache, cached) {
        let written = output_file::write(path, to_json(&probe).as_bytes());
        written.map_err(|source| BenchError::File {
            path: path.clone(),
            source,
        })?;
    }
    let choices = Choices {
        mechanism: args.mechanism,
        spill: args.gpu_spill.map(|spill| match spill {
            SpillPlaceArg::Host => SpillPlace::Host,
            SpillPlaceArg::Storage => SpillPlace::Storage,
        }),
        budget: None,
    };
    let decision = Decision::of(&probe, &choices).map_err(RuntimeError::from)?;
    let report = GpuProbeReport {
        probe,
        cached,
        decision,
    };
    let text = if json {
        to_json(&report)
    } else {
        table(&report)
    };
    Ok(Answer { text, good: true })
}

/// A probe from a file, if it is of this machine. Any other file is measured anew and replaced.
fn cached(path: &Path, validity: &Validity) -> Option<Probe> {
    let probe: Probe = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (probe.validity == *validity).then_some(probe)
}

fn table(report: &GpuProbeReport) -> String {
    let GpuProbeReport {
        probe,
        cached,
        decision,
    } = report;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    let (major, minor) = probe.compute;
    let driver = probe.validity.driver_version;
    row(
        "device",
        format!(
            "{}, compute {major}.{minor}, driver of CUDA {}.{}, {} copy engines",
            probe.validity.device,
            driver / 1000,
            driver % 1000 / 10,
            probe.copy_engines
        ),
    );
    row("class", format!("{}: {}", probe.class, probe.class_means));
    let (free, all) = (Bytes(probe.free_bytes), Bytes(probe.memory_bytes));
    row("memory", format!("{free} free of {all}"));
    if let Some(release) = probe.system.l4t {
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
    if *cached {
        row(
            "",
            "from the file; it is of this device, driver and kernel".into(),
        );
    }
    let spill = match decision.spill {
        SpillPlace::Host => "host memory",
        SpillPlace::Storage => "storage",
    };
    let budget = Bytes(decision.budget_bytes);
    row(
        "chosen",
        format!("{}, spilling to {spill}, {budget}", decision.mechanism),
    );
    for reason in &decision.reasons {
        row("because", reason.clone());
    }
    for warning in &decision.warnings {
        row("warning", warning.clone());
    }
    text
}
