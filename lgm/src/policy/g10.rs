//! `g10`: the gap with the largest area above the budget line is taken, again and again, if the
//! link can hide both of its copies.
//!
//! The area is bytes times time: of the excess at each step, the part that the gap takes away. It
//! is taken as it is, and over the bytes that pass the link for it; the better choice is kept.
//! Each step's duration is a share of the link in either direction. The copy out takes what is left
//! of it from the last use on, the copy in what is left before the next use, and they may not meet.
//! What the link cannot hide is taken only when nothing else is left. Then copies in are pulled
//! earlier wherever memory permits; paged, that is the work of the common prefetcher.
//!
//! Source: Zhang et al., *G10: Enabling An Efficient Unified GPU Memory and Storage Architecture
//! with Smart Tensor Migrations*, MICRO 2023.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Task;
use super::paged::{Choice, best, idle_steps};
use super::published::{Fastest, Timed, by_need, release};
use crate::queues::Overfull;
use crate::schedule::Schedule;

pub(super) fn schedules(task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    best(Benefit::ALL.map(|benefit| choice(task, benefit)))
}

/// By what gaps are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Benefit {
    Area,
    /// So that a gap of a large tensor does not win by size alone.
    AreaPerByte,
}

impl Benefit {
    const ALL: [Self; 2] = [Self::Area, Self::AreaPerByte];

    fn of(self, task: Task<'_>, choice: &Choice<'_>, row: usize) -> u128 {
        /// Keeps small areas of large tensors apart.
        const FRACTION: u128 = 1 << 40;
        let area = area(task, choice, row).saturating_mul(FRACTION);
        match self {
            Self::Area => area,
            Self::AreaPerByte => {
                let tensor = task.graph.gaps()[row].tensor;
                area / u128::from(task.graph.skeleton.tensor(tensor).bytes.0)
            }
        }
    }
}

/// How many choices are scheduled.
#[allow(clippy::cast_possible_truncation)]
pub(super) const CHOICES: u32 = Benefit::ALL.len() as u32;

fn choice(task: Task<'_>, by: Benefit) -> Choice<'_> {
    let mut choice = Choice::new(task);
    let mut link = LinkShares::new(task);
    let gaps = task.graph.gaps().iter().enumerate();
    let mut rows: Vec<usize> = gaps
        .filter(|(_, gap)| !gap.dead)
        .map(|(row, _)| row)
        .collect();
    for hidden in [true, false] {
        let mut refused = Vec::new();
        let by_area = rows
            .iter()
            .map(|&row| (by.of(task, &choice, row), Reverse(row)));
        let mut heap: BinaryHeap<_> = by_area.collect();
        while let Some((known, Reverse(row))) = heap.pop() {
            if choice.fits() {
                return choice;
            }
            // Areas only shrink, so one that did not is still the largest.
            let now = by.of(task, &choice, row);
            if now == 0 {
                continue;
            }
            if now < known {
                heap.push((now, Reverse(row)));
            } else if !hidden || link.reserve(row) {
                choice.take(row);
            } else {
                refused.push(row);
            }
        }
        rows = refused;
    }
    choice
}

/// Pages times nanoseconds beyond the capacity that a gap takes away. Steps without a duration
/// count a little, for they hold memory too.
fn area(task: Task<'_>, choice: &Choice<'_>, row: usize) -> u128 {
    let pages = choice.pages(row);
    let ops = &task.graph.skeleton.ops;
    let parts = idle_steps(task, row).map(|step| {
        let away = choice.excess(step).min(pages);
        let pages = u128::try_from(away).expect("an excess is not negative");
        pages * u128::from(ops[step].duration_ns + 1)
    });
    parts.sum()
}

/// Bytes that can still pass the link during each step.
struct LinkShares<'a> {
    task: Task<'a>,
    out: Vec<f64>,
    back: Vec<f64>,
}

impl<'a> LinkShares<'a> {
    fn new(task: Task<'a>) -> Self {
        let share = |bps: f64| {
            let ops = task.graph.skeleton.ops.iter();
            ops.map(|op| op.duration_ns as f64 * 1e-9 * bps).collect()
        };
        Self {
            task,
            out: share(task.link.out_bps),
            back: share(task.link.in_bps),
        }
    }

    /// Gives both copies of a gap their shares, if the in can begin behind the out.
    fn reserve(&mut self, row: usize) -> bool {
        let gap = &self.task.graph.gaps()[row];
        let bytes = self.task.graph.skeleton.tensor(gap.tensor).bytes.0 as f64;
        let idle: Vec<usize> = idle_steps(self.task, row).collect();
        let bytes_in = if gap.read_next { bytes } else { 0.0 };
        let Some(out) = shares(&self.out, idle.iter().copied(), bytes) else {
            return false;
        };
        let Some(back) = shares(&self.back, idle.iter().rev().copied(), bytes_in) else {
            return false;
        };
        if out.steps + back.steps > idle.len() {
            return false;
        }
        give(&mut self.out, idle.iter().copied(), out);
        give(&mut self.back, idle.iter().rev().copied(), back);
        true
    }
}

/// The first steps of some, and what the last of them keeps.
#[derive(Clone, Copy)]
struct Shares {
    steps: usize,
    kept: f64,
}

/// Less than this is a rounding error.
const LEFT_BYTES_MAX: f64 = 1.0;

fn shares(link: &[f64], steps: impl Iterator<Item = usize>, bytes: f64) -> Option<Shares> {
    let mut left = bytes;
    let mut count = 0;
    let mut kept = 0.0;
    for step in steps {
        if left < LEFT_BYTES_MAX {
            break;
        }
        count += 1;
        kept = (link[step] - left).max(0.0);
        left -= link[step];
    }
    (left < LEFT_BYTES_MAX).then_some(Shares { steps: count, kept })
}

fn give(link: &mut [f64], steps: impl Iterator<Item = usize>, shares: Shares) {
    for (row, step) in steps.take(shares.steps).enumerate() {
        let last = row + 1 == shares.steps;
        link[step] = if last { shares.kept } else { 0.0 };
    }
}

/// Each copy in is pulled forward to where memory permits it.
pub(super) fn published(task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
    let mut fastest = Fastest::new();
    for benefit in Benefit::ALL {
        let moves = choice(task, benefit).moves();
        fastest.offer(release(task, moves, |_, _| 0, by_need(task)));
    }
    fastest.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    fn example() -> Example {
        // Tensor 0 waits the longest, 1 is twice as large, 2 waits only across the peak.
        let ops: &[(_, _, &[_])] = &[
            ("a", 1000, &[w(0)]),
            ("b", 2000, &[w(1)]),
            ("c", 2000, &[w(2)]),
            ("peak", 5000, &[w(3)]),
            ("d", 2000, &[r(2)]),
            ("e", 2000, &[r(1)]),
            ("f", 1000, &[r(0)]),
        ];
        Example::new(&[1, 2, 1, 1], ops)
    }

    #[test]
    fn the_largest_area_above_the_line_goes_first() {
        for (capacity, wanted) in [(5, vec![]), (4, vec![0]), (3, vec![1]), (2, vec![0, 1])] {
            example().with(capacity, |task| {
                let choice = choice(task, Benefit::Area);
                assert!(choice.fits());
                assert_eq!(leaving(task, &choice), wanted, "capacity {capacity}");
            });
        }
    }

    #[test]
    fn per_byte_the_longest_gap_goes_first() {
        example().with(3, |task| {
            // A page is missing at `c` and `d`, two at `peak`.
            let choice = Choice::new(task);
            let areas = [0, 1, 2].map(|row| area(task, &choice, row));
            assert_eq!(areas, [9003, 14_004, 5001]);
            // Tensor 2 would follow tensor 0, but its one step cannot hide two copies.
            let choice = self::choice(task, Benefit::AreaPerByte);
            assert_eq!(leaving(task, &choice), [0, 1]);
        });
    }

    #[test]
    fn a_share_of_the_link_is_given_once() {
        example().with(2, |task| {
            let mut link = LinkShares::new(task);
            // Tensor 2: a page each way in the 5 us of the peak, which is one step.
            assert!(!link.reserve(2), "out and in may not share a step");
            assert!(link.reserve(1));
            // Its out took the 2 us of `c`, its in those of `d`.
            assert!(link.out[2] < LEFT_BYTES_MAX);
            assert!(link.back[4] < LEFT_BYTES_MAX);
            assert!(link.reserve(0), "there is `b` and `e`");
        });
    }
}
