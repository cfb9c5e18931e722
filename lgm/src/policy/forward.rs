//! Forward and backward: where an iteration turns, and what lives across that.
//!
//! A skeleton knows names of ops, not phases. The rule: the iteration *turns* at the first op whose
//! name has `backward` in it, or where the most pages are live if there is none. A *feature map* is
//! a transient that an op before the turn writes and one behind it uses; the gap in which it waits
//! is the one across the turn. An op is a *convolution* if its name has `conv` in it.

use vtensor::OpIndex;

use super::Task;

/// The first step of the backward pass.
pub(super) fn turn(task: Task<'_>) -> u32 {
    let ops = &task.graph.skeleton.ops;
    let named = ops.iter().position(|op| op.name.contains("backward"));
    let step = named.unwrap_or_else(|| {
        let live = &task.pages.live;
        let most = (0..live.len()).max_by_key(|&step| (live[step], core::cmp::Reverse(step)));
        most.unwrap_or(0)
    });
    OpIndex::from_index(step).0
}

/// The gaps in which feature maps wait for the backward pass, in the order in which they are
/// written.
pub(super) fn feature_maps(task: Task<'_>) -> Vec<usize> {
    let turn = turn(task);
    let graph = task.graph;
    let gaps = graph.gaps().iter().enumerate();
    let mut rows: Vec<usize> = gaps
        .filter(|(_, gap)| !graph.node(gap.tensor).persistent && !gap.dead)
        .filter(|(_, gap)| gap.after < turn && turn <= gap.before)
        .map(|(row, _)| row)
        .collect();
    rows.sort_unstable_by_key(|&row| (graph.life(graph.gaps()[row].tensor).start, row));
    rows
}

/// Whether a convolution of the forward pass reads the tensor of a gap.
pub(super) fn feeds_convolution(task: Task<'_>, row: usize) -> bool {
    let graph = task.graph;
    let turn = turn(task);
    let uses = graph.uses(graph.gaps()[row].tensor).iter();
    let forward = uses.filter(|u| u.step < turn && u.mode.reads());
    forward
        .map(|u| OpIndex(u.step))
        .any(|op| is_convolution(task, op))
}

/// Whether an op is a convolution, or the backward pass of one.
pub(super) fn is_convolution(task: Task<'_>, op: OpIndex) -> bool {
    task.graph.skeleton.ops[op.index()].name.contains("conv")
}
