//! `replay --backend cuda`: plans, proves and executes a training step on a GPU.

use std::fmt::Write as _;
use std::path::Path;

use jetson_runtime::RuntimeError;
use jetson_runtime::cuda::{Class, CudaError, Device, Driver, Mechanism};
use lgm::planner::Methods;
use serde::Serialize;
use vtensor::Bytes;

use super::Answer;
use super::replay::prove;
use crate::args::ReplayArgs;
use crate::error::BenchError;
use crate::planning::Proven;
use crate::progress::Progress;
use crate::replay::{GpuOutcome, GpuSettings, replay_on_gpu};
use crate::report::{PlanReport, to_json};
use crate::text::Seconds;

/// What a replay on a GPU says.
#[derive(Clone, Debug, Serialize)]
struct GpuReplayReport {
    /// What was executed.
    #[serde(flatten)]
    plan: PlanReport,
    backend: &'static str,
    mechanism: &'static str,
    device: String,
    class: char,
    driver_version: i32,
    /// Planned bytes over executed bytes.
    scale_ratio: u64,
    executed_page_bytes: u64,
    steps: u64,
    measured_s: f64,
    /// Seconds of one step in which the host enqueued.
    host_s: f64,
    mismatches: u64,
    /// Waits that one step put on streams.
    waits: u64,
    /// How often the host waited, being two steps ahead.
    host_waits: u64,
    device_bytes: u64,
    pinned_bytes: u64,
    mappings: u64,
}

/// Opens the GPU that the command line names.
pub(super) fn open(library: Option<&Path>, ordinal: i32) -> Result<Device, CudaError> {
    let driver = match library {
        Some(path) => Driver::open(path)?,
        None => Driver::system()?,
    };
    Device::open(&driver, ordinal)
}

pub(super) fn run(args: &ReplayArgs, json: bool) -> Result<Answer, BenchError> {
    let gpu = &args.gpu;
    // Before anything takes time.
    let device = open(gpu.cuda_library.as_deref(), gpu.device_ordinal);
    let device = device.map_err(RuntimeError::from)?;
    let Proven {
        plan,
        report,
        details,
    } = prove(args, args.task.methods.unwrap_or(Methods::Swap), json)?;
    let settings = GpuSettings {
        mechanism: gpu.mechanism,
        force_host_spill: gpu.force_host_spill,
        steps: args.steps,
        scale: args.scale,
        paced: args.paced.then(|| args.time_scale.unwrap_or(args.scale)),
    };
    let bar = Progress::new("training steps", u64::from(args.steps.get()), !json);
    let outcome = replay_on_gpu(plan, &device, &settings, &mut || bar.advance())?;
    drop(bar);
    let report = report_of(report, &device, gpu.mechanism, &outcome);
    let text = if json {
        to_json(&report)
    } else {
        format!("{}{details}{}", report.plan, execution(&report, &outcome))
    };
    Ok(Answer {
        text,
        good: outcome.mismatches == 0,
    })
}

fn report_of(
    plan: PlanReport,
    device: &Device,
    mechanism: Mechanism,
    outcome: &GpuOutcome,
) -> GpuReplayReport {
    GpuReplayReport {
        plan,
        backend: "cuda",
        mechanism: mechanism.name(),
        device: device.facts().name.clone(),
        class: Class::of(device.facts()).letter(),
        driver_version: device.driver().version(),
        scale_ratio: outcome.ratio,
        executed_page_bytes: outcome.page.get(),
        steps: outcome.steps,
        measured_s: outcome.measured_s,
        host_s: outcome.host_s,
        mismatches: outcome.mismatches,
        waits: outcome.stats.waits / outcome.steps,
        host_waits: outcome.stats.host_waits,
        device_bytes: outcome.taken.device.0,
        pinned_bytes: outcome.taken.pinned.0,
        mappings: outcome.taken.mappings,
    }
}

/// What the text says about the execution.
fn execution(report: &GpuReplayReport, outcome: &GpuOutcome) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    row(
        "executed",
        format!(
            "on {} (class {}, CUDA {}.{}), {}, at 1/{} of the size: pages of {}",
            report.device,
            report.class,
            report.driver_version / 1000,
            report.driver_version % 1000 / 10,
            report.mechanism,
            report.scale_ratio,
            Bytes(report.executed_page_bytes)
        ),
    );
    row(
        "taken",
        format!(
            "{} of the device, {} pinned, {} mappings",
            outcome.taken.device, outcome.taken.pinned, report.mappings
        ),
    );
    row(
        "measured",
        format!(
            "{} a step, the mean of {}; {} of it on the host; {} waits of streams, and {} of the \
             host in all",
            Seconds(report.measured_s),
            report.steps,
            Seconds(report.host_s),
            report.waits,
            report.host_waits
        ),
    );
    row("wrong bytes", report.mismatches.to_string());
    if let Some(first) = outcome.first {
        let at = match first.op {
            Some(op) => format!("op {op}"),
            None => "the end".into(),
        };
        row(
            "first",
            format!("{at}: {} bytes of tensor {}", first.wrong, first.tensor),
        );
    }
    text
}
