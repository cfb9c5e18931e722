//! What a handle stands for: a runtime, and what the calls of C need to know beside it.

use core::ptr::NonNull;

use jetson_runtime::{Access, ProgramKey, ProgramReport, Runtime};

use crate::log::Sink;

/// The kind of iteration that ran last is recorded on demand, or none has begun.
pub const VT_PHASE_RECORDING: u32 = 0;
/// Its next iteration is frozen: a plan was loaded, or enough was recorded for one.
pub const VT_PHASE_PLANNED: u32 = 1;
/// A program runs it.
pub const VT_PHASE_FROZEN: u32 = 2;
/// The runtime cannot go on, or is none.
pub const VT_PHASE_FAILED: u32 = 3;

/// What a handle stands for.
pub(crate) struct Held {
    pub(crate) runtime: Runtime,
    /// Where its events go.
    pub(crate) sink: Option<Sink>,
    /// Whether a panic came out of it.
    pub(crate) poisoned: bool,
    /// Equal iterations before a program is made.
    pub(crate) warmup: u32,
    /// The accesses of the op that begins; kept so that no op allocates.
    pub(crate) accesses: Vec<Access>,
    /// The allocations of a touch; kept for the same reason.
    pub(crate) pointers: Vec<NonNull<u8>>,
    /// The kind of iteration that began last, or whose plan was loaded last.
    pub(crate) begun: Option<ProgramKey>,
    /// The kind of iteration that ended last.
    pub(crate) ended: Option<ProgramKey>,
}

// SAFETY: the pointers are compared, not followed.
unsafe impl Send for Held {}

impl Held {
    /// What is known of a kind of iteration.
    pub(crate) fn program(&self, key: Option<ProgramKey>) -> Option<ProgramReport> {
        let mut programs = self.runtime.programs().into_iter();
        programs.find(|program| Some(program.key) == key)
    }

    /// The phase of the kind of iteration that began last.
    pub(crate) fn phase(&self) -> u32 {
        match self.program(self.begun) {
            Some(program) if program.frozen => VT_PHASE_FROZEN,
            Some(program) if program.repeats >= self.warmup && program.refusal.is_none() => {
                VT_PHASE_PLANNED
            }
            _ => VT_PHASE_RECORDING,
        }
    }
}
