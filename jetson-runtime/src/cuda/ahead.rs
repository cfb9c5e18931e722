//! Ahead: how far the application may be ahead of the GPU, and what there is twice for that.

/// Iterations that the application may be ahead of the GPU, and sets of events.
pub(super) const AHEAD: u64 = 2;

/// Which of the two sets of events an iteration uses.
pub(super) fn set(iteration: u64) -> usize {
    usize::from(!iteration.is_multiple_of(AHEAD))
}
