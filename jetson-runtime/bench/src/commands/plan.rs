//! `plan`: plans a training step for a budget and says what it costs.

use crate::args::PlanArgs;
use crate::error::BenchError;
use crate::inputs::Inputs;

pub(super) fn run(args: &PlanArgs, _json: bool) -> Result<String, BenchError> {
    let _inputs = Inputs::read(&args.task)?;
    Err(BenchError::NotWired {
        what: "the planner",
    })
}
