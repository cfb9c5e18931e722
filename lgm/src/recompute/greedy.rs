//! Which contents to give up, in the order of their worth.
//!
//! Method: the next content is the one that costs the least compute for the excess over the budget
//! that it takes away. Both depend on what was given up before, since what is made again may need
//! what was given up, so each candidate is rewritten anew before it is taken (lazily: worth mostly
//! falls, and is estimated from above at first). What has become needless in the end is kept after
//! all.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::history::History;
use super::rewrite::{draft, rewrite};
use super::script::{Memory, Script};

/// Tensors below this are left alone: they are many, and give little.
const BYTES_MIN: u64 = 64 << 10;
/// Work on a trajectory: accesses that are rewritten.
const WORK_MAX: usize = 12_000_000;

/// Contents that are given up.
#[derive(Clone, Debug)]
pub struct Given {
    /// The accesses before which they are made again.
    pub rows: BTreeSet<usize>,
    /// The time of what runs again, in nanoseconds.
    pub recompute_ns: u64,
    /// The memory that is taken then.
    pub memory: Memory,
    /// The accesses of all steps.
    accesses: usize,
}

/// From nothing to as much as the budget asks for, if there is so much, one content more each time.
/// The first gives nothing up.
#[must_use]
pub fn trajectory(history: &History<'_>, budget: u64) -> Vec<Given> {
    let nothing = Given::of(history, BTreeSet::new(), budget);
    let mut path = vec![nothing.expect("nothing is made again")];
    let mut work = WORK_MAX;
    let mut heap = BinaryHeap::from(candidates(history, budget));
    while let Some(best) = heap.pop() {
        let last = path.last().expect("it begins with nothing");
        if last.memory.excess == 0 || work == 0 {
            break;
        }
        let row = best.row.0;
        let Some(next) = last.and(history, row, budget, &mut work) else {
            continue;
        };
        let Some(worth) = next.worth(last) else {
            continue;
        };
        let fresh =
            best.round == path.len() || heap.peek().is_none_or(|other| worth >= other.worth);
        if fresh {
            path.push(next);
        } else {
            heap.push(Candidate {
                worth,
                row: best.row,
                round: path.len(),
            });
        }
    }
    path
}

impl Given {
    /// What follows from giving up the contents that some accesses read; `None` if one of them
    /// cannot be made again.
    pub(super) fn of(history: &History<'_>, rows: BTreeSet<usize>, budget: u64) -> Option<Self> {
        let draft = draft(history, rows.iter().copied())?;
        Some(Self {
            recompute_ns: draft.recompute_ns(history.skeleton),
            memory: draft.memory(history.skeleton, budget),
            accesses: draft.accesses(),
            rows,
        })
    }

    /// The steps that follow.
    #[must_use]
    pub fn script(&self, history: &History<'_>) -> Script {
        let script = rewrite(history, self.rows.iter().copied());
        script.expect("it has been drafted")
    }

    /// The same, and one content more.
    fn and(
        &self,
        history: &History<'_>,
        row: usize,
        budget: u64,
        work: &mut usize,
    ) -> Option<Self> {
        let size = self.accesses;
        if *work < size {
            *work = 0;
            return None;
        }
        *work -= size;
        let mut rows = self.rows.clone();
        rows.insert(row);
        Self::of(history, rows, budget)
    }

    /// Excess taken away for the compute that it takes, compared with what was there before.
    fn worth(&self, before: &Self) -> Option<Worth> {
        let taken = before.memory.excess.checked_sub(self.memory.excess)?;
        let cost = self.recompute_ns.saturating_sub(before.recompute_ns).max(1);
        (taken > 0).then_some(Worth(taken / u128::from(cost)))
    }

    /// Without what has become needless: the excess stays what it is.
    #[must_use]
    pub fn pruned(self, history: &History<'_>, budget: u64) -> Self {
        let mut best = self;
        for row in best.rows.clone() {
            let mut rows = best.rows.clone();
            rows.remove(&row);
            let Some(less) = Self::of(history, rows, budget) else {
                continue;
            };
            let cheaper = less.recompute_ns < best.recompute_ns;
            if less.memory.excess <= best.memory.excess && cheaper {
                best = less;
            }
        }
        best
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Worth(u128);

/// Ordered by worth, then the earliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    worth: Worth,
    row: Reverse<usize>,
    /// How long the path was when its worth was found; 0 if it is only estimated.
    round: usize,
}

/// The accesses before which a content could be made again: reads of transients after a pause in
/// which there is an excess; with what they are worth at the most.
fn candidates(history: &History<'_>, budget: u64) -> Vec<Candidate> {
    let skeleton = history.skeleton;
    let excess = excess_before(history, budget);
    let mut found = Vec::new();
    for (row, access) in skeleton.accesses.iter().enumerate() {
        let tensor = skeleton.tensor(access.tensor);
        let able = access.mode.reads() && !(tensor.persistent || tensor.fixed);
        if !able || tensor.bytes.0 < BYTES_MIN {
            continue;
        }
        let this = history.at(row);
        let Some(before) = history.before(row) else {
            continue;
        };
        let steps = excess[this.op.index()] - excess[before.op.index() + 1];
        let Some(makers) = history.makers(access.tensor, this.before) else {
            continue;
        };
        let ops = makers.map(|maker| &skeleton.ops[maker.op.index()]);
        if steps > 0 && ops.clone().all(|op| op.replayable) {
            let cost: u64 = ops.map(|op| op.duration_ns).sum();
            let taken = u128::from(steps) * u128::from(tensor.bytes.0);
            found.push(Candidate {
                worth: Worth(taken / u128::from(cost.max(1))),
                row: Reverse(row),
                round: 0,
            });
        }
    }
    found
}

/// For each op, how many ops before it run while more is live than the budget.
fn excess_before(history: &History<'_>, budget: u64) -> Vec<u64> {
    let mut count = 0;
    let mut before = vec![0];
    for live in history.skeleton.live_bytes() {
        count += u64::from(live > budget);
        before.push(count);
    }
    before
}
