//! Planning: a recorded training step in, a swap program out. Pure functions, no I/O.
//!
//! Data flows one way; each module can be read alone:
//!
//! ```text
//! trace ──> recompute ──> graph ──> demand ──> select ──> schedule ──> layout ──> emit ──> verify
//!           (run again)   (LGM)                (which)    (when)       (where)    (program)
//! ```
//!
//! Guarantees: a plan is a function of its inputs alone (trace, profile, budget, options,
//! version), never of time or of a random source.
#![forbid(unsafe_code)]

pub mod bound;
mod bounded;
pub mod cost;
mod count;
pub mod demand;
pub mod emit;
mod foreign;
mod free_count;
pub mod graph;
pub mod layout;
pub mod moves;
pub mod packed;
pub mod packing;
pub mod plan;
pub mod plan_file;
pub mod planner;
pub mod policy;
pub mod pool;
pub mod profile;
pub mod program;
pub mod queues;
pub mod recompute;
pub mod schedule;
pub mod select;
pub mod share;
pub mod skeleton;
pub mod synthetic;
pub mod trace;
pub mod tricks;
pub mod verify;
