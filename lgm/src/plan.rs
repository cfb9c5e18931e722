//! A plan: a program with all that is needed to verify it alone and to know where it came from.

use serde::{Deserialize, Serialize};
use vtensor::Bytes;

use crate::profile::Profile;
use crate::program::Program;
use crate::skeleton::Skeleton;

/// Where a plan came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of the planner.
    pub planner: String,
    /// SHA-256 of the trace document, unpacked.
    pub trace_digest: [u8; 32],
    /// The trace's name for the model.
    pub model: String,
    /// The policy that chose what moves.
    pub policy: String,
    /// The budget that was asked for.
    pub budget: Bytes,
    /// Bytes live at the worst moment of the trace, without rounding.
    pub peak: Bytes,
    /// Bytes that the largest op touches.
    pub largest_op: Bytes,
    /// The seed of the search.
    pub seed: u64,
    /// How many candidates the search scored at most.
    pub evaluations_max: u32,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where it came from.
    pub origin: Origin,
    /// The device that it was made for.
    pub profile: Profile,
    /// What the iteration does to memory.
    pub skeleton: Skeleton,
    /// What the runtime does about it.
    pub program: Program,
}
