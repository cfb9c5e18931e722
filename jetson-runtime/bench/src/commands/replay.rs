//! `replay`: plans, proves and executes a training step, checking every byte.

use crate::args::ReplayArgs;
use crate::error::BenchError;
use crate::inputs::Inputs;

pub(super) fn run(args: &ReplayArgs, _json: bool) -> Result<String, BenchError> {
    let _inputs = Inputs::read(&args.task)?;
    Err(BenchError::NotWired {
        what: "the executor",
    })
}
