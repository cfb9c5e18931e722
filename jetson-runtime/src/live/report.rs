//! What a runtime has done.

use std::fmt;

use vtensor::Bytes;

use super::tensor::ProgramKey;
use crate::stats::Stats;

/// Numbers since the runtime was made. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// Iterations that ended, recorded ones.
    pub recorded_iterations: u64,
    /// Iterations that ended, frozen ones.
    pub frozen_iterations: u64,
    /// Iterations that were aborted.
    pub aborted_iterations: u64,
    /// Bytes that left the arena, on demand, by programs, and for switches.
    pub moved_out: Bytes,
    /// Bytes that came into the arena.
    pub moved_in: Bytes,
    /// How long ops waited for copies.
    pub stall_ns: u64,
    /// How often tensors were carried between heap and programs.
    pub switches: u64,
    /// How long that took; not part of `stall_ns`.
    pub switch_ns: u64,
    /// How long planning and proving took.
    pub planning_ns: u64,
    /// Copies of frozen programs that failed.
    pub failed_copies: u64,
    /// How often an iteration left what was recorded.
    pub divergences: u64,
    /// Bytes that were computed again for an op that reads them, by frozen iterations that ended.
    pub recomputed: Bytes,
    /// How long ops took that ran again in frozen iterations.
    pub recompute_ns: u64,
    /// Ops that could not run again.
    pub failed_replays: u64,
    /// Bytes of tensors that wait in the spill tier outside of any program now.
    pub garage: Bytes,
    /// Bytes of tensors that have a place in the arena for good now.
    pub pinned: Bytes,
}

impl RuntimeStats {
    /// Takes the numbers of a program over.
    pub(super) fn absorb(&mut self, done: &Stats) {
        self.moved_out.0 += done.moved_out.0;
        self.moved_in.0 += done.moved_in.0;
        self.stall_ns += done.stall_ns;
    }
}

/// What is known of one kind of iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramReport {
    /// Which kind.
    pub key: ProgramKey,
    /// Equal iterations in a row that were recorded.
    pub repeats: u32,
    /// Whether a program runs them.
    pub frozen: bool,
    /// Why none does, if one was tried.
    pub refusal: Option<String>,
    /// Sum of the recorded durations of the ops, in nanoseconds.
    pub compute_ns: u64,
    /// Bytes of tensors at once, at most, in the last recorded iteration.
    pub peak: Bytes,
    /// How long a frozen iteration takes, as the cost model sees it, in nanoseconds.
    pub predicted_ns: Option<u64>,
    /// Bytes that a frozen iteration moves out and in.
    pub moved: Option<[Bytes; 2]>,
    /// How long ops take that run again in a frozen iteration, as they did when they were recorded,
    /// in nanoseconds.
    pub recompute_ns: Option<u64>,
    /// Ops that are declared to run again, and did not leave the same bits when that was checked.
    pub excluded: Vec<String>,
    /// Bytes that a frozen iteration computes again for an op that reads them.
    pub recomputed: Option<Bytes>,
    /// Pages of the program's arena, and their size.
    pub arena: Option<(u32, Bytes)>,
    /// The policy that chose the moves.
    pub policy: Option<String>,
    /// The SHA-256 of the plan: programs that do the same have the same.
    pub digest: Option<[u8; 32]>,
}

/// An iteration that left what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The kind of iteration.
    pub key: ProgramKey,
    /// Iterations of the runtime before it.
    pub iteration: u64,
    /// Which call of the iteration, counted from 0: creations, destructions and ops.
    pub call: usize,
    /// What was recorded there.
    pub recorded: String,
    /// What the application did.
    pub found: String,
    /// Tensors whose content was gone by then, because the program knew no later use.
    pub lost: Vec<String>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "iteration {} of key {} left its recording at call {}: recorded was {}, found {}; it \
             went on on demand, and a new program will be recorded",
            self.iteration, self.key, self.call, self.recorded, self.found
        )?;
        if !self.lost.is_empty() {
            write!(f, "; lost content of {}", self.lost.join(", "))?;
        }
        Ok(())
    }
}
