//! A script: what steps do, when some of them run ops again; its time, and the memory it takes.

use vtensor::{StepKind, TensorId};

use crate::skeleton::Skeleton;

/// The steps of an iteration in which ops run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// What the steps do to memory; each of its ops is a step.
    pub steps: Skeleton,
    /// What each step runs.
    pub kinds: Vec<StepKind>,
    /// For each tensor of the steps, which tensor of the application it is a life of. The
    /// application's own come first.
    pub lives: Vec<TensorId>,
}

/// What a script takes when nothing moves, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// At its worst step.
    pub peak: u64,
    /// Beyond a budget, summed over the ops of the application; what runs again before an op counts
    /// with it.
    pub excess: u128,
}

impl Script {
    /// The time of what runs again, in nanoseconds.
    #[must_use]
    pub fn recompute_ns(&self) -> u64 {
        let steps = self.steps.ops.iter().zip(&self.kinds);
        let again = steps.filter(|(_, kind)| matches!(kind, StepKind::Replay(_)));
        again.map(|(op, _)| op.duration_ns).sum()
    }

    /// What it takes, with a budget of so many bytes.
    #[must_use]
    pub fn memory(&self, budget: u64) -> Memory {
        let mut memory = Memory::default();
        let mut worst = 0_u64;
        for (kind, live) in self.kinds.iter().zip(self.steps.live_bytes()) {
            worst = worst.max(live);
            if matches!(kind, StepKind::App(_)) {
                memory.peak = memory.peak.max(worst);
                memory.excess += u128::from(worst.saturating_sub(budget));
                worst = 0;
            }
        }
        memory
    }
}
