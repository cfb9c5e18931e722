//! `capuchin`: gaps by their *free time*, the longest first, until everything fits.
//!
//! FT = (next access - swap-in time) - (last access + swap-out time): what is left of a gap when
//! both copies have run. A gap with FT >= 0 costs nothing if the link is free when it wants it, so
//! each that is taken gets slots of the link for its own: the first for its out, the last for its
//! in. What finds no slots in time comes only after everything that does, again by FT.
//!
//! As published, a copy in is triggered by the last op that ends before it has to start if nothing
//! stalls. Where that was late, the trigger moves back by an eighth of the copy's time, again and
//! again.
//!
//! Limits: only the swap part; recomputation is not in question here.
//!
//! Source: Peng et al., *Capuchin: Tensor-based GPU Memory Management for Deep Learning*, ASPLOS
//! 2020.

use std::collections::BTreeMap;

use super::Task;
use super::paged::{Absence, Choice, Clock};
use super::published::{Fastest, Timed, by_need, release};
use crate::cost::copy_ns;
use crate::moves::Move;
use crate::queues::Overfull;
use crate::schedule::Schedule;

pub(super) fn schedules(task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    choice(task).schedules()
}

fn choice(task: Task<'_>) -> Choice<'_> {
    let clock = Clock::new(task);
    let mut choice = Choice::new(task);
    let gaps = task.graph.gaps().iter().enumerate();
    let mut order: Vec<(usize, Absence)> = gaps
        .filter(|(_, gap)| !gap.dead)
        .map(|(row, gap)| (row, clock.absence(gap)))
        .collect();
    order.sort_unstable_by_key(|(row, absence)| (core::cmp::Reverse(absence.free_ns()), *row));
    let mut slots = Slots::new(clock.iteration_ns());
    for exclusive in [true, false] {
        for &(row, absence) in &order {
            if choice.fits() {
                return choice;
            }
            if choice.relieves(row) && (!exclusive || slots.reserve(absence)) {
                choice.take(row);
            }
        }
    }
    choice
}

/// What of the link is given away, in each direction, on the circle of an iteration.
struct Slots {
    iteration_ns: u64,
    out: Line,
    back: Line,
}

/// Ranges of time that are taken, start to end, none overlapping; repeated for two iterations.
type Line = BTreeMap<u64, u64>;

impl Slots {
    fn new(iteration_ns: u64) -> Self {
        Self {
            iteration_ns: iteration_ns.max(1),
            out: Line::new(),
            back: Line::new(),
        }
    }

    /// Gives slots to both copies of a gap, if it has room for both.
    fn reserve(&mut self, absence: Absence) -> bool {
        if absence.out_ns.max(absence.in_ns) > self.iteration_ns {
            return false;
        }
        let out_start = first_free(&self.out, absence.from_ns, absence.out_ns);
        let in_start = last_free(&self.back, absence.to_ns, absence.in_ns);
        let out_end = out_start + absence.out_ns;
        let Some(in_start) = in_start.filter(|&start| start >= out_end) else {
            return false;
        };
        let whole = self.iteration_ns;
        mark(&mut self.out, whole, out_start, absence.out_ns);
        mark(&mut self.back, whole, in_start, absence.in_ns);
        true
    }
}

/// The first moment from `from` on at which the line is free for `length`.
fn first_free(line: &Line, from: u64, length: u64) -> u64 {
    let mut start = from;
    if let Some((_, &end)) = line.range(..=from).next_back() {
        start = start.max(end);
    }
    for (&taken, &end) in line.range(start..) {
        if taken >= start + length {
            break;
        }
        start = end;
    }
    start
}

/// The last moment at which the line is free for `length` until `to` at the latest.
fn last_free(line: &Line, to: u64, length: u64) -> Option<u64> {
    let mut end = to;
    for (&taken, &until) in line.range(..to).rev() {
        if until + length <= end {
            break;
        }
        end = taken;
    }
    end.checked_sub(length)
}

/// Takes a range on the line, and the same in the other iterations that the line has.
fn mark(line: &mut Line, iteration_ns: u64, start: u64, length: u64) {
    if length == 0 {
        return;
    }
    let start = start % iteration_ns;
    for round in 0..3 {
        let from = start + round * iteration_ns;
        line.insert(from, from + length);
        if round == 0 && start + length > iteration_ns {
            // The tail of the one that began in the iteration before.
            line.entry(0).or_insert(start + length - iteration_ns);
        }
    }
}

/// How often triggers are moved.
pub(super) const ROUNDS_MAX: u32 = 24;

/// Copies in are triggered by an op, earlier where they were late.
pub(super) fn published(task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
    let moves = choice(task).moves();
    let steps = task.graph.steps();
    let clock = Clock::new(task);
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX / 8);
    let in_ns = |row: usize| {
        copy_ns(
            moves[row].bytes,
            task.link.in_bps,
            task.link.copy_latency_ns,
        )
    };
    let mut leads_ns: Vec<u64> = (0..moves.len()).map(in_ns).collect();
    let mut fastest = Fastest::new();
    for _ in 0..ROUNDS_MAX {
        let wanted = |row: usize, m: &Move| {
            let due = signed(clock.start_ns(m.need));
            clock.last_step_by(due - signed(leads_ns[row]))
        };
        let made = release(task, moves.clone(), wanted, by_need(task));
        let late = made
            .as_ref()
            .map_or(Vec::new(), |schedule| stalled(task, schedule));
        fastest.offer(made);
        let mut moved = false;
        for (row, m) in moves.iter().enumerate().filter(|(_, m)| m.read) {
            if late.get((m.need % steps) as usize) == Some(&true) {
                leads_ns[row] = leads_ns[row].saturating_add(in_ns(row) / 8 + 1);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    fastest.all()
}

/// For each step, whether it starts later than the one before it ends.
fn stalled(task: Task<'_>, schedule: &Schedule) -> Vec<bool> {
    let mut end = 0;
    let starts = schedule.timeline.starts_ns.iter();
    let steps = starts.zip(&task.graph.skeleton.ops).map(|(&start, op)| {
        let late = start > end;
        end = start + op.duration_ns;
        late
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    #[test]
    fn the_gap_with_the_most_free_time_goes_first() {
        // All three wait across `peak`. Gaps: tensor 0 of 7000 ns, less two copies of 3000; tensor
        // 1 of 6000, tensor 2 of 5000, less two copies of 1000.
        let ops: &[(_, _, &[_])] = &[
            ("a", 500, &[w(0)]),
            ("b", 500, &[w(1)]),
            ("c", 500, &[w(2)]),
            ("peak", 5000, &[w(3)]),
            ("d", 500, &[r(2)]),
            ("e", 500, &[r(1)]),
            ("f", 500, &[r(0)]),
        ];
        let example = Example::new(&[3, 1, 1, 1], ops);
        for (capacity, wanted) in [
            (6, vec![]),
            (5, vec![1]),
            (4, vec![1, 2]),
            (3, vec![0, 1, 2]),
        ] {
            example.with(capacity, |task| {
                let clock = Clock::new(task);
                let free = task.graph.gaps().iter().map(|g| clock.absence(g).free_ns());
                assert_eq!(free.collect::<Vec<_>>(), [1000, 4000, 3000]);
                assert_eq!(leaving(task, &choice(task)), wanted, "capacity {capacity}");
            });
        }
    }

    #[test]
    fn slots_of_the_link_are_exclusive() {
        let absence = |from_ns, to_ns| Absence {
            from_ns,
            to_ns,
            out_ns: 10,
            in_ns: 10,
        };
        let mut slots = Slots::new(100);
        assert!(slots.reserve(absence(0, 40)));
        // The out waits until 10, the in has to end at 30.
        assert!(slots.reserve(absence(0, 40)));
        assert!(
            !slots.reserve(absence(0, 40)),
            "out until 30, in from 10 on"
        );
        // From 85 until 115 of the next iteration: its out ends at 95, its in starts at 105.
        assert!(slots.reserve(absence(85, 115)));
        assert!(!slots.reserve(absence(85, 115)));
        // The outs have 0 to 20 and 85 to 95, the ins 20 to 40 and 5 to 15 (105 to 115).
        let (out, back) = (&slots.out, &slots.back);
        assert_eq!([first_free(out, 0, 10), first_free(out, 80, 10)], [20, 120]);
        assert_eq!(
            (last_free(back, 40, 5), last_free(back, 20, 6)),
            (Some(15), None)
        );
        assert_eq!(last_free(back, 140, 5), Some(115), "an iteration later");
    }

    #[test]
    fn triggers_move_back_where_copies_were_late() {
        // Tensors 0 and 1 are needed by the same op, and one copy has to be early.
        let ops: &[(_, _, &[_])] = &[
            ("a", 1000, &[w(0)]),
            ("b", 1000, &[w(1)]),
            ("peak", 5000, &[w(2)]),
            ("c", 1000, &[w(3)]),
            ("d", 1000, &[w(4)]),
            ("e", 1000, &[w(5)]),
            ("f", 1000, &[r(0), r(1)]),
        ];
        let example = Example::new(&[1, 1, 3, 1, 1, 1], ops);
        example.with(3, |task| {
            let moves = choice(task).moves();
            let by_clock = |_: usize, m: &Move| i64::from(m.need) - 1;
            let first = release(task, moves, by_clock, by_need(task)).expect("it fits");
            // The peak waits for the second copy out, whatever comes back when.
            assert_eq!(first.timeline.iteration_ns, 13_000, "one copy is late");
            let best = published(task).expect("it fits").remove(0);
            assert_eq!(best.schedule.timeline.iteration_ns, 12_000);
        });
    }
}
