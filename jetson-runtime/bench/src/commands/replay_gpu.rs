//! `replay --backend cuda`: plans, proves and executes a training step on a GPU.

use std::fmt::Write as _;
use std::path::PathBuf;

use jetson_runtime::cuda::probe::{Choices, Decision, Gpu, Room, SpillPlace};
use jetson_runtime::cuda::{Class, CudaError, Device, Mechanism};
use jetson_runtime::device::Source;
use jetson_runtime::{KnownGpu, RuntimeError, Settings, Spill};
use lgm::plan::Plan;
use lgm::planner::Methods;
use lgm::policy::Policy;
use serde::Serialize;
use vtensor::{Bytes, PageBytes};

use super::Answer;
use super::probe_gpu::{driver, rows};
use super::replay::prove;
use crate::args::{ReplayArgs, methods};
use crate::error::BenchError;
use crate::planning::Proven;
use crate::progress::Progress;
use crate::replay::{Executed, GpuOutcome, GpuSettings, replay_on_gpu};
use crate::report::{PlanReport, to_json};
use crate::text::Seconds;

/// What a replay on a GPU says.
#[derive(Clone, Debug, Serialize)]
struct GpuReplayReport {
    /// What was executed.
    #[serde(flatten)]
    plan: PlanReport,
    backend: &'static str,
    mechanism: Mechanism,
    gpu: Gpu,
    class: Class,
    /// Which profile the GPU is known from; null if it was probed now.
    profile: Option<PathBuf>,
    decision: Decision,
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
    /// How often the host waited: being two steps ahead, or for a copy by way of a file.
    host_waits: u64,
    device_bytes: u64,
    pinned_bytes: u64,
    mappings: u64,
}

/// What executes, and how.
struct Chosen {
    device: Device,
    known: KnownGpu,
    decision: Decision,
    policy: Policy,
    /// Where pieces go.
    spill: Spill,
}

impl Chosen {
    /// Opens the GPU that the command line names, and decides by what is known about it.
    fn new(args: &ReplayArgs) -> Result<Self, BenchError> {
        let gpu = &args.gpu;
        let profile = Settings::load()?.profile();
        let choices = Choices {
            mechanism: gpu.mechanism,
            spill: match args.spill.tier() {
                Spill::Ram => gpu.force_host_spill.then_some(SpillPlace::Host),
                Spill::File(_) => Some(SpillPlace::Storage),
            },
            budget: None,
        };
        let decided = || -> Result<(Device, KnownGpu, Decision), CudaError> {
            let driver = driver(gpu.cuda_library.as_deref())?;
            let device = Device::open(&driver, gpu.device_ordinal)?;
            let known = KnownGpu::of(&device, profile.as_deref())?;
            let room = Room::now(&device)?;
            let decision = Decision::of(&known.probe, &room, &choices)?;
            Ok((device, known, decision))
        };
        let (device, known, decision) = decided().map_err(RuntimeError::from)?;
        let policy = policy(decision.mechanism, args).map_err(RuntimeError::from)?;
        Ok(Self {
            device,
            known,
            decision,
            policy,
            spill: args.spill.tier(),
        })
    }

    /// How room is made, if nothing else was asked for. Where only storage frees memory and no
    /// folder is named, ops run again and nothing moves.
    fn methods(&self) -> Methods {
        match (self.decision.spill, &self.spill) {
            (SpillPlace::Storage, Spill::Ram) => Methods::Recompute,
            _ => Methods::Both,
        }
    }

    /// Refuses a plan that the device has no room for. Managed memory may be more than there is.
    fn check_room(&self, plan: &Plan, page: PageBytes) -> Result<(), CudaError> {
        if self.decision.mechanism == Mechanism::Managed {
            return Ok(());
        }
        let program = &plan.program;
        let ratio = program.page_bytes.get() / page.get();
        let arena = u64::from(program.arena_pages) * page.get();
        let in_memory = self.spill == Spill::Ram && self.known.probe.class.one_memory();
        let spilled = match in_memory {
            true => program.spill_bytes.0 / ratio,
            false => 0,
        };
        self.decision.afford(Bytes(arena.saturating_add(spilled)))
    }
}

/// The policy to plan with: in one allocation tensors are whole.
fn policy(mechanism: Mechanism, args: &ReplayArgs) -> Result<Policy, CudaError> {
    match (mechanism, args.task.policy) {
        (Mechanism::Packed, None) => Ok(Policy::Whole),
        (Mechanism::Packed, Some(policy)) if !policy.is_contiguous() => Err(CudaError::Refused {
            choice: "packed",
            reason: format!(
                "the policy `{}` scatters tensors over pages; leave --policy out, or take one \
                 that packs, such as `whole`",
                policy.name()
            ),
        }),
        _ => Ok(args.task.policy()),
    }
}

pub(super) fn run(args: &ReplayArgs, json: bool) -> Result<Answer, BenchError> {
    // Before anything takes time.
    let chosen = Chosen::new(args)?;
    let methods = methods(chosen.policy, args.task.methods, chosen.methods())?;
    let Proven {
        plan,
        report,
        details,
    } = prove(args, chosen.policy, methods, json)?;
    let page = Executed::page_of(plan.program.page_bytes, args.scale);
    let room = chosen.check_room(&plan, page);
    room.map_err(RuntimeError::from)?;
    let settings = GpuSettings {
        mechanism: chosen.decision.mechanism,
        spill: args.spill.tier(),
        storage: args.spill.storage(),
        force_host_spill: args.gpu.force_host_spill,
        steps: args.steps,
        scale: args.scale,
        paced: args.paced.then(|| args.time_scale.unwrap_or(args.scale)),
    };
    let bar = Progress::new("training steps", u64::from(args.steps.get()), !json);
    let outcome = replay_on_gpu(plan, &chosen.device, &settings, &mut || bar.advance())?;
    drop(bar);
    let report = report_of(report, &chosen, &outcome);
    let text = if json {
        to_json(&report)
    } else {
        let execution = execution(&report, &chosen.known.source, &outcome);
        format!("{}{details}{execution}", report.plan)
    };
    Ok(Answer {
        text,
        good: outcome.mismatches == 0,
    })
}

fn report_of(plan: PlanReport, chosen: &Chosen, outcome: &GpuOutcome) -> GpuReplayReport {
    let Chosen {
        known, decision, ..
    } = chosen;
    GpuReplayReport {
        plan,
        backend: "cuda",
        mechanism: decision.mechanism,
        gpu: known.probe.gpu.clone(),
        class: known.probe.class,
        profile: match &known.source {
            Source::Profile(path) => Some(path.clone()),
            Source::Now(_) => None,
        },
        decision: decision.clone(),
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
fn execution(report: &GpuReplayReport, source: &Source, outcome: &GpuOutcome) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    row(
        "probe",
        match source {
            Source::Profile(path) => format!("{}, as {} has it", report.gpu, path.display()),
            Source::Now(why) => format!("{}, probed now: {why}", report.gpu),
        },
    );
    for (name, value) in rows(&report.decision) {
        row(name, value);
    }
    row(
        "executed",
        format!(
            "by {}, at 1/{} of the size: pages of {}",
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
