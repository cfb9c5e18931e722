//! Which tensors keep their address.

use clap::ValueEnum;
use lgm::skeleton::Skeleton;

/// Tensors whose address may not change, beside those of which the trace says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FixedArg {
    /// Those that outlive iterations: parameters, gradients that are kept, optimizer state
    Persistent,
    /// All
    All,
}

impl FixedArg {
    /// Fixes them.
    pub fn fix(self, skeleton: &mut Skeleton) {
        for tensor in &mut skeleton.tensors {
            tensor.fixed |= self == Self::All || tensor.persistent;
        }
    }
}
