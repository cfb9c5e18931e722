//! What the tensors and ops of a step are called: made once, used in every step.

use crate::train::model::Layer;

/// The names around a layer.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) forward: String,
    pub(super) backward: String,
    /// Where the gradient of the input is an op of its own.
    pub(super) backward_input: String,
    pub(super) workspace: String,
    /// What forward keeps for backward beside values.
    pub(super) saved: String,
}

impl Names {
    pub(super) fn new(layer: &Layer) -> Self {
        let name = |what: &str| format!("{}.{what}", layer.name);
        Self {
            forward: name("forward"),
            backward: name("backward"),
            backward_input: name("backward_input"),
            workspace: name("workspace"),
            saved: name("saved"),
        }
    }
}
