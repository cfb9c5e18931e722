//! One file for each command.

mod bundled;
mod compare;
mod plan;
mod probe;
mod probe_check;
mod probe_gpu;
mod probe_storage;
mod replay;
mod replay_gpu;
mod smallest;
mod train;
mod verify;

use crate::args::{BackendArg, Cli, Command};
use crate::error::BenchError;

/// What a command has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What to print on standard output.
    pub text: String,
    /// Whether it is good news: exit status 0, else 1.
    pub good: bool,
}

/// Does what the command line says and returns what to print.
///
/// # Errors
/// See [`BenchError`].
pub fn run(cli: &Cli) -> Result<Answer, BenchError> {
    match &cli.command {
        None => bundled::run(cli.json),
        Some(Command::Plan(args)) => plan::run(args, cli.json),
        Some(Command::Verify(args)) => verify::run(args, cli.json),
        Some(Command::Replay(args)) => match args.gpu.backend {
            BackendArg::Host => replay::run(args, cli.json),
            BackendArg::Cuda => replay_gpu::run(args, cli.json),
        },
        Some(Command::Compare(args)) => compare::run(args, cli.json),
        Some(Command::Smallest(args)) => smallest::run(args, cli.json),
        Some(Command::Train(args)) => train::run(args, cli.json),
        Some(Command::Probe(args)) => probe::run(args, cli.json),
    }
}
