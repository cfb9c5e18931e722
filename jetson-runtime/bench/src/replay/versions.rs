//! Which version of each tensor is the last. A version counts the writes since the freeze.

use lgm::skeleton::Skeleton;
use vtensor::TensorId;

/// The last version of each tensor. Persistent tensors begin with version 0.
#[derive(Clone, Debug)]
pub(super) struct Versions {
    last: Vec<u32>,
    /// The last version before this iteration.
    before: Vec<u32>,
}

impl Versions {
    pub(super) fn new(skeleton: &Skeleton) -> Self {
        Self {
            last: vec![0; skeleton.tensors.len()],
            before: vec![0; skeleton.tensors.len()],
        }
    }

    /// An iteration begins.
    pub(super) fn begin(&mut self) {
        self.before.copy_from_slice(&self.last);
    }

    pub(super) fn last(&self, tensor: TensorId) -> u32 {
        self.last[tensor.index()]
    }

    /// A new version. It wraps after 2^32 writes of one tensor.
    pub(super) fn next(&mut self, tensor: TensorId) -> u32 {
        let last = &mut self.last[tensor.index()];
        *last = last.wrapping_add(1);
        *last
    }

    /// How many writes of this iteration are in the last version: equal in every iteration.
    pub(super) fn relative(&self, tensor: TensorId) -> u32 {
        self.last[tensor.index()].wrapping_sub(self.before[tensor.index()])
    }
}
