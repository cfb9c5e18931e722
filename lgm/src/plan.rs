//! A plan: a program with all that is needed to verify it alone and to know where it came from.

use serde::{Deserialize, Serialize};
use vtensor::{Bytes, Mode, OpIndex, StepKind, TensorId, limits};

use crate::bounded;
use crate::profile::Profile;
use crate::program::Program;
use crate::skeleton::{Access, Skeleton};

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

/// How the steps of a program that runs ops again follow from the application's iteration.
///
/// A tensor whose content is given up and computed again has *lives*: each is a tensor of the
/// steps, and no two of them need the same place. The application's own tensors are the first
/// lives, in their order. A step that runs an op again writes only later lives; the op's pointers
/// are those of the lives in the order of its accesses, then those of contents that scratch begins
/// with (see [`Replays::fills`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replays {
    /// What the application's iteration does to memory.
    pub original: Skeleton,
    /// For each tensor of the steps, which tensor of the application it is a life of.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::TENSORS_MAX }>")]
    pub lives: Vec<TensorId>,
}

impl Replays {
    /// Of a step that runs op `op` again, the accesses that begin as a copy of another: pairs of
    /// numbers of accesses, target and source. What an op changes beside what is wanted is scratch
    /// then, and holds what the tensor holds now, so that the op finds sound values there.
    pub fn fills<'a>(
        &'a self,
        op: OpIndex,
        step: &'a [Access],
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let own = self.original.accesses_of(op);
        let pairs = own.iter().zip(step).enumerate();
        let changed = pairs.filter(|(_, (own, now))| is_scratch(own, now));
        changed.zip(own.len()..).map(|((to, _), from)| (to, from))
    }
}

/// Whether an op that runs again finds scratch where it changed a tensor at first.
#[must_use]
pub fn is_scratch(own: &Access, now: &Access) -> bool {
    (own.mode, now.mode) == (Mode::ReadWrite, Mode::Write)
}

impl Plan {
    /// The time of what runs again in an iteration, in nanoseconds.
    #[must_use]
    pub fn recompute_ns(&self) -> u64 {
        let steps = self.program.steps.iter().zip(&self.skeleton.ops);
        let again = steps.filter(|(step, _)| matches!(step.kind, StepKind::Replay(_)));
        again.map(|(_, op)| op.duration_ns).sum()
    }

    /// The bytes of contents that ops of the application find made again in an iteration.
    #[must_use]
    pub fn recomputed(&self) -> Bytes {
        let Some(replays) = &self.replays else {
            return Bytes(0);
        };
        let first = replays.original.tensors.len();
        let mut wanted = vec![false; self.skeleton.tensors.len()];
        for (step, row) in self.program.steps.iter().zip(0..) {
            if matches!(step.kind, StepKind::App(_)) {
                let accesses = self.skeleton.accesses_of(OpIndex(row)).iter();
                accesses.for_each(|access| wanted[access.tensor.index()] = true);
            }
        }
        let lives = self.skeleton.tensors.iter().zip(wanted).skip(first);
        Bytes(
            lives
                .filter(|(_, wanted)| *wanted)
                .map(|(life, _)| life.bytes.0)
                .sum(),
        )
    }
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where it came from.
    pub origin: Origin,
    /// The device that it was made for.
    pub profile: Profile,
    /// What the program's steps do to memory: each of its ops is a step. Without `replays`, that is
    /// the application's iteration.
    pub skeleton: Skeleton,
    /// What the application's iteration is, if the program runs some of its ops again.
    pub replays: Option<Replays>,
    /// What the runtime does about it.
    pub program: Program,
}
