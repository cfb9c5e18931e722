//! `plan`: plans a training step for a budget and says what it costs.

use lgm::plan_file;
use lgm::planner::Methods;

use crate::args::PlanArgs;
use crate::commands::Answer;
use crate::error::BenchError;
use crate::inputs::Inputs;
use crate::output_file;
use crate::planning;
use crate::progress::Progress;
use crate::report::to_json;

pub(super) fn run(args: &PlanArgs, json: bool) -> Result<Answer, BenchError> {
    let inputs = Inputs::read(&args.task)?;
    let task = &args.task;
    let methods = task.methods_or(Methods::default())?;
    let request = inputs.request(task.policy(), methods, task.page_bytes);
    let busy = Progress::busy("planning", !json);
    let proven = match planning::prepare(&request, inputs.trace.peak_bytes())? {
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
    drop(busy);
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
