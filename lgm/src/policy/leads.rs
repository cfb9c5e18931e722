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

/// Thousandths of the iteration time; the first stands for no limit.
const LEADS: [u64; 7] = [u64::MAX, 500, 200, 100, 50, 20, 0];
const ROUNDS: usize = 2;
/// How many of the best schedules are offered to the layout.
const KEPT: usize = 8;

/// How many schedules one selection is scored by at most.
#[allow(clippy::cast_possible_truncation)]
pub(super) const EVALUATIONS_MAX: u32 = (1 + LEADS.len() * ROUNDS) as u32;

/// The fastest so far, the best first, all different.
pub(super) struct Best {
    schedules: Vec<Schedule>,
    overfull: Overfull,
}

impl Best {
    pub(super) fn new() -> Self {
        Self {
            schedules: Vec::new(),
            overfull: Overfull { step: 0 },
        }
    }

    /// Schedules a selection, for each gap so many pieces, with every lead.
    pub(super) fn try_leads(&mut self, task: Task<'_>, selected: &[u32], cut: Cut) {
        let on_demand = moves(task.graph, selected, cut);
        let make = |moves| Schedule::new(task.graph, task.pages, moves, task.capacity, task.link);
        let Some(first) = self.offer(make(on_demand.clone())) else {
            return;
        };
        if on_demand.is_empty() {
            return;
        }
        for lead in LEADS {
            let mut timeline = first.clone();
            for _ in 0..ROUNDS {
                let lead_ns = match lead {
                    u64::MAX => u64::MAX / 4,
                    thousandths => timeline.iteration_ns / 1000 * thousandths,
                };
                let mut moves = on_demand.clone();
                let with = Prefetch {
                    pages: task.pages,
                    capacity: task.capacity,
                    link: task.link,
                    timeline: &timeline,
                    lead_ns,
                };
                prefetch(&mut moves, with);
                match self.offer(make(moves)) {
                    Some(next) => timeline = next,
                    None => break,
                }
            }
        }
    }

    /// All that were kept.
    ///
    /// # Errors
    /// If no selection could be scheduled: why the last one could not.
    pub(super) fn schedules(self) -> Result<Vec<Schedule>, Overfull> {
        if self.schedules.is_empty() {
            Err(self.overfull)
        } else {
            Ok(self.schedules)
        }
    }

    /// Keeps what is good enough, and returns the timeline of the new one if it is sound.
    fn offer(&mut self, found: Result<Schedule, Overfull>) -> Option<Timeline> {
        let schedule = match found {
            Ok(schedule) => schedule,
            Err(overfull) => {
                self.overfull = overfull;
                return None;
            }
        };
        let timeline = schedule.timeline.clone();
        let time = |s: &Schedule| s.timeline.iteration_ns;
        let at = self
            .schedules
            .partition_point(|s| time(s) <= time(&schedule));
        let equal = self.schedules[..at].iter().rev();
        let known = equal
            .take_while(|s| time(s) == time(&schedule))
            .any(|s| s.moves == schedule.moves);
        if at < KEPT && !known {
            self.schedules.insert(at, schedule);
            self.schedules.truncate(KEPT);
        }
        Some(timeline)
    }
}
