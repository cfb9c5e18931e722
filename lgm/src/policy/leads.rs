//! Leads: the schedules of a selection, with every lead time, and the best of them all.
//!
//! A *lead* is how long before the last good moment a copy in may start: short leads leave the link
//! to more urgent ones and hold fewer pages. Each is tried twice, the second time by the timeline
//! that it got the first time.

use super::Task;
use crate::cost::Timeline;
use crate::moves::{Cut, moves};
use crate::queues::Overfull;
use crate::schedule::{Prefetch, Schedule, prefetch};

/// A lead, in thousandths of the iteration time; `u64::MAX` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lead(u64);

impl Lead {
    pub(super) const ALL: [Self; 7] = [
        Self(u64::MAX),
        Self(500),
        Self(200),
        Self(100),
        Self(50),
        Self(20),
        Self(0),
    ];

    pub(super) fn of_ns(self, iteration_ns: u64) -> u64 {
        match self.0 {
            u64::MAX => u64::MAX / 4,
            thousandths => iteration_ns / 1000 * thousandths,
        }
    }
}

const ROUNDS: usize = 2;
/// How many of the best schedules are offered to the layout.
const KEPT: usize = 8;

/// How many schedules one selection is scored by at most.
#[allow(clippy::cast_possible_truncation)]
pub(super) const EVALUATIONS_MAX: u32 = (1 + Lead::ALL.len() * ROUNDS) as u32;

/// The fastest so far, the best first, all different, each with a tag that says how it was made.
pub(super) struct Best<T> {
    schedules: Vec<(Schedule, T)>,
    overfull: Overfull,
}

impl<T> Best<T> {
    pub(super) fn new() -> Self {
        Self {
            schedules: Vec::new(),
            overfull: Overfull { step: 0 },
        }
    }

    /// Schedules a selection, for each gap so many pieces, with every lead.
    pub(super) fn try_leads(
        &mut self,
        task: Task<'_>,
        selected: &[u32],
        cut: Cut,
        leads: &[Lead],
        tag: &dyn Fn(Option<Lead>) -> T,
    ) {
        let on_demand = moves(task.graph, selected, cut);
        let make = |moves| Schedule::new(task.graph, task.pages, moves, task.capacity, task.link);
        let Some(first) = self.offer(make(on_demand.clone()), tag(None)) else {
            return;
        };
        if on_demand.is_empty() {
            return;
        }
        for &lead in leads {
            let mut timeline = first.clone();
            for _ in 0..ROUNDS {
                let mut moves = on_demand.clone();
                let with = Prefetch {
                    pages: task.pages,
                    capacity: task.capacity,
                    link: task.link,
                    timeline: &timeline,
                    lead_ns: lead.of_ns(timeline.iteration_ns),
                };
                prefetch(&mut moves, with);
                match self.offer(make(moves), tag(Some(lead))) {
                    Some(next) => timeline = next,
                    None => break,
                }
            }
        }
    }

    /// The best few.
    pub(super) fn best(&self, few: usize) -> Vec<(Schedule, T)>
    where
        T: Clone,
    {
        self.schedules.iter().take(few).cloned().collect()
    }

    /// Keeps a schedule if it is good enough.
    pub(super) fn keep(&mut self, schedule: Schedule, tag: T) {
        let _ = self.offer(Ok(schedule), tag);
    }

    /// The tags of all that were kept.
    pub(super) fn tags(&self) -> impl Iterator<Item = &T> {
        self.schedules.iter().map(|(_, tag)| tag)
    }

    /// All that were kept.
    ///
    /// # Errors
    /// If no selection could be scheduled: why the last one could not.
    pub(super) fn schedules(self) -> Result<Vec<Schedule>, Overfull> {
        if self.schedules.is_empty() {
            Err(self.overfull)
        } else {
            Ok(self.schedules.into_iter().map(|(one, _)| one).collect())
        }
    }

    /// Keeps what is good enough, and returns the timeline of the new one if it is sound.
    fn offer(&mut self, found: Result<Schedule, Overfull>, tag: T) -> Option<Timeline> {
        let schedule = match found {
            Ok(schedule) => schedule,
            Err(overfull) => {
                self.overfull = overfull;
                return None;
            }
        };
        let timeline = schedule.timeline.clone();
        let rank = schedule.rank();
        let at = self.schedules.partition_point(|(s, _)| s.rank() <= rank);
        let equal = self.schedules[..at].iter().rev();
        let known = equal
            .take_while(|(s, _)| s.rank() == rank)
            .any(|(s, _)| s.moves == schedule.moves);
        if at < KEPT && !known {
            self.schedules.insert(at, (schedule, tag));
            self.schedules.truncate(KEPT);
        }
        Some(timeline)
    }
}
