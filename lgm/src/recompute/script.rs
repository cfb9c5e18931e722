//! A script: what steps do, when some of them run ops again.

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
