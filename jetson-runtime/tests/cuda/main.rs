//! One suite for all backends: the host, and a GPU with each of its mechanisms.
//!
//! GPUs are models of the driver, one for each kind of machine, which report every wait that is
//! missing and everything that is not given back. With the feature `gpu-tests` a real GPU is one
//! machine more: `cargo test -p jetson-runtime --features gpu-tests --lib --test cuda`.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod backend;
mod faults;
mod machine;
#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "../support/plans.rs"]
mod plans;
mod probing;
mod programs;
mod refusals;
mod storage;
mod suite;
mod threads;
