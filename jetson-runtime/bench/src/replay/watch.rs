//! The memory that is held, against the budget.
//!
//! Two independent measures: the blocks that the arena's memory file holds, and the proportional
//! set size (PSS) of the process, minus what it had before the freeze, minus a spill tier in RAM.
//! PSS counts a page once however many windows show it, where `VmRSS` counts it once for each.
//!
//! Limits: PSS is the whole process's, so it says something only if the process does nothing else.

use jetson_runtime::{Frozen, Spill, process_pss};
use vtensor::Bytes;

use crate::error::BenchError;

/// What a process may hold beside arena and spill tier: the stacks of two engines, the program's
/// tables in executed form, code and heap that it touches for the first time.
pub const SLACK_BYTES: u64 = 4 << 20;

/// What was held, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory of the arena.
    pub arena: Bytes,
    /// Memory, or disk, of the spill tier.
    pub spill: Bytes,
    /// PSS minus baseline and spill tier; `None` if the process was not watched.
    pub process: Option<Bytes>,
}

/// Watches one replay.
#[derive(Debug)]
pub(super) struct Watch {
    /// PSS before the freeze.
    baseline: Option<Bytes>,
    spill_in_memory: bool,
    held: Held,
}

impl Watch {
    /// Begins before the freeze.
    pub(super) fn new(spill: &Spill, process: bool) -> Result<Self, BenchError> {
        let baseline = if process { Some(process_pss()?) } else { None };
        Ok(Self {
            baseline,
            spill_in_memory: matches!(spill, Spill::Ram),
            held: Held::default(),
        })
    }

    /// Measures, and compares with the arena as executed, which is at most the budget.
    pub(super) fn look(&mut self, frozen: &Frozen, steps: u64) -> Result<(), BenchError> {
        let usage = frozen.usage()?;
        let arena = frozen.arena_bytes();
        self.held.arena = self.held.arena.max(usage.arena_allocated);
        self.held.spill = self.held.spill.max(usage.spill_allocated);
        allow(steps, "in the arena", usage.arena_allocated, arena)?;
        if let Some(baseline) = self.baseline {
            let spill = if self.spill_in_memory {
                usage.spill_allocated.0
            } else {
                0
            };
            let process = Bytes(usage.pss.0.saturating_sub(baseline.0.saturating_add(spill)));
            self.held.process = self.held.process.max(Some(process));
            let what = "beside spill tier and baseline";
            allow(steps, what, process, Bytes(arena.0 + SLACK_BYTES))?;
        }
        Ok(())
    }

    pub(super) const fn held(&self) -> Held {
        self.held
    }
}

fn allow(steps: u64, what: &'static str, held: Bytes, allowed: Bytes) -> Result<(), BenchError> {
    if held <= allowed {
        return Ok(());
    }
    Err(BenchError::OverBudget {
        steps,
        what,
        held,
        allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_allowed_is_an_error_with_both_numbers() {
        assert!(allow(3, "in the arena", Bytes(4096), Bytes(4096)).is_ok());
        let error = allow(3, "in the arena", Bytes(8192), Bytes(4096)).expect_err("more");
        assert_eq!(error.kind(), "over_budget");
        let text = error.to_string();
        assert!(
            text.contains("3 steps") && text.contains("8 KiB in the arena, 4 KiB are allowed"),
            "{text}"
        );
    }
}
