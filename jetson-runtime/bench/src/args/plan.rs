//! Arguments of `plan`.

use std::path::PathBuf;

use clap::Args;
use vtensor::{Bytes, Kinds};

use super::TaskArgs;
use crate::value;

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// What to plan.
    #[command(flatten)]
    pub task: TaskArgs,
    /// What never leaves memory: none, or some of params, optimizer, buffers, gradients with commas
    /// between them. The plan is then for the rest, and it is said what a step would take if all
    /// might leave. Training beside a spill file keeps params,optimizer,buffers
    #[arg(long, value_name = "KINDS", value_parser = value::keep)]
    pub keep: Option<Kinds>,
    /// Refuse a plan that writes more than this to storage in a day of steps, in 10^9 bytes
    #[arg(long, value_name = "GB", value_parser = value::gigabytes)]
    pub max_write_gb_per_day: Option<Bytes>,
    /// Write the plan to this file, to be verified anywhere with `verify`
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
