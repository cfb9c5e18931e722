//! Planning: a recorded training step in, a swap program out. Pure functions, no I/O.
//!
//! Data flows one way; each module can be read alone:
//!
//! ```text
//! trace ──> graph ──> demand ──> select ──> schedule ──> layout ──> program ──> verify
//!           (LGM)                (which)    (when)       (where)
//! ```
//!
//! Guarantees: a plan is a function of its inputs alone (trace, profile, budget, options,
//! version), never of time or of a random source.
#![forbid(unsafe_code)]

pub mod plan;
pub mod profile;
pub mod program;
pub mod skeleton;
pub mod verify;
