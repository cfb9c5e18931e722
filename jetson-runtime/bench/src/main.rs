//! The on-device benchmark of vTensor: see `vtensor-bench --help`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use vtensor_bench::args::Cli;
use vtensor_bench::commands;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (text, code) = match commands::run(&cli) {
        Ok(answer) if answer.good => (answer.text, ExitCode::SUCCESS),
        Ok(answer) => (answer.text, ExitCode::FAILURE),
        Err(error) if cli.json => (error.json(), ExitCode::FAILURE),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut output = io::stdout().lock();
    match writeln!(output, "{}", text.trim_end()).and_then(|()| output.flush()) {
        // Whoever reads the report may stop early.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: writing the report failed: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}
