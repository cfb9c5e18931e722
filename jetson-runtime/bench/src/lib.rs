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
//! | [`trace_file`] | a trace by its path, or the bundled one |
//! | [`pattern`] | the bytes that a replay writes and checks |
//! | [`report`] | what commands say |
//! | [`progress`] | bars on long work |
//! | [`error`] | why a command failed |
//!
//! *Not here*: planning and verifying (crate `lgm`), executing (crate `jetson-runtime`).
#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod error;
pub mod inputs;
pub mod pattern;
pub mod progress;
pub mod report;
pub mod trace_file;
pub mod value;
