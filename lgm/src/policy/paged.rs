//! What the published policies share in their paged variants: a choice of gaps, and its schedule.
//!
//! In: gaps, one after the other, as a policy takes them. Out: schedules in which the tensor of
//! each is away for its gap, as a whole. Everything but the choice is the planner's own: outs are
//! released after the last access, ins by its prefetcher, with every lead that it tries. So what
//! differs between two policies is what moves, not how well it is moved.
//!
//! A gap whose content is dead costs no copy. Every policy gets those for nothing, though few
//! papers mention them.
//!
//! *Not here*: the policies' own prefetch rules, see `published`.

use super::Task;
use super::leads::{Best, Lead};
use crate::cost::{Timeline, copy_ns};
use crate::count::to_i64;
use crate::graph::Gap;
use crate::moves::{Cut, Move, moves};
use crate::queues::Overfull;
use crate::schedule::Schedule;

/// Gaps in which tensors leave, and the pages that are held all the same.
#[derive(Clone, Debug)]
pub(super) struct Choice<'a> {
    task: Task<'a>,
    taken: Vec<bool>,
    held: Vec<i64>,
    /// Steps that hold more than the capacity.
    over: usize,
}

impl<'a> Choice<'a> {
    /// Only the gaps that cost no copy.
    pub(super) fn new(task: Task<'a>) -> Self {
        let held = task.pages.live.clone();
        let over = held.iter().filter(|&&pages| pages > task.capacity).count();
        let mut choice = Self {
            task,
            taken: vec![false; task.graph.gaps().len()],
            held,
            over,
        };
        if choice.over > 0 {
            for row in 0..choice.taken.len() {
                if task.graph.gaps()[row].dead {
                    choice.take(row);
                }
            }
        }
        choice
    }

    /// Takes a gap. What is taken already stays so.
    pub(super) fn take(&mut self, row: usize) {
        if core::mem::replace(&mut self.taken[row], true) {
            return;
        }
        let pages = self.pages(row);
        for step in idle_steps(self.task, row) {
            let before = self.held[step] > self.task.capacity;
            self.held[step] -= pages;
            if before && self.held[step] <= self.task.capacity {
                self.over -= 1;
            }
        }
    }

    /// Whether no step holds too much.
    pub(super) fn fits(&self) -> bool {
        self.over == 0
    }

    /// Pages that a step holds beyond the capacity, or 0.
    pub(super) fn excess(&self, step: usize) -> i64 {
        (self.held[step] - self.task.capacity).max(0)
    }

    /// Whether a gap that is not taken covers a step that holds too much.
    pub(super) fn relieves(&self, row: usize) -> bool {
        !self.taken[row] && idle_steps(self.task, row).any(|step| self.excess(step) > 0)
    }

    /// Whether a gap is taken.
    pub(super) fn taken(&self, row: usize) -> bool {
        self.taken[row]
    }

    /// The first of the steps that hold the most.
    pub(super) fn peak(&self) -> usize {
        let steps = 0..self.held.len();
        let peak = steps.max_by_key(|&step| (self.held[step], core::cmp::Reverse(step)));
        peak.expect("a checked skeleton has an op")
    }

    /// The pages of the tensor of a gap.
    pub(super) fn pages(&self, row: usize) -> i64 {
        let graph = self.task.graph;
        i64::from(graph.node(graph.gaps()[row].tensor).pieces)
    }

    /// The best schedules of this choice.
    pub(super) fn schedules(&self) -> Result<Vec<Schedule>, Overfull> {
        best([self.clone()])
    }

    /// How many pieces leave in each gap.
    fn selected(&self) -> Vec<u32> {
        let gaps = self.task.graph.gaps().iter().zip(&self.taken);
        let pieces = |gap: &Gap| self.task.graph.node(gap.tensor).pieces;
        gaps.map(|(gap, &taken)| u32::from(taken) * pieces(gap))
            .collect()
    }

    /// Its moves, on demand: each in is released just before it is needed.
    pub(super) fn moves(&self) -> Vec<Move> {
        moves(self.task.graph, &self.selected(), WHOLE)
    }

    fn schedules_into(&self, best: &mut Best<()>) {
        best.try_leads(self.task, &self.selected(), WHOLE, &Lead::ALL, &|_| ());
    }
}

/// A tensor moves as one.
const WHOLE: Cut = Cut {
    pieces_max: u32::MAX,
};

/// The best schedules of several choices.
///
/// # Errors
/// If none of them can be scheduled: why the last one cannot.
pub(super) fn best<'a>(
    choices: impl IntoIterator<Item = Choice<'a>>,
) -> Result<Vec<Schedule>, Overfull> {
    let mut best = Best::new();
    choices
        .into_iter()
        .for_each(|choice| choice.schedules_into(&mut best));
    best.schedules()
}

/// The steps of a gap in which its tensor is idle, each in `0 .. steps`.
pub(super) fn idle_steps(task: Task<'_>, row: usize) -> impl Iterator<Item = usize> {
    let idle = task.graph.gaps()[row].idle();
    let steps = task.graph.steps();
    (idle.start..idle.end).map(move |step| (step % steps) as usize)
}

/// When steps start: what policies reckon with.
#[derive(Clone, Debug)]
pub(super) struct Clock<'a> {
    task: Task<'a>,
    /// For each step, and for the end.
    starts_ns: Vec<u64>,
}

/// The times of a gap, in nanoseconds from the start of its iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absence {
    /// When the use before it is complete.
    pub(super) from_ns: u64,
    /// When the use behind it starts; later than a whole iteration if it wraps.
    pub(super) to_ns: u64,
    /// How long a copy out takes.
    pub(super) out_ns: u64,
    /// How long a copy in takes; 0 if the use behind overwrites everything.
    pub(super) in_ns: u64,
}

impl Absence {
    /// How long the tensor is away if both copies run at once: negative if they overlap.
    pub(super) fn free_ns(self) -> i64 {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX / 8);
        signed(self.to_ns) - signed(self.in_ns) - signed(self.from_ns) - signed(self.out_ns)
    }
}

impl<'a> Clock<'a> {
    /// If nothing ever stalled.
    pub(super) fn new(task: Task<'a>) -> Self {
        let mut starts_ns = vec![0];
        let mut now = 0;
        for op in &task.graph.skeleton.ops {
            now += op.duration_ns;
            starts_ns.push(now);
        }
        Self { task, starts_ns }
    }

    /// As simulated.
    pub(super) fn simulated(task: Task<'a>, timeline: &Timeline) -> Self {
        let mut starts_ns = timeline.starts_ns.clone();
        starts_ns.push(timeline.iteration_ns);
        Self { task, starts_ns }
    }

    /// How long an iteration takes.
    pub(super) fn iteration_ns(&self) -> u64 {
        self.starts_ns[self.starts_ns.len() - 1]
    }

    /// When a step starts; it may lie in the next iteration.
    pub(super) fn start_ns(&self, step: u32) -> u64 {
        let steps = self.task.graph.steps();
        u64::from(step / steps) * self.iteration_ns() + self.starts_ns[(step % steps) as usize]
    }

    /// The last step, counted on a line through the neighbouring iterations, that starts no later
    /// than a moment.
    pub(super) fn last_step_by(&self, moment_ns: i64) -> i64 {
        let whole = i64::try_from(self.iteration_ns().max(1)).unwrap_or(i64::MAX / 8);
        let within = u64::try_from(moment_ns.rem_euclid(whole)).expect("a remainder");
        let steps = &self.starts_ns[..self.starts_ns.len() - 1];
        let started = steps.partition_point(|&start| start <= within);
        moment_ns.div_euclid(whole) * to_i64(steps.len()) + to_i64(started) - 1
    }

    pub(super) fn absence(&self, gap: &Gap) -> Absence {
        let link = self.task.link;
        let bytes = self.task.graph.skeleton.tensor(gap.tensor).bytes;
        Absence {
            from_ns: self.start_ns(gap.after + 1),
            to_ns: self.start_ns(gap.before),
            out_ns: copy_ns(bytes, link.out_bps, link.copy_latency_ns),
            in_ns: if gap.read_next {
                copy_ns(bytes, link.in_bps, link.copy_latency_ns)
            } else {
                0
            },
        }
    }
}
