//! A draft: the steps of a script as choices are compared by them, without names.

use vtensor::{OpIndex, StepKind, TensorId, limits};

use super::script::{Memory, Script};
use crate::count::to_u32;
use crate::skeleton::{Access, Op, Skeleton, Tensor};

/// A step.
#[derive(Clone, Copy, Debug)]
struct Step {
    op: OpIndex,
    /// Whether the op runs again.
    again: bool,
    /// Where its accesses end; they begin where those of the step before end.
    accesses_end: usize,
}

/// The steps of an iteration in which ops run again.
#[derive(Debug)]
pub(super) struct Draft {
    steps: Vec<Step>,
    /// The accesses of all steps; their tensors are lives.
    accesses: Vec<Access>,
    /// For each life, which tensor of the application it is one of. The application's own come
    /// first.
    lives: Vec<TensorId>,
}

impl Draft {
    /// One without steps.
    pub(super) fn new(skeleton: &Skeleton) -> Self {
        let tensors = 0..skeleton.tensors.len();
        Self {
            steps: Vec::with_capacity(skeleton.ops.len()),
            accesses: Vec::with_capacity(skeleton.accesses.len()),
            lives: tensors.map(TensorId::from_index).collect(),
        }
    }

    /// One more life of a tensor.
    pub(super) fn new_life(&mut self, of: TensorId) -> TensorId {
        self.lives.push(of);
        TensorId::from_index(self.lives.len() - 1)
    }

    /// One more step.
    pub(super) fn push(
        &mut self,
        op: OpIndex,
        again: bool,
        accesses: impl IntoIterator<Item = Access>,
    ) {
        self.accesses.extend(accesses);
        self.steps.push(Step {
            op,
            again,
            accesses_end: self.accesses.len(),
        });
    }

    /// Whether a skeleton may have so much.
    pub(super) fn fits(&self) -> bool {
        self.steps.len() <= limits::OPS_MAX
            && self.lives.len() <= limits::TENSORS_MAX
            && self.accesses.len() <= limits::ACCESSES_MAX
    }

    /// The accesses of all steps.
    pub(super) fn accesses(&self) -> usize {
        self.accesses.len()
    }

    /// The time of what runs again, in nanoseconds.
    pub(super) fn recompute_ns(&self, skeleton: &Skeleton) -> u64 {
        let again = self.steps.iter().filter(|step| step.again);
        again
            .map(|step| skeleton.ops[step.op.index()].duration_ns)
            .sum()
    }

    /// What it takes when nothing moves, with a budget of so many bytes.
    pub(super) fn memory(&self, skeleton: &Skeleton, budget: u64) -> Memory {
        let mut memory = Memory::default();
        let (mut live, mut worst) = (0_u64, 0_u64);
        for (step, change) in self.steps.iter().zip(self.changes(skeleton)) {
            live = live.wrapping_add(change);
            worst = worst.max(live);
            if !step.again {
                memory.peak = memory.peak.max(worst);
                memory.excess += u128::from(worst.saturating_sub(budget));
                worst = 0;
            }
        }
        memory
    }

    /// By how many bytes what is live grows at each step. Limits: sums stay below 2^64, so wrapping
    /// differences add up to what they should.
    fn changes(&self, skeleton: &Skeleton) -> Vec<u64> {
        let mut changes = vec![0_u64; self.steps.len() + 1];
        let mut ends: Vec<Option<usize>> = vec![None; self.lives.len()];
        for (tensor, end) in skeleton.tensors.iter().zip(&mut ends) {
            if tensor.persistent {
                changes[0] = changes[0].wrapping_add(tensor.bytes.0);
                *end = Some(self.steps.len());
            }
        }
        let bytes = |life: usize| skeleton.tensor(self.lives[life]).bytes.0;
        let mut begin = 0;
        for (row, step) in self.steps.iter().enumerate() {
            for access in &self.accesses[begin..step.accesses_end] {
                let life = access.tensor.index();
                if ends[life].is_none() {
                    changes[row] = changes[row].wrapping_add(bytes(life));
                }
                ends[life] = ends[life].max(Some(row + 1));
            }
            begin = step.accesses_end;
        }
        for (life, end) in ends.into_iter().enumerate() {
            if let Some(end) = end {
                changes[end] = changes[end].wrapping_sub(bytes(life));
            }
        }
        changes
    }

    /// What plans are made of.
    pub(super) fn script(self, skeleton: &Skeleton) -> Script {
        let begins = self.steps.iter().map(|step| step.accesses_end);
        let begins = core::iter::once(0).chain(begins);
        let ops = self.steps.iter().zip(begins).map(|(step, begin)| Op {
            first_access: to_u32(begin),
            access_count: to_u32(step.accesses_end - begin),
            ..skeleton.ops[step.op.index()].clone()
        });
        let kinds = self.steps.iter().map(|step| match step.again {
            true => StepKind::Replay(step.op),
            false => StepKind::App(step.op),
        });
        let mut tensors = skeleton.tensors.clone();
        let again = self.lives[tensors.len()..].iter().map(|&of| Tensor {
            persistent: false,
            fixed: false,
            ..skeleton.tensor(of).clone()
        });
        tensors.extend(again);
        Script {
            steps: Skeleton {
                tensors,
                ops: ops.collect(),
                accesses: self.accesses,
            },
            kinds: kinds.collect(),
            lives: self.lives,
        }
    }
}
