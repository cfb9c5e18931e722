//! `plan`: plans a training step for a budget and says what it costs.

use lgm::plan_file;
use lgm::planner::Methods;
use vtensor::Bytes;

use crate::args::PlanArgs;
use crate::commands::Answer;
use crate::error::BenchError;
use crate::inputs::Inputs;
use crate::output_file;
use crate::planning;
use crate::progress::Progress;
use crate::report::{PlanReport, to_json};

pub(super) fn run(args: &PlanArgs, json: bool) -> Result<Answer, BenchError> {
    let all = Inputs::read(&args.task)?;
    let task = &args.task;
    let methods = task.methods_or(Methods::default())?;
    let request_for = |inputs| Inputs::request(inputs, task.policy(), methods, task.page_bytes);
    let (inputs, kept) = match args.keep {
        Some(kinds) => all.clone().keeping(kinds)?,
        None => (all.clone(), Bytes(0)),
    };
    let request = request_for(&inputs);
    let busy = Progress::busy("planning", !json);
    let mut proven = match planning::prepare(&request, inputs.trace.peak_bytes())? {
        Ok(proven) => proven,
        // What breaks a rule is reported in full, but never written.
        Err(broken) => {
            let report = &broken.report;
            let text = if json {
                to_json(report)
            } else {
                report.to_string()
            };
            return Ok(Answer { text, good: false });
        }
    };
    if kept > Bytes(0) {
        let unkept = planning::plan(&request_for(&all)).ok();
        proven.report.kept_bytes = kept.0;
        proven.report.predicted_unkept_s =
            unkept.map(|plan| plan.timeline.iteration_ns as f64 * 1e-9);
    }
    drop(busy);
    check_wear(&proven.report, args.max_write_gb_per_day)?;
    if let Some(path) = &args.output {
        let file = plan_file::encode(&proven.plan);
        output_file::write(path, &file).map_err(|source| BenchError::Output {
            path: path.clone(),
            source,
        })?;
    }
    let text = if json {
        to_json(&proven.report)
    } else {
        format!("{}{}", proven.report, proven.details)
    };
    Ok(Answer { text, good: true })
}

/// Refuses a plan that writes more to flash than it may.
fn check_wear(report: &PlanReport, max: Option<Bytes>) -> Result<(), BenchError> {
    let written = report.written_per_step_bytes.map(Bytes);
    let per_day = report.written_per_day_bytes.map(Bytes);
    match (written, per_day, max) {
        (Some(written), Some(per_day), Some(max)) if per_day > max => Err(BenchError::Wear {
            written,
            per_day,
            max,
            steps: max.0 / written.0,
        }),
        _ => Ok(()),
    }
}
