//! What a proof found out on its way.

use vtensor::Bytes;

/// Numbers of a program that holds. Bounds are over every possible timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// Pages of the arena that anything touches.
    pub pages_used: u64,
    /// One past the last byte of the spill tier that anything touches.
    pub spill_used: Bytes,
    /// The bytes that the largest step accesses, each tensor counted once.
    pub step_bytes_max: Bytes,
    /// Outs that may be incomplete when a step starts, at most: what a ring of them must hold.
    pub outs_pending_max: u64,
    /// Ins that may be incomplete when a step starts, at most.
    pub ins_pending_max: u64,
    /// How many byte ranges the proof looked at: its cost, independent of the machine.
    pub ranges_visited: u64,
}
