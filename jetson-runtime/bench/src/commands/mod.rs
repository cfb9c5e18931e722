//! One file for each command.

mod plan;
mod replay;
mod verify;

use crate::args::{Cli, Command, ReplayArgs};
use crate::error::BenchError;

/// Does what the command line says and returns what to print.
///
/// # Errors
/// See [`BenchError`].
pub fn run(cli: &Cli) -> Result<String, BenchError> {
    match &cli.command {
        None => replay::run(&ReplayArgs::bundled(), cli.json),
        Some(Command::Plan(args)) => plan::run(args, cli.json),
        Some(Command::Verify(args)) => verify::run(args, cli.json),
        Some(Command::Replay(args)) => replay::run(args, cli.json),
    }
}
