//! `vtensor` and `whole`: a grid of selections and lead times, scored by the cost model.
//!
//! Two numbers are searched. *Headroom*: select as if there were less memory, so that copies in
//! find room before they are needed. *Lead*: how long before the last good moment a copy in may
//! start; short leads leave the link to more urgent ones and hold fewer pages. Each candidate is
//! scheduled twice, the second time by the timeline that the first one got.

use super::Task;
use crate::cost::Timeline;
use crate::moves::{Cut, moves};
use crate::queues::Overfull;
use crate::schedule::{Prefetch, Schedule, prefetch};
use crate::select::{Aim, select};

/// Whether tensors move in pieces or as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granule {
    Piece,
    Tensor,
}

/// Thousandths of the capacity that the selection leaves free.
const HEADROOMS: [i64; 6] = [0, 20, 50, 100, 150, 200];
/// Thousandths of the iteration time; the first stands for no limit.
const LEADS: [u64; 7] = [u64::MAX, 500, 200, 100, 50, 20, 0];
const ROUNDS: usize = 2;
/// How many of the best schedules are offered to the layout.
const KEPT: usize = 8;
/// Bytes of one copy at most: long enough to hide the latency, short enough to free early.
const COPY_BYTES: [u64; 2] = [8 << 20, 32 << 20];

#[allow(clippy::cast_possible_truncation)]
pub(super) const EVALUATIONS_MAX: u32 =
    (HEADROOMS.len() * (1 + LEADS.len() * ROUNDS) * COPY_BYTES.len()) as u32;

pub(super) fn schedules(task: Task<'_>, granule: Granule) -> Result<Vec<Schedule>, Overfull> {
    let mut best = Best {
        schedules: Vec::new(),
        overfull: Overfull { step: 0 },
    };
    let page = task.graph.page.get();
    let mut cuts = COPY_BYTES
        .map(|bytes| u32::try_from(bytes / page).unwrap_or(1).max(1))
        .to_vec();
    if granule == Granule::Tensor {
        cuts = vec![u32::MAX];
    }
    cuts.dedup();
    for pieces_max in cuts {
        for headroom in HEADROOMS {
            let target = vec![task.capacity * (1000 - headroom) / 1000; task.pages.live.len()];
            let aim = Aim {
                live: &task.pages.live,
                target: &target,
                whole: granule == Granule::Tensor,
            };
            let selected = select(task.graph, aim);
            candidate(task, &selected, Cut { pieces_max }, &mut best);
        }
    }
    if best.schedules.is_empty() {
        Err(best.overfull)
    } else {
        Ok(best.schedules)
    }
}

struct Best {
    /// The fastest so far, the best first, all different.
    schedules: Vec<Schedule>,
    overfull: Overfull,
}

impl Best {
    /// Keeps what is good enough, and returns the timeline of the new one if it is sound.
    fn offer(&mut self, found: Result<Schedule, Overfull>) -> Option<Timeline> {
        match found {
            Ok(schedule) => {
                let timeline = schedule.timeline.clone();
                let time = |s: &Schedule| s.timeline.iteration_ns;
                let at = self
                    .schedules
                    .partition_point(|s| time(s) <= time(&schedule));
                let known = self.schedules[..at]
                    .iter()
                    .rev()
                    .take_while(|s| time(s) == time(&schedule))
                    .any(|s| s.moves == schedule.moves);
                if at < KEPT && !known {
                    self.schedules.insert(at, schedule);
                    self.schedules.truncate(KEPT);
                }
                Some(timeline)
            }
            Err(overfull) => {
                self.overfull = overfull;
                None
            }
        }
    }
}

fn candidate(task: Task<'_>, selected: &[u32], cut: Cut, best: &mut Best) {
    let on_demand = moves(task.graph, selected, cut);
    let make = |moves| Schedule::new(task.graph, task.pages, moves, task.capacity, task.link);
    let Some(first) = best.offer(make(on_demand.clone())) else {
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
            match best.offer(make(moves)) {
                Some(next) => timeline = next,
                None => break,
            }
        }
    }
}
