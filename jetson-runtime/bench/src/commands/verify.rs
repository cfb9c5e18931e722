//! `verify`: proves a plan file, alone from the file.

use std::fs::File;

use lgm::plan_file;

use crate::args::VerifyArgs;
use crate::error::BenchError;

pub(super) fn run(args: &VerifyArgs, _json: bool) -> Result<String, BenchError> {
    let path = args.plan.clone();
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(source) => return Err(BenchError::File { path, source }),
    };
    let _plan = plan_file::read(file).map_err(|source| BenchError::PlanFile { path, source })?;
    Err(BenchError::NotWired {
        what: "the verifier",
    })
}
