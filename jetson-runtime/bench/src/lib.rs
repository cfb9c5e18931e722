//! The on-device benchmark of vTensor: what its commands are made of.
//!
//! In: a command line. Out: a report, as text or as JSON with fixed keys; exit status 0, or 1 with
//! an error, or 2 for a command line that makes no sense.
//!
//! | module | noun |
//! |---|---|
//! | [`args`] | the command line |
//! | [`value`] | what its options take: budgets, page sizes, spill tiers, scales |
//! | [`commands`] | one file for each command |
//! | [`inputs`] | what plan and replay start from |
//! | [`trace_file`], `built_in` | a trace by its path, or the one that is built in |
//! | [`compare`] | policies side by side |
//! | `smallest` | the smallest budget that is not much slower |
//! | `cores` | the same work for many, on all cores |
//! | [`planning`] | from a request to a proven plan |
//! | [`output_file`] | a file that is there whole, or not at all |
//! | [`replay`] | execution with every byte checked |
//! | [`train`] | training with every tensor in memory of the runtime |
//! | [`watch`] | the memory that is held, against the budget |
//! | [`report`], [`text`] | what commands say, as JSON and as text |
//! | [`progress`] | bars on long work |
//! | [`error`] | why a command failed |
//!
//! *Not here*: planning and verifying (crate `lgm`), executing (crate `jetson-runtime`).
#![forbid(unsafe_code)]

pub mod args;
mod built_in;
pub mod commands;
pub mod compare;
mod cores;
pub mod error;
pub mod inputs;
pub mod output_file;
pub mod planning;
pub mod progress;
pub mod replay;
pub mod report;
mod smallest;
pub mod text;
pub mod trace_file;
pub mod train;
pub mod value;
pub mod watch;
