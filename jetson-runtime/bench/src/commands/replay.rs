//! `replay`: plans, proves and executes a training step, checking every byte.

use std::fmt::Write as _;

use lgm::planner::Methods;

use crate::args::ReplayArgs;
use crate::commands::Answer;
use crate::error::BenchError;
use crate::inputs::Inputs;
use crate::planning::{self, Proven};
use crate::progress::Progress;
use crate::replay::{Outcome, Settings, replay};
use crate::report::{ReplayReport, to_json};
use crate::text::Seconds;
use lgm::policy::Policy;
use vtensor::Bytes;

pub(super) fn run(args: &ReplayArgs, json: bool) -> Result<Answer, BenchError> {
    let Proven {
        plan,
        report,
        details,
    } = prove(
        args,
        args.task.policy(),
        args.task.methods_or(Methods::default())?,
        json,
    )?;
    let settings = settings(args);
    let bar = Progress::new("training steps", u64::from(args.steps.get()), !json);
    let outcome = replay(plan, &settings, &mut || bar.advance())?;
    drop(bar);
    let report = ReplayReport {
        plan: report,
        steps: outcome.steps,
        measured_s: outcome.measured_s,
        mismatches: outcome.mismatches,
        digest: outcome.digest.clone(),
        digests_equal: outcome.digests_equal,
    };
    let text = if json {
        to_json(&report)
    } else {
        format!("{report}{details}{}", execution(&outcome))
    };
    Ok(Answer {
        text,
        good: good(&report),
    })
}

/// Reads, plans and proves what is to be replayed, wherever it is executed then.
pub(super) fn prove(
    args: &ReplayArgs,
    policy: Policy,
    methods: Methods,
    json: bool,
) -> Result<Proven, BenchError> {
    let inputs = Inputs::read(&args.task)?.with_link_gbps(args.link_gbps);
    let request = inputs.request(policy, methods, args.task.page_bytes);
    let _busy = Progress::busy("planning", !json);
    let proven = planning::prepare(&request, inputs.trace.peak_bytes())?;
    Ok(proven.map_err(|broken| broken.violation)?)
}

/// Whether a replay found nothing wrong.
pub(super) fn good(report: &ReplayReport) -> bool {
    report.mismatches == 0 && report.digests_equal
}

pub(super) fn settings(args: &ReplayArgs) -> Settings {
    Settings {
        spill: args.spill.tier(),
        storage: args.spill.storage(),
        steps: args.steps,
        scale: args.scale,
        paced: args.paced,
        time_scale: args.time_scale.unwrap_or(args.scale),
        throttled: args.link_gbps.is_some(),
        watch_process: true,
        lazy_page_tables: false,
    }
}

/// What the text says about the execution.
fn execution(outcome: &Outcome) -> String {
    let executed = outcome.executed;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    row(
        "executed",
        format!(
            "at 1/{} of the size: pages of {}, arena {}, spill tier {}",
            outcome.ratio,
            Bytes(executed.page.get()),
            executed.arena,
            executed.spill
        ),
    );
    if let Some(process) = outcome.held.process {
        row(
            "held",
            format!(
                "{} in the arena; {process} by PSS less baseline and spill tier, {} allowed",
                outcome.held.arena, outcome.held.process_allowed
            ),
        );
    }
    if let Some(mismatch) = &outcome.first_mismatch {
        row("first", mismatch.to_string());
    }
    if let Some(paced) = outcome.paced {
        row(
            "paced",
            format!(
                "{} predicted at this time scale, measured is {:.3} of that",
                Seconds(paced.predicted_s),
                outcome.measured_s / paced.predicted_s
            ),
        );
        row(
            "",
            format!(
                "{} with ops as they took here ({} were slower than planned), measured is {:.3} \
                 of that",
                Seconds(paced.with_ops_as_executed_s),
                paced.slower_ops,
                outcome.measured_s / paced.with_ops_as_executed_s
            ),
        );
    }
    text
}
