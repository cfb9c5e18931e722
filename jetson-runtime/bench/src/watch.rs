//! The memory that is held, against the budget.
//!
//! Two independent measures: the blocks that the arena's memory file holds, and the proportional
//! set size (PSS) of the process, minus what it had before the freeze, minus a spill tier in RAM.
//! PSS counts a page once however many windows show it, where `VmRSS` counts it once for each.
//!
//! Limits: PSS is the whole process's, so it says something only if the process does nothing else.

use jetson_runtime::{Spill, Usage, process_pss};
use vtensor::Bytes;

use crate::error::BenchError;

/// What a process may hold beside arena and spill tier while one plan is executed: the stacks of
/// two engines, the program's tables in executed form, code and heap that it touches for the
/// first time.
pub const SLACK_BYTES: u64 = 4 << 20;
/// Engines of a plan that is executed: out and in.
pub(crate) const ENGINES: u64 = 2;
/// The same where plans are made too: what planning works on is not given back to the system.
pub const PLANNING_SLACK_BYTES: u64 = 24 << 20;

/// What was held, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory of the arena.
    pub arena: Bytes,
    /// Memory, or disk, of the spill tier.
    pub spill: Bytes,
    /// PSS minus baseline and spill tier; `None` if the process was not watched.
    pub process: Option<Bytes>,
    /// What that may be: the arena, and what is beside it.
    pub process_allowed: Bytes,
}

/// Watches one runtime.
#[derive(Debug)]
pub(crate) struct Watch {
    /// PSS before the freeze.
    baseline: Option<Bytes>,
    slack: u64,
    spill_in_memory: bool,
    held: Held,
}

impl Watch {
    /// Begins before the freeze. The process is watched if it is said what it may hold beside arena
    /// and spill tier, in bytes.
    pub(crate) fn new(spill: &Spill, slack: Option<u64>) -> Result<Self, BenchError> {
        let baseline = slack.map(|_| process_pss()).transpose()?;
        Ok(Self {
            baseline,
            slack: slack.unwrap_or_default(),
            spill_in_memory: matches!(spill, Spill::Ram),
            held: Held::default(),
        })
    }

    /// Takes a measurement, and compares it with the arena, which is at most the budget.
    pub(crate) fn look(
        &mut self,
        usage: &Usage,
        arena: Bytes,
        steps: u64,
    ) -> Result<(), BenchError> {
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
            self.held.process_allowed = Bytes(arena.0.saturating_add(self.slack));
            let what = "beside spill tier and baseline";
            allow(steps, what, process, self.held.process_allowed)?;
        }
        Ok(())
    }

    pub(crate) const fn held(&self) -> Held {
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
