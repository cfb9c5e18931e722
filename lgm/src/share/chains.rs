//! Chains: which tensor begins where which other one ends.
//!
//! In: a skeleton and a page size. Out: chains of tensors, with the offset of each from the start
//! of a page. The *loss* of two tensors is the idle time that each loses because of the other,
//! counted where memory is short.
//!
//! Method: tensors in the order of their first uses, each behind the end of a chain at which the
//! loss is the least. A chain ends where that is too much.

use vtensor::{Mode, PageBytes, TensorId};

use super::Terms;
use crate::skeleton::Skeleton;

/// The end of a chain.
struct End {
    chain: usize,
    persistent: bool,
    fixed: bool,
    /// Where the next tensor may begin, from the start of the chain.
    at: u64,
    /// When the tensors in the last page are used.
    steps: Vec<u32>,
}

/// Tensors one behind the other, with their offsets from the start of a page.
pub(super) fn chains(
    skeleton: &Skeleton,
    terms: Terms,
    piece: PageBytes,
    uses: &[Vec<(u32, Mode)>],
) -> Vec<Vec<(TensorId, u64)>> {
    let page = terms.page.get();
    let clock = Clock::new(skeleton, terms.budget, uses);
    let mut order: Vec<TensorId> = (0..skeleton.tensors.len())
        .map(TensorId::from_index)
        .collect();
    order.sort_by_key(|id| uses[id.index()].first().map(|&(step, _)| step));
    let mut chains: Vec<Vec<(TensorId, u64)>> = Vec::new();
    let mut ends: Vec<End> = Vec::new();
    for tensor in order {
        let row = skeleton.tensor(tensor);
        let steps: Vec<u32> = uses[tensor.index()].iter().map(|&(step, _)| step).collect();
        let bytes = row.bytes.0.next_multiple_of(piece.get());
        let paged = row.bytes.0 >= terms.pool_below && !steps.is_empty();
        let mut best: Option<(bool, u64, usize)> = None;
        if paged && !bytes.is_multiple_of(page) {
            for (at, end) in ends.iter().enumerate() {
                if (end.persistent, end.fixed) != (row.persistent, row.fixed) {
                    continue;
                }
                let filled = end.at % page;
                let saves = filled + bytes % page <= page;
                let loss = clock.loss(&end.steps, &steps);
                if loss <= clock.short / 1000 * terms.loss_max {
                    let found = (!saves, loss, at);
                    best = Some(best.map_or(found, |best| best.min(found)));
                }
            }
        }
        let (chain, at) = match best {
            Some((_, _, at)) => (ends[at].chain, ends[at].at),
            None => {
                chains.push(Vec::new());
                (chains.len() - 1, 0)
            }
        };
        chains[chain].push((tensor, at));
        let mut steps_behind = steps;
        if let Some((_, _, row)) = best {
            let end = ends.swap_remove(row);
            if (at + bytes).div_ceil(page) == at.div_ceil(page) {
                // Still in the same page.
                steps_behind = union(&end.steps, &steps_behind);
            }
        }
        if paged && !(at + bytes).is_multiple_of(page) {
            ends.push(End {
                chain,
                persistent: row.persistent,
                fixed: row.fixed,
                at: at + bytes,
                steps: steps_behind,
            });
        }
    }
    chains
}

fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// Time in which memory is short.
struct Clock {
    /// Before each step, and in all.
    before: Vec<u64>,
    short: u64,
}

impl Clock {
    fn new(skeleton: &Skeleton, budget: u64, uses: &[Vec<(u32, Mode)>]) -> Self {
        let steps = skeleton.ops.len();
        let mut change = vec![0_i128; steps + 1];
        for (tensor, uses) in skeleton.tensors.iter().zip(uses) {
            let bytes = i128::from(tensor.bytes.0);
            let life = match (tensor.persistent, uses.first(), uses.last()) {
                (false, Some(first), Some(last)) => first.0 as usize..last.0 as usize + 1,
                _ => 0..steps,
            };
            change[life.start] += bytes;
            change[life.end] -= bytes;
        }
        let mut before = Vec::with_capacity(steps + 1);
        let (mut live, mut now) = (0, 0);
        for (op, change) in skeleton.ops.iter().zip(&change) {
            live += change;
            before.push(now);
            if live > i128::from(budget) {
                now += op.duration_ns + 1;
            }
        }
        before.push(now);
        Self { before, short: now }
    }

    /// From the end of a step to the start of one behind it, which may be in the next iteration.
    fn between(&self, a: u32, b: u32) -> u64 {
        let (a, b) = (a as usize + 1, b as usize);
        if b < a {
            self.short - self.before[a] + self.before[b]
        } else {
            self.before[b] - self.before[a]
        }
    }

    /// The idle time that two lists of uses lose because of each other: what is left of each gap
    /// counts as the longest part that the other does not use.
    fn loss(&self, a: &[u32], b: &[u32]) -> u64 {
        self.lost(a, b) + self.lost(b, a)
    }

    fn lost(&self, of: &[u32], to: &[u32]) -> u64 {
        let mut lost = 0;
        for (row, &from) in of.iter().enumerate() {
            let until = of[(row + 1) % of.len()];
            let whole = self.between(from, until);
            if whole == 0 {
                continue;
            }
            let wraps = until <= from;
            // The other's uses inside, in order.
            let first = to.partition_point(|&step| step <= from);
            let inside: Box<dyn Iterator<Item = &u32>> = if wraps {
                let end = to.partition_point(|&step| step < until);
                Box::new(to[first..].iter().chain(&to[..end.min(first)]))
            } else {
                let end = to.partition_point(|&step| step < until);
                Box::new(to[first.min(end)..end].iter())
            };
            let (mut longest, mut since) = (0, from);
            for &step in inside {
                longest = longest.max(self.between(since, step));
                since = step;
            }
            longest = longest.max(self.between(since, until));
            lost += whole - longest.min(whole);
        }
        lost
    }
}
