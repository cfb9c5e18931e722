//! What the published policies share in their variants as published: copies in that are released by
//! a rule of the policy's own.
//!
//! In: the moves of a choice, and for each the step from which on the rule wants it back. Out: a
//! schedule. Where there is no room yet, a copy in is released as soon after that as there is room;
//! whoever comes first in the order of the rule has the room. None of this looks at the time that a
//! schedule takes; rules that try several keep the fastest.
//!
//! *Not here*: where tensors lie, see `crate::packed`.

use super::Task;
use super::paged::Clock;
use crate::cost::{Load, copy_ns};
use crate::demand::{add_on_circle, prefix_sums};
use crate::moves::Move;
use crate::queues::Overfull;
use crate::schedule::Schedule;

/// How many of the fastest schedules are kept.
const KEPT: usize = 2;

/// A schedule, and what a rule of its policy says of waits.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The schedule.
    pub schedule: Schedule,
    /// Whether the step behind each leave waits for its copy out, needed or not.
    pub waits_for_outs: bool,
}

impl Timed {
    /// The schedule, with the step behind each leave waiting for its out.
    pub(super) fn waiting(task: Task<'_>, mut schedule: Schedule) -> Self {
        let queues = &mut schedule.queues;
        for (number, out) in (1..).zip(&queues.outs) {
            // Behind the last step there is nothing to wait with.
            if let Some(needed) = queues.out_needed.get_mut(out.release as usize + 1) {
                *needed = number.max(*needed);
            }
        }
        let mut before = i64::MIN;
        for needed in &mut queues.out_needed {
            before = before.max(*needed);
            *needed = before;
        }
        let load = Load::of_queues(task.graph.skeleton, &schedule.moves, queues, task.link);
        schedule.timeline = load.simulate();
        Self {
            schedule,
            waits_for_outs: true,
        }
    }
}

impl From<Schedule> for Timed {
    fn from(schedule: Schedule) -> Self {
        Self {
            schedule,
            waits_for_outs: false,
        }
    }
}

/// Releases each in so that it has its room from the step on that `wanted` names for it, or later.
/// Who is earlier by `turn` takes room first.
///
/// # Errors
/// If the moves do not fit even on demand.
pub(super) fn release<K: Ord>(
    task: Task<'_>,
    mut moves: Vec<Move>,
    wanted: impl Fn(usize, &Move) -> i64,
    turn: impl Fn(&Move) -> K,
) -> Result<Schedule, Overfull> {
    let steps = task.graph.steps();
    let mut held = held_on_demand(task, &moves);
    let mut order: Vec<usize> = (0..moves.len()).filter(|&row| moves[row].read).collect();
    order.sort_unstable_by_key(|&row| (turn(&moves[row]), row));
    for row in order {
        let m = &mut moves[row];
        let first = wanted(row, m).max(i64::from(m.leave) + 1);
        let units = i64::from(m.pieces.count);
        while i64::from(m.back) > first {
            let held = &mut held[((m.back - 1) % steps) as usize];
            if *held + units > task.capacity {
                break;
            }
            *held += units;
            m.back -= 1;
        }
    }
    Schedule::new(task.graph, task.pages, moves, task.capacity, task.link)
}

/// The order of need, from the start of an iteration on.
pub(super) fn by_need(task: Task<'_>) -> impl Fn(&Move) -> (bool, u32) {
    let steps = task.graph.steps();
    // What is needed in the next iteration is needed first in this one.
    move |m| (m.need < steps, m.need % steps)
}

/// What each step holds if every in comes just before it is needed.
fn held_on_demand(task: Task<'_>, moves: &[Move]) -> Vec<i64> {
    let mut change = vec![0; task.pages.live.len() + 1];
    for m in moves {
        let idle = vtensor::StepRange {
            start: m.leave + 1,
            end: m.need,
        };
        add_on_circle(&mut change, idle, -i64::from(m.pieces.count));
    }
    let away = prefix_sums(&change);
    let live = task.pages.live.iter().zip(away);
    live.map(|(live, away)| live + away).collect()
}

/// For each move, the step from which on it is wanted back so that its copy just ends in time, if
/// the copies behind it do too: scheduled backwards from the last need.
pub(super) fn just_in_time(task: Task<'_>, clock: &Clock<'_>, moves: &[Move]) -> Vec<i64> {
    let steps = task.graph.steps();
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX / 8);
    let mut order: Vec<usize> = (0..moves.len()).filter(|&row| moves[row].read).collect();
    order.sort_unstable_by_key(|&row| (moves[row].need % steps, row));
    let whole = signed(clock.iteration_ns());
    let mut backs: Vec<i64> = moves.iter().map(|m| i64::from(m.need)).collect();
    let mut next = i64::MAX;
    // Twice: what is needed early in the next iteration may have to start in this one.
    for shift in [whole, 0] {
        for &row in order.iter().rev() {
            let m = &moves[row];
            let due = next.min(shift + signed(clock.start_ns(m.need % steps)));
            next = due
                - signed(copy_ns(
                    m.bytes,
                    task.link.in_bps,
                    task.link.copy_latency_ns,
                ));
            let later = i64::from(m.need / steps * steps);
            backs[row] = clock.last_step_by(next) + later;
        }
    }
    backs
}

/// The fastest schedules so far, the best first.
pub(super) struct Fastest {
    timed: Vec<Timed>,
    overfull: Overfull,
}

impl Fastest {
    pub(super) fn new() -> Self {
        Self {
            timed: Vec::new(),
            overfull: Overfull { step: 0 },
        }
    }

    pub(super) fn offer(&mut self, found: Result<Schedule, Overfull>) {
        let time = |timed: &Timed| timed.schedule.timeline.iteration_ns;
        match found {
            Ok(schedule) => {
                let timed = Timed::from(schedule);
                let at = self
                    .timed
                    .partition_point(|other| time(other) < time(&timed));
                // What takes the same time most often is the same.
                if self
                    .timed
                    .get(at)
                    .is_none_or(|other| time(other) > time(&timed))
                {
                    self.timed.insert(at, timed);
                    self.timed.truncate(KEPT);
                }
            }
            Err(overfull) => self.overfull = overfull,
        }
    }

    /// All that were kept.
    ///
    /// # Errors
    /// If there was none: why there was not.
    pub(super) fn all(self) -> Result<Vec<Timed>, Overfull> {
        match self.timed.is_empty() {
            true => Err(self.overfull),
            false => Ok(self.timed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, r, w};
    use crate::policy::paged::Choice;

    /// Tensors 0 and 1 wait across `peak`, in which 2 is large.
    fn example() -> Example {
        let ops: &[(_, _, &[_])] = &[
            ("a", 1000, &[w(0)]),
            ("b", 1000, &[w(1)]),
            ("peak", 5000, &[w(2)]),
            ("c", 1000, &[w(3)]),
            ("d", 1000, &[w(3)]),
            ("e", 1000, &[r(1)]),
            ("f", 1000, &[r(0), w(4)]),
        ];
        Example::new(&[1, 1, 3, 1, 1], ops)
    }

    fn backs(task: Task<'_>, wanted: impl Fn(usize, &Move) -> i64) -> Vec<u32> {
        let mut choice = Choice::new(task);
        (0..task.graph.gaps().len()).for_each(|row| choice.take(row));
        let made = release(task, choice.moves(), wanted, by_need(task)).expect("it fits");
        let read = made.moves.iter().filter(|m| m.read);
        read.map(|m| m.back).collect()
    }

    #[test]
    fn copies_come_when_they_are_wanted_or_when_there_is_room() {
        example().with(3, |task| {
            assert_eq!(backs(task, |_, m| i64::from(m.need)), [6, 5], "on demand");
            assert_eq!(backs(task, |_, m| i64::from(m.need) - 2), [4, 3]);
            assert_eq!(backs(task, |_, _| 0), [3, 3], "there is no room at `peak`");
        });
        example().with(5, |task| {
            assert_eq!(backs(task, |_, _| 0), [1, 2], "not before they have left");
        });
    }

    #[test]
    fn backwards_each_copy_ends_when_the_next_one_starts() {
        example().with(3, |task| {
            let mut choice = Choice::new(task);
            (0..task.graph.gaps().len()).for_each(|row| choice.take(row));
            let moves = choice.moves();
            // `e` starts at 9000, `f` at 10,000; a copy takes 1000.
            let clock = Clock::new(task);
            assert_eq!(just_in_time(task, &clock, &moves), [5, 4]);
        });
    }
}
