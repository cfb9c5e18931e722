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
