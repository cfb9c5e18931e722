//! What the tests of the verifier share: tiny programs, all their timings, and ways to spoil them.
//!
//! | module | noun |
//! |---|---|
//! | `build` | how programs are written by hand |
//! | `examples` | such programs, each for one thing that a program may do |
//! | `brute` | an executor that tries every timing, by rules E1–E4 alone |
//! | `random` | random valid programs |
//! | `mutate` | planted faults; works on programs of any size |
#![allow(dead_code)] // Each test binary uses its own part.

pub(crate) mod brute;
pub(crate) mod build;
pub(crate) mod examples;
pub(crate) mod mutate;
pub(crate) mod random;
