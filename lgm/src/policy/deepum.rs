//! `deepum`: the tensors of the next k ops are fetched; what leaves for them is the least recently
//! used of what those ops do not use. The best k is kept.
//!
//! Leaving early, before there is a shortage, is what the paper calls pre-eviction; here every
//! tensor that leaves in a gap leaves right after its last use. Iterations repeat, so the paper's
//! prediction of the next kernels is always right.
//!
//! Source: Jung, Kim and Lee, *DeepUM: Tensor Migration and Prefetching in Unified Memory*, ASPLOS
//! 2023.

use std::collections::BTreeSet;

use vtensor::{OpIndex, TensorId};

use super::Task;
use super::paged::{Choice, best};
use super::published::{Fastest, Timed, by_need, release};
use crate::graph::Holding;
use crate::moves::Move;
use crate::queues::Overfull;
use crate::schedule::Schedule;

/// How many ops ahead are looked at.
const DEPTHS: [u32; 6] = [1, 4, 16, 32, 64, 128];
/// Iterations until what leaves repeats, at most; all that left in the last two then does.
const ROUNDS_MAX: u32 = 6;

/// How many choices are scheduled.
#[allow(clippy::cast_possible_truncation)]
pub(super) const CHOICES: u32 = DEPTHS.len() as u32;

pub(super) fn schedules(task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    let mut choices = Vec::new();
    let mut last = Overfull { step: 0 };
    for depth in DEPTHS {
        match choice(task, depth) {
            Ok(choice) => choices.push(choice),
            Err(overfull) => last = overfull,
        }
    }
    if choices.is_empty() {
        return Err(last);
    }
    best(choices)
}

fn choice(task: Task<'_>, depth: u32) -> Result<Choice<'_>, Overfull> {
    let mut memory = Memory::new(task, depth.min(task.graph.steps() - 1));
    let mut before = memory.iterate(0)?;
    let mut last = memory.iterate(1)?;
    for round in 2..ROUNDS_MAX {
        if before == last {
            break;
        }
        before = core::mem::replace(&mut last, memory.iterate(round)?);
    }
    let mut choice = Choice::new(task);
    for row in before.union(&last) {
        choice.take(*row);
    }
    Ok(choice)
}

/// What is resident, as the ops go by.
struct Memory<'a> {
    task: Task<'a>,
    depth: u32,
    /// For each tensor that is resident, when it was used last.
    last_use: Vec<Option<u64>>,
    by_last_use: BTreeSet<(u64, TensorId)>,
    /// For each tensor, how many of the next ops use it.
    wanted: Vec<u32>,
    held: i64,
}

impl<'a> Memory<'a> {
    fn new(task: Task<'a>, depth: u32) -> Self {
        let tensors = task.graph.skeleton.tensors.len();
        let mut memory = Self {
            task,
            depth,
            last_use: vec![None; tensors],
            by_last_use: BTreeSet::new(),
            wanted: vec![0; tensors],
            held: 0,
        };
        for step in 0..depth {
            for tensor in memory.used(step) {
                memory.wanted[tensor.index()] += 1;
            }
        }
        memory
    }

    /// The paged tensors of an op, which may be one of the next iteration.
    fn used(&self, step: u32) -> Vec<TensorId> {
        let graph = self.task.graph;
        let accesses = graph.skeleton.accesses_of(OpIndex(step % graph.steps()));
        let tensors = accesses.iter().map(|access| access.tensor);
        tensors
            .filter(|&tensor| graph.node(tensor).holding == Holding::Paged)
            .collect()
    }

    /// Runs an iteration; returns the gaps in which tensors left.
    fn iterate(&mut self, round: u32) -> Result<BTreeSet<usize>, Overfull> {
        let graph = self.task.graph;
        let steps = graph.steps();
        let mut left = BTreeSet::new();
        for step in 0..steps {
            let now = u64::from(round) * u64::from(steps) + u64::from(step);
            for tensor in self.used(step + self.depth) {
                self.wanted[tensor.index()] += 1;
            }
            let used = self.used(step);
            for &tensor in &used {
                self.touch(tensor, now);
            }
            while self.held > self.task.capacity {
                self.evict(step, now, true, &mut left)
                    .ok_or(Overfull { step })?;
            }
            self.prefetch(step, now, &mut left);
            for tensor in used {
                self.wanted[tensor.index()] -= 1;
                let node = graph.node(tensor);
                if !node.persistent && graph.life(tensor).end == step + 1 {
                    self.leave(tensor);
                }
            }
        }
        Ok(left)
    }

    /// Fetches what the next ops use, as far as there is room.
    fn prefetch(&mut self, step: u32, now: u64, left: &mut BTreeSet<usize>) {
        let graph = self.task.graph;
        let steps = graph.steps();
        for ahead in 1..=self.depth {
            for tensor in self.used(step + ahead) {
                let born = step + ahead < steps && graph.life(tensor).start <= step;
                let there = graph.node(tensor).persistent || born;
                if !there || self.last_use[tensor.index()].is_some() {
                    continue;
                }
                let pages = i64::from(graph.node(tensor).pieces);
                while self.held + pages > self.task.capacity {
                    if self.evict(step, now, false, left).is_none() {
                        return;
                    }
                }
                self.touch(tensor, now);
            }
        }
    }

    /// The tensor is used, or fetched.
    fn touch(&mut self, tensor: TensorId, now: u64) {
        match self.last_use[tensor.index()].replace(now) {
            Some(before) => {
                self.by_last_use.remove(&(before, tensor));
            }
            None => self.held += i64::from(self.task.graph.node(tensor).pieces),
        }
        self.by_last_use.insert((now, tensor));
    }

    fn leave(&mut self, tensor: TensorId) {
        if let Some(before) = self.last_use[tensor.index()].take() {
            self.by_last_use.remove(&(before, tensor));
            self.held -= i64::from(self.task.graph.node(tensor).pieces);
        }
    }

    /// Lets the least recently used tensor leave, one that the next ops use only if `needed`.
    fn evict(
        &mut self,
        step: u32,
        now: u64,
        needed: bool,
        left: &mut BTreeSet<usize>,
    ) -> Option<()> {
        let graph = self.task.graph;
        let idle = |tensor: TensorId| graph.use_at(tensor, step).is_none();
        let old = || self.by_last_use.iter().map(|&(_, tensor)| tensor);
        let unwanted = old().find(|t| idle(*t) && self.wanted[t.index()] == 0);
        let victim = match unwanted {
            None if needed => old().find(|&tensor| idle(tensor)),
            found => found,
        }?;
        debug_assert!(self.last_use[victim.index()] <= Some(now));
        self.leave(victim);
        let gap = graph
            .gaps_of(victim)
            .find(|&row| graph.gaps()[row].idle().contains(step, graph.steps()));
        left.extend(gap);
        Some(())
    }
}

/// Each op fetches what the next `depth` ops use.
pub(super) fn published(task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
    let mut fastest = Fastest::new();
    for depth in DEPTHS {
        let wanted = |_, m: &Move| i64::from(m.need) - i64::from(depth);
        let made = choice(task, depth);
        fastest.offer(made.and_then(|c| release(task, c.moves(), wanted, by_need(task))));
    }
    fastest.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    #[test]
    fn the_least_recently_used_leaves_unless_it_is_wanted_soon() {
        let ops: &[(_, _, &[_])] = &[
            ("a", 1, &[w(0)]),
            ("b", 1, &[w(1)]),
            ("c", 1, &[w(2)]),
            ("d", 1, &[r(0)]),
            ("e", 1, &[r(1), r(2)]),
        ];
        Example::new(&[1, 1, 1], ops).with(2, |task| {
            let leaving_at = |depth| leaving(task, &choice(task, depth).expect("it fits"));
            // Without a look ahead tensor 0, used the longest ago, leaves at `c` for `d`, where
            // tensor 1 leaves in turn.
            assert_eq!(leaving_at(0), [0, 1]);
            // With one the next op is known to want it.
            assert_eq!(leaving_at(1), [1]);
        });
    }
}
