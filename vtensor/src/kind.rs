//! What a tensor is for.

use serde::{Deserialize, Serialize};

/// The role of a tensor in training. It never changes what is correct, only what is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TensorKind {
    /// A weight or bias.
    Parameter,
    /// The gradient of a parameter.
    Gradient,
    /// State of the optimizer, such as a momentum.
    Optimizer,
    /// State of the model that is not trained, such as running statistics.
    Buffer,
    /// A result of an op, or a temporary.
    Activation,
    /// Data that the application loads in each iteration.
    Input,
    /// Scratch memory of an op.
    Workspace,
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// What would be gone with a model: its parameters, the optimizer's state, and buffers.
    pub const MODEL: Self = Self::NONE
        .with(TensorKind::Parameter)
        .with(TensorKind::Optimizer)
        .with(TensorKind::Buffer);

    /// The set with one kind more.
    #[must_use]
    pub const fn with(self, kind: TensorKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Whether a kind is in it.
    #[must_use]
    pub const fn contains(self, kind: TensorKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        use TensorKind::{Activation, Buffer, Gradient, Input, Optimizer, Parameter, Workspace};
        let all = [
            Parameter, Gradient, Optimizer, Buffer, Activation, Input, Workspace,
        ];
        let model = all.map(|kind| Kinds::MODEL.contains(kind));
        assert_eq!(model, [true, false, true, true, false, false, false]);
        for kind in all {
            assert!(!Kinds::NONE.contains(kind));
            let one = Kinds::NONE.with(kind);
            assert_eq!(
                all.map(|other| one.contains(other)),
                all.map(|other| other == kind)
            );
        }
    }
}
