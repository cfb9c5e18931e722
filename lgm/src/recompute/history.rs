//! History: who uses a tensor when, and which ops make a version of it.

use vtensor::{Mode, OpIndex, TensorId};

use crate::skeleton::{Access, Skeleton};

/// A use of a tensor by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) op: OpIndex,
    /// Its row in the table of accesses.
    pub(super) row: usize,
    pub(super) mode: Mode,
    /// The version before and after it; writes of the iteration are counted.
    pub(super) before: u32,
    pub(super) after: u32,
}

/// The uses of all tensors.
#[derive(Debug)]
pub struct History<'a> {
    pub(super) skeleton: &'a Skeleton,
    uses: Vec<Vec<Use>>,
    /// For each access, which of its tensor's uses it is.
    number: Vec<u32>,
}

impl<'a> History<'a> {
    /// The history of a skeleton that passes [`Skeleton::check`].
    #[must_use]
    pub fn new(skeleton: &'a Skeleton) -> Self {
        let mut uses: Vec<Vec<Use>> = vec![Vec::new(); skeleton.tensors.len()];
        let mut number = Vec::with_capacity(skeleton.accesses.len());
        for index in 0..skeleton.ops.len() {
            let op = OpIndex::from_index(index);
            for access in skeleton.accesses_of(op) {
                let uses = &mut uses[access.tensor.index()];
                let before = uses.last().map_or(0, |last| last.after);
                uses.push(Use {
                    op,
                    row: number.len(),
                    mode: access.mode,
                    before,
                    after: before + u32::from(access.mode.writes()),
                });
                number.push(u32::try_from(uses.len() - 1).expect("limits: at most 2^24 accesses"));
            }
        }
        Self {
            skeleton,
            uses,
            number,
        }
    }

    pub(super) fn uses(&self, tensor: TensorId) -> &[Use] {
        &self.uses[tensor.index()]
    }

    /// The use that an access is.
    pub(super) fn at(&self, row: usize) -> Use {
        let tensor = self.skeleton.accesses[row].tensor;
        self.uses(tensor)[self.number[row] as usize]
    }

    /// The use of the same tensor after an access, if there is one.
    pub(super) fn next(&self, row: usize) -> Option<Use> {
        let tensor = self.skeleton.accesses[row].tensor;
        self.uses(tensor)
            .get(self.number[row] as usize + 1)
            .copied()
    }

    /// The use of the same tensor before an access, if there is one.
    pub(super) fn before(&self, row: usize) -> Option<Use> {
        let tensor = self.skeleton.accesses[row].tensor;
        let number = self.number[row] as usize;
        number.checked_sub(1).map(|n| self.uses(tensor)[n])
    }

    /// The uses that make a version: the one that overwrites, and those that change it after.
    /// `None` if the version comes from before the iteration.
    pub(super) fn makers(
        &self,
        tensor: TensorId,
        version: u32,
    ) -> Option<impl Iterator<Item = Use> + Clone + '_> {
        let uses = self.uses(tensor);
        // Versions grow, and the first use behind which there is one is that which makes it.
        let last = uses.partition_point(|u| u.after < version);
        uses.get(last)
            .filter(|u| u.mode.writes() && u.after == version)?;
        let first = uses[..=last].iter().rposition(|u| u.mode == Mode::Write)?;
        let makers = uses[first..=last].iter().filter(|u| u.mode.writes());
        Some(makers.copied())
    }

    /// The accesses of an op, with their rows.
    pub(super) fn accesses(&self, op: OpIndex) -> impl Iterator<Item = (usize, Access)> + 'a {
        let first = self.skeleton.ops[op.index()].first_access as usize;
        (first..).zip(self.skeleton.accesses_of(op).iter().copied())
    }
}
