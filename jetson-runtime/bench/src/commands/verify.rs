//! `verify`: proves a plan file, alone from the file.

use std::fs::File;

use lgm::plan::Plan;
use lgm::plan_file;
use lgm::verify::VerifiedPlan;

use crate::args::VerifyArgs;
use crate::commands::Answer;
use crate::error::BenchError;
use crate::report::{PlanReport, VerifyReport, render};

pub(super) fn run(args: &VerifyArgs, json: bool) -> Result<Answer, BenchError> {
    let path = args.plan.clone();
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(source) => return Err(BenchError::File { path, source }),
    };
    let plan = plan_file::read(file).map_err(|source| BenchError::PlanFile { path, source })?;
    let mut report = describe(&plan);
    match VerifiedPlan::new(plan) {
        Ok(plan) => {
            report.verdict = PlanReport::OK.into();
            report.pages_used = plan.facts().pages_used;
            report.spill_used_bytes = plan.facts().spill_used.0;
        }
        Err(violation) => report.verdict = violation.to_string(),
    }
    Ok(Answer {
        text: render(&report, json),
        good: report.verdict == PlanReport::OK,
    })
}

/// What the file says, before anything is proven.
fn describe(plan: &Plan) -> VerifyReport {
    let program = &plan.program;
    VerifyReport {
        verdict: String::new(),
        model: plan.origin.model.clone(),
        device: plan.profile.name.clone(),
        policy: plan.origin.policy.clone(),
        budget_bytes: plan.origin.budget.0,
        pages: u64::from(program.arena_pages),
        page_bytes: program.page_bytes.get(),
        ops: plan.skeleton.ops.len() as u64,
        copies: (program.outs.len() + program.ins.len()) as u64,
        pages_used: 0,
        spill_used_bytes: 0,
    }
}
