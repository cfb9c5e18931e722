//! Select: which gap pieces cover every demand with the least traffic.
//!
//! In: the graph, pages live at each step, and a target for each step. Out: for each gap, how many
//! of its tensor's pieces leave in it. Gaps cover a step if the pieces that are away there are at
//! least as many as the step has too many.
//!
//! Method: a sweep over the steps, beginning where the fewest pages are live. Where a step has too
//! many, pieces are taken from the idle tensor whose next use is farthest, just as many as are
//! needed. For gaps that do not wrap this is Belady's rule on pages, which moves the fewest pages.
//!
//! *Not here*: when copies run. A target below the budget leaves the schedule room for prefetches.

use std::collections::BinaryHeap;

use crate::count::to_u32;
use crate::graph::Graph;

/// What the selection aims at.
#[derive(Clone, Copy, Debug)]
pub struct Aim<'a> {
    /// Pages of paged tensors live at each step.
    pub live: &'a [i64],
    /// Pages that each step may hold.
    pub target: &'a [i64],
    /// For each gap, how many pieces may leave in it at most (all or none, if tensors move as a
    /// whole); empty for no limit.
    pub most: &'a [u32],
    /// Whether tensors move only as a whole.
    pub whole: bool,
}

/// Pages away at each step of a sweep over one iteration.
struct Coverage {
    change: Vec<i64>,
    start: usize,
    now: i64,
    at: usize,
}

impl Coverage {
    fn new(steps: usize, start: usize) -> Self {
        Self {
            change: vec![0; steps + 1],
            start,
            now: 0,
            at: 0,
        }
    }

    /// Moves on to the `at`-th step of the sweep.
    fn advance(&mut self, at: usize) {
        self.at = at;
        self.now += self.change[at];
    }

    /// Takes `pages` away in the steps `from .. to`, counted on the circle.
    fn add(&mut self, from: u32, to: u32, pages: i64) {
        let steps = self.change.len() - 1;
        // In sweep coordinates the range may show up twice: as it is, and an iteration earlier.
        for shift in [0, steps, 2 * steps] {
            let low = (from as usize + steps).saturating_sub(self.start + shift);
            let high = (to as usize + steps)
                .saturating_sub(self.start + shift)
                .min(steps);
            if low >= high {
                continue;
            }
            if low <= self.at && self.at < high {
                self.now += pages;
            } else if low > self.at {
                self.change[low] += pages;
            }
            if high > self.at {
                self.change[high] -= pages;
            }
        }
    }
}

/// For each gap of the graph, how many pieces leave in it.
#[must_use]
pub fn select(graph: &Graph<'_>, aim: Aim<'_>) -> Vec<u32> {
    let steps = aim.live.len();
    let gaps = graph.gaps();
    let mut moved = vec![0_u32; gaps.len()];
    let Some(start) = (0..steps).min_by_key(|&k| aim.live[k] - aim.target[k]) else {
        return moved;
    };
    let mut coverage = Coverage::new(steps, start);
    let needed = (0..steps).any(|k| aim.live[k] > aim.target[k]);
    if !needed {
        return moved;
    }
    // What costs no copy comes first.
    for (row, gap) in gaps.iter().enumerate().filter(|(_, gap)| gap.dead) {
        moved[row] = graph.node(gap.tensor).pieces;
        let idle = gap.idle();
        coverage.add(idle.start, idle.end, i64::from(moved[row]));
    }
    let mut opening = vec![Vec::new(); steps];
    let mut heap: BinaryHeap<(usize, core::cmp::Reverse<usize>)> = BinaryHeap::new();
    for (row, gap) in gaps.iter().enumerate().filter(|(_, gap)| !gap.dead) {
        let idle = gap.idle();
        if idle.start as usize % steps != start && idle.contains(to_u32(start), to_u32(steps)) {
            // Open when the sweep begins: it closes at its next use, and opens again later.
            let close = (idle.end as usize + steps - start - 1) % steps + 1;
            heap.push((close, core::cmp::Reverse(row)));
        }
        opening[idle.start as usize % steps].push(row);
    }
    for at in 0..steps {
        let step = (start + at) % steps;
        for &row in &opening[step] {
            heap.push((
                at + gaps[row].idle().len() as usize,
                core::cmp::Reverse(row),
            ));
        }
        coverage.advance(at);
        let mut short = aim.live[step] - aim.target[step] - coverage.now;
        while short > 0 {
            let Some(&(close, core::cmp::Reverse(row))) = heap.peek() else {
                break;
            };
            let pieces = graph.node(gaps[row].tensor).pieces;
            let most = aim.most.get(row).map_or(pieces, |&most| most.min(pieces));
            let left = i64::from(most.saturating_sub(moved[row]));
            let taken = if aim.whole { left } else { left.min(short) };
            if close <= at || taken == left {
                heap.pop();
            }
            if close > at && taken > 0 {
                moved[row] += u32::try_from(taken).expect("at most the pieces of a tensor");
                let idle = gaps[row].idle();
                coverage.add(idle.start, idle.end, taken);
                short -= taken;
            }
        }
    }
    moved
}
