//! Without a command: the built-in trace at half of its memory, by every policy.

use std::fmt::Write as _;

use lgm::planner::Methods;
use lgm::policy::Policy;
use serde::Serialize;
use vtensor::Bytes;

use super::replay::{good, settings};
use crate::args::ReplayArgs;
use crate::commands::Answer;
use crate::error::BenchError;
use crate::inputs::Inputs;
use crate::planning::{self, Proven};
use crate::progress::Progress;
use crate::replay::{Executed, replay};
use crate::report::{ReplayReport, to_json};
use crate::text::Seconds;

/// What the run says as JSON: a replay for each policy.
#[derive(Debug, Serialize)]
struct Bundled {
    trace: String,
    device: String,
    runs: Vec<ReplayReport>,
}

pub(super) fn run(json: bool) -> Result<Answer, BenchError> {
    let args = ReplayArgs::bundled();
    let inputs = Inputs::read(&args.task)?;
    let settings = settings(&args);
    let each = u64::from(args.steps.get()) + 1;
    let bar = Progress::new("planning and replaying", 5 * each, !json);
    let mut runs = Vec::new();
    let mut executed = None;
    let swap = [Policy::None, Policy::Lru, Policy::Whole, Policy::Vtensor];
    let swap = swap.map(|policy| (policy, Methods::Swap));
    for (policy, methods) in swap.into_iter().chain([(Policy::Vtensor, Methods::Both)]) {
        let request = inputs.request(policy, methods, args.task.page_bytes);
        let Proven { plan, report, .. } =
            planning::prepare(&request, inputs.trace.peak_bytes())?.map_err(|b| b.violation)?;
        bar.advance();
        let outcome = replay(plan, &settings, &mut || bar.advance())?;
        executed = Some(outcome.executed);
        runs.push(ReplayReport {
            plan: report,
            steps: outcome.steps,
            measured_s: outcome.measured_s,
            mismatches: outcome.mismatches,
            digest: outcome.digest,
            digests_equal: outcome.digests_equal,
        });
    }
    drop(bar);
    let good = runs.iter().all(good);
    let text = if json {
        to_json(&Bundled {
            trace: args.task.trace.display().to_string(),
            device: args.task.device.clone(),
            runs,
        })
    } else {
        text(&args, &inputs, &runs, executed)
    };
    Ok(Answer { text, good })
}

fn text(
    args: &ReplayArgs,
    inputs: &Inputs,
    runs: &[ReplayReport],
    executed: Option<Executed>,
) -> String {
    let mut text = String::new();
    let trace = &inputs.trace;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "A training step of {} (batch {}, {}) with {} at its peak, in {} of memory ({}),\n\
         planned for {}, proven, and executed here {} times at 1/{:.0} of its size{}.\n",
        trace.model(),
        trace.batch(),
        trace.optimizer(),
        trace.peak_bytes(),
        inputs.budget,
        args.task.budget,
        inputs.profile.name,
        args.steps,
        1.0 / args.scale,
        executed.map_or(String::new(), |e| format!(
            " (pages of {})",
            Bytes(e.page.get())
        )),
    );
    let _ = writeln!(
        text,
        "{:<9}{:>12}{:>14}{:>12}{:>11}{:>8}{:>11}  {:<9}{:>12}  digests",
        "policy",
        "memory",
        "moved a step",
        "made again",
        "step",
        "ratio",
        "stall",
        "verdict",
        "wrong bytes"
    );
    for run in runs {
        let plan = &run.plan;
        let moved = plan.moved_out_bytes + plan.moved_in_bytes;
        let _ = writeln!(
            text,
            "{:<9}{:>12}{:>14}{:>12}{:>11}{:>8.3}{:>11}  {:<9}{:>12}  {}",
            match plan.methods.as_str() {
                "swap" => &plan.policy,
                methods => methods,
            },
            Bytes(plan.arena_bytes()).to_string(),
            Bytes(moved).to_string(),
            Bytes(plan.recomputed_bytes).to_string(),
            Seconds(plan.predicted_s).to_string(),
            plan.predicted_ratio,
            Seconds(plan.stall_s).to_string(),
            plan.verdict,
            run.mismatches,
            if run.digests_equal { "equal" } else { "DIFFER" },
        );
    }
    text += &explanation(args, runs);
    text
}

/// What the table shows, and what to try next.
fn explanation(args: &ReplayArgs, runs: &[ReplayReport]) -> String {
    let bound = runs.last().map_or(1.0, |run| run.plan.bound_ratio);
    let shows = if runs.iter().all(good) {
        "the step runs in half of its memory, and all that comes back is right"
    } else {
        "NOT what it should; please report it"
    };
    let (name, device) = (args.task.trace.display(), &args.task.device);
    format!(
        "
What it shows: {shows}.
none keeps no budget and is the reference; lru moves on demand, whole plans whole tensors,
both in one contiguous arena; vtensor plans pieces of tensors, on pages; both does, and runs
cheap ops again where that is faster than moving what they made. step, ratio and stall are
the device's, as the cost model predicts; moving alone cannot have a ratio below {bound:.3}.
Wrong bytes were counted by ops that check all that they read; digests compare the executed
steps with each other.

Next (cargo run --release -- COMMAND ..., or vtensor-bench COMMAND ...):
  plan {name} --device rtx3060 --budget 35%
  replay {name} --device {device} --budget 70% --scale 1/512 \\
      --paced --time-scale 1/4       compares measured and predicted time
  replay --help
"
    )
}
