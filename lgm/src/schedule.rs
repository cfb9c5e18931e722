//! Schedule: when copies run, for the least stall.
//!
//! In: the graph, a selection, and a capacity. Out: the moves with the times of their ins, and the
//! queues. Outs are released after the last access before the gap. For ins there is a choice:
//! early ones are there in time but hold pages that others may want; late ones stall.
//!
//! Method: integrated prefetching and caching in the order of need. An in may be released from the
//! first step on from which every later step has room for it and all that are needed before it, and
//! not earlier than a *lead* before the last moment at which the link could still deliver in
//! time (a backward pass over the last simulated timeline).
//!
//! Source: Albers, Garg, Leonardi: *Minimizing stall time in single and parallel disk systems*,
//! J. ACM 47(6), 2000, for the problem.

use crate::cost::{Load, Timeline, copy_ns};
use crate::demand::{add_on_circle, prefix_sums};
use crate::graph::Graph;
use crate::moves::Move;
use crate::profile::Link;
use crate::queues::{Overfull, Pages, Queues, queues};

/// Moves with times, their queues, and how long an iteration takes with them.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The moves.
    pub moves: Vec<Move>,
    /// The order of copies and what waits for what.
    pub queues: Queues,
    /// What the cost model says, before the layout.
    pub timeline: Timeline,
}

impl Schedule {
    /// Orders moves whose times are set, and scores them.
    ///
    /// # Errors
    /// If more pages are held at once than there are.
    pub fn new(
        graph: &Graph<'_>,
        pages: &Pages,
        moves: Vec<Move>,
        capacity: i64,
        link: &Link,
    ) -> Result<Self, Overfull> {
        let queues = queues(pages, &moves, capacity)?;
        let timeline = Load::of_queues(graph.skeleton, &moves, &queues, link).simulate();
        Ok(Self {
            moves,
            queues,
            timeline,
        })
    }

    /// What makes one better than another, the least first: the nanoseconds of an iteration, then
    /// the bytes that leave in it.
    #[must_use]
    pub fn rank(&self) -> (u64, u64) {
        let moved = self.moves.iter().map(|m| m.bytes.0).sum();
        (self.timeline.iteration_ns, moved)
    }
}

/// An in, in the order of need, on a line of its own: `need` lies in one iteration, `leave` may lie
/// in the one before.
struct Item {
    row: usize,
    leave: i64,
    need: i64,
    pages: i64,
    copy_ns: u64,
}

/// Everything that setting the times needs beside the moves.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch<'a> {
    /// Pages live.
    pub pages: &'a Pages,
    /// Pages that may be held.
    pub capacity: i64,
    /// The link.
    pub link: &'a Link,
    /// When steps start, by the last simulation.
    pub timeline: &'a Timeline,
    /// How long before the last good moment an in may be released, in nanoseconds.
    pub lead_ns: u64,
}

/// Sets the times of all ins.
pub fn prefetch(moves: &mut [Move], with: Prefetch<'_>) {
    let steps = with.pages.live.len();
    let items = items(moves, steps, with.link);
    let latest = latest_starts(&items, with.timeline, steps);
    let room = room(&items, moves, with.pages, with.capacity);
    let period = i64::try_from(steps).expect("limits: at most 2^20 steps");
    let all: i64 = items.iter().map(|item| item.pages).sum();
    let mut sum = all;
    let mut by_room = 0;
    for (item, &latest_ns) in items.iter().zip(&latest) {
        sum += item.pages;
        // Both bounds only grow, so the search goes on where it ended.
        while by_room < room.len() && room[by_room] < sum {
            by_room += 1;
        }
        let by_room = i64::try_from(by_room).expect("three iterations of steps") - period;
        let not_before = latest_ns - i64::try_from(with.lead_ns).unwrap_or(i64::MAX / 4);
        let by_time = last_step_starting_by(with.timeline, not_before, steps);
        let back = by_room.max(by_time).max(item.leave + 1).min(item.need);
        let m = &mut moves[item.row];
        // On the move's own line, where `need` may lie in the next iteration.
        let shift = i64::from(m.need) - item.need;
        m.back = u32::try_from(back + shift).expect("behind `leave`, which is not negative");
    }
}

/// The ins in the order of need.
fn items(moves: &[Move], steps: usize, link: &Link) -> Vec<Item> {
    let steps = i64::try_from(steps).expect("limits: at most 2^20 steps");
    let mut items: Vec<Item> = moves
        .iter()
        .enumerate()
        .filter(|(_, m)| m.read)
        .map(|(row, m)| {
            let shift = if i64::from(m.need) >= steps { steps } else { 0 };
            Item {
                row,
                leave: i64::from(m.leave) - shift,
                need: i64::from(m.need) - shift,
                pages: i64::from(m.pieces.count),
                copy_ns: copy_ns(m.bytes, link.in_bps, link.copy_latency_ns),
            }
        })
        .collect();
    items.sort_unstable_by_key(|item| (item.need, item.leave, item.row));
    items
}

/// For each item, the last moment at which its copy could start and still be in time, if all behind
/// it are; in nanoseconds from the start of the iteration, negative in the one before.
fn latest_starts(items: &[Item], timeline: &Timeline, steps: usize) -> Vec<i64> {
    let mut latest = vec![0; items.len()];
    let took = i64::try_from(timeline.iteration_ns).unwrap_or(i64::MAX / 8);
    let mut next = i64::MAX;
    // Twice, from the end of the next iteration: what is needed there may have to start here.
    for shift in [took, 0] {
        for (item, latest) in items.iter().zip(&mut latest).rev() {
            let step = usize::try_from(item.need).expect("on the line of one iteration");
            debug_assert!(step < steps);
            let start = i64::try_from(timeline.starts_ns[step]).unwrap_or(i64::MAX / 8);
            let due = start.saturating_add(shift).min(next);
            next = due - i64::try_from(item.copy_ns).unwrap_or(i64::MAX / 8);
            *latest = next;
        }
    }
    latest
}

/// The last step, counted on a line through this and neighbouring iterations, that starts no later
/// than a moment.
fn last_step_starting_by(timeline: &Timeline, moment_ns: i64, steps: usize) -> i64 {
    let took = i64::try_from(timeline.iteration_ns.max(1)).unwrap_or(i64::MAX / 8);
    let rounds = moment_ns.div_euclid(took);
    let within = u64::try_from(moment_ns.rem_euclid(took)).expect("a remainder");
    let started = timeline.starts_ns.partition_point(|&start| start <= within);
    let steps = i64::try_from(steps).expect("limits: at most 2^20 steps");
    let started = i64::try_from(started).expect("limits: at most 2^20 steps");
    rounds.saturating_mul(steps).saturating_add(started - 1)
}

/// For each step of three iterations (the one before, this one, the next), how many pages of ins in
/// the order of need may be there from it on without any later step holding too many.
fn room(items: &[Item], moves: &[Move], pages: &Pages, capacity: i64) -> Vec<i64> {
    let steps = pages.live.len();
    // Pages held at each step if every in arrives when it is needed.
    let mut change = vec![0; steps + 1];
    for m in moves {
        let idle = vtensor::StepRange {
            start: m.leave + 1,
            end: m.need,
        };
        add_on_circle(&mut change, idle, -i64::from(m.pieces.count));
    }
    let away = prefix_sums(&change);
    let mut due = vec![0; steps];
    for item in items {
        due[usize::try_from(item.need).expect("on the line of one iteration")] += item.pages;
    }
    let mut room = Vec::with_capacity(3 * steps);
    let mut sum = 0;
    for at in 0..3 * steps {
        let step = at % steps;
        sum += due[step];
        room.push(sum + capacity - (pages.live[step] + away[step]));
    }
    for at in (1..3 * steps).rev() {
        room[at - 1] = room[at - 1].min(room[at]);
    }
    room
}
