//! Demand: how many pages each step holds, and how many of them the budget lacks.
//!
//! In: the graph. Out: pages live at each step, and what an op needs at the least. Counted in pages
//! *after* rounding, because pages are what is short.

use vtensor::{Bytes, OpIndex, StepRange};

use crate::count::to_u32;
use crate::graph::{Graph, Holding};
use crate::skeleton::Skeleton;

/// Pages of paged tensors that are live at each step when nothing moves.
#[must_use]
pub fn live_pages(graph: &Graph<'_>) -> Vec<i64> {
    let mut change = vec![0_i64; graph.steps() as usize + 1];
    for (tensor, node) in graph.held(Holding::Paged) {
        let life = graph.life(tensor);
        change[life.start as usize] += i64::from(node.pieces);
        change[life.end as usize] -= i64::from(node.pieces);
    }
    prefix_sums(&change)
}

/// Adds pages in a range of steps on the circle, to changes whose running sums are pages.
pub(crate) fn add_on_circle(change: &mut [i64], range: StepRange, pages: i64) {
    let steps = to_u32(change.len() - 1);
    for part in range
        .unwrapped(steps)
        .into_iter()
        .filter(|part| !part.is_empty())
    {
        change[part.start as usize] += pages;
        change[part.end as usize] -= pages;
    }
}

/// Running sums; the last element, the change behind the last step, is left out.
pub(crate) fn prefix_sums(change: &[i64]) -> Vec<i64> {
    let mut sum = 0;
    let steps = change.len() - 1;
    change[..steps]
        .iter()
        .map(|c| {
            sum += c;
            sum
        })
        .collect()
}

/// Pages of paged tensors that each op touches: what must be there whatever moves.
#[must_use]
pub fn op_pages(graph: &Graph<'_>) -> Vec<i64> {
    (0..graph.skeleton.ops.len())
        .map(|row| {
            let accesses = graph.skeleton.accesses_of(OpIndex::from_index(row));
            let paged = accesses.iter().map(|access| graph.node(access.tensor));
            paged
                .filter(|node| node.holding == Holding::Paged)
                .map(|node| i64::from(node.pieces))
                .sum()
        })
        .collect()
}

/// Bytes live at the worst step when nothing moves, without rounding.
#[must_use]
pub fn peak_bytes(skeleton: &Skeleton) -> Bytes {
    Bytes(skeleton.live_bytes().into_iter().max().unwrap_or(0))
}
