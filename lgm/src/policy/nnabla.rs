//! `nnabla-window`: a window runs ahead of the ops in access order, as far as its bytes allow; a
//! tensor that is used and not used again inside the window leaves.
//!
//! So what an op holds is what the ops of its window use, and never more than the window's size. A
//! window that is smaller than what the link can hide stalls, one that is larger keeps tensors that
//! others would need more: several are tried, and the best is kept.
//!
//! Source: Narihira et al., *Out-of-core Training for Extremely Large-Scale Neural Networks With
//! Adaptive Window-Based Scheduling*, arXiv 2010.14109, 2020.

use vtensor::{OpIndex, TensorId};

use super::Task;
use super::paged::{Choice, best};
use super::published::{Fastest, Timed, by_need, release};
use crate::graph::Holding;
use crate::moves::Move;
use crate::queues::Overfull;
use crate::schedule::Schedule;

/// Sizes of the window, in thousandths of the capacity.
const WINDOWS: [i64; 8] = [1000, 900, 800, 650, 500, 350, 200, 100];

/// How many choices are scheduled.
#[allow(clippy::cast_possible_truncation)]
pub(super) const CHOICES: u32 = WINDOWS.len() as u32;

pub(super) fn schedules(task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    best(WINDOWS.map(|thousandths| choice(task, task.capacity * thousandths / 1000)))
}

fn choice(task: Task<'_>, window_pages: i64) -> Choice<'_> {
    let mut choice = Choice::new(task);
    if choice.fits() {
        return choice;
    }
    let heads = heads(task, window_pages);
    for (row, gap) in task.graph.gaps().iter().enumerate() {
        if heads[gap.after as usize] < gap.before {
            choice.take(row);
        }
    }
    choice
}

/// For each op, the last one, perhaps of the next iteration, in a window that begins with it. An op
/// that is larger than the window has one to itself.
fn heads(task: Task<'_>, window_pages: i64) -> Vec<u32> {
    let graph = task.graph;
    let steps = graph.steps();
    let used = |step: u32| {
        let accesses = graph.skeleton.accesses_of(OpIndex(step % steps)).iter();
        accesses
            .map(|access| access.tensor)
            .filter(|&tensor| graph.node(tensor).holding == Holding::Paged)
    };
    let pages = |tensor: TensorId| i64::from(graph.node(tensor).pieces);
    let mut uses_inside = vec![0_u32; graph.skeleton.tensors.len()];
    let (mut inside, mut end) = (0, 0);
    let mut heads = Vec::with_capacity(steps as usize);
    for start in 0..steps {
        // At most until the same op of the next iteration.
        while end <= start + steps {
            let more: i64 = used(end)
                .filter(|tensor| uses_inside[tensor.index()] == 0)
                .map(pages)
                .sum();
            if end > start && inside + more > window_pages {
                break;
            }
            inside += more;
            used(end).for_each(|tensor| uses_inside[tensor.index()] += 1);
            end += 1;
        }
        heads.push(end - 1);
        for tensor in used(start) {
            uses_inside[tensor.index()] -= 1;
            if uses_inside[tensor.index()] == 0 {
                inside -= pages(tensor);
            }
        }
    }
    heads
}

/// A copy in is released when the window reaches the use that it is for.
pub(super) fn published(task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
    let steps = task.graph.steps();
    let mut fastest = Fastest::new();
    for thousandths in WINDOWS {
        let window_pages = task.capacity * thousandths / 1000;
        let heads = heads(task, window_pages);
        let wanted = |_, m: &Move| {
            let reaches =
                |step: &u32| heads[(step % steps) as usize] + step / steps * steps >= m.need;
            let first = (m.leave + 1..m.need).find(reaches);
            i64::from(first.unwrap_or(m.need))
        };
        let moves = choice(task, window_pages).moves();
        fastest.offer(release(task, moves, wanted, by_need(task)));
    }
    fastest.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    #[test]
    fn what_is_not_used_again_inside_the_window_leaves() {
        let ops: &[(_, _, &[_])] = &[
            ("a", 1, &[w(0)]),
            ("b", 1, &[w(1)]),
            ("c", 1, &[w(2)]),
            ("d", 1, &[r(1)]),
            ("e", 1, &[r(0), r(2)]),
        ];
        Example::new(&[1, 1, 1], ops).with(2, |task| {
            // Windows of two pages: {0, 1}, {1, 2}, {2, 1}, {1}, and {0, 2} with the next `a`.
            assert_eq!(heads(task, 2), [1, 3, 3, 3, 5]);
            assert_eq!(leaving(task, &choice(task, 2)), [0, 2]);
            assert_eq!(heads(task, 1), [0, 1, 2, 3, 4]);
            assert_eq!(leaving(task, &choice(task, 1)), [0, 1, 2]);
        });
    }

    #[test]
    fn a_window_as_large_as_everything_keeps_everything() {
        let ops: &[(_, _, &[_])] = &[("a", 1, &[w(0)]), ("b", 1, &[r(1)]), ("c", 1, &[r(0)])];
        let example = Example::new(&[1, 1], ops).persistent(1);
        example.with(1, |task| {
            assert_eq!(heads(task, 2), [3, 4, 5]);
            assert_eq!(leaving(task, &choice(task, 2)), [0; 0]);
            assert_eq!(leaving(task, &choice(task, 1)), [0, 1]);
        });
    }

    #[test]
    fn a_copy_in_comes_when_the_window_reaches_its_use() {
        let ops: &[(_, _, &[_])] = &[
            ("a", 1, &[w(0)]),
            ("b", 1, &[w(1)]),
            ("c", 1, &[w(2)]),
            ("d", 1, &[r(1)]),
            ("e", 1, &[r(0), r(2)]),
        ];
        Example::new(&[1, 1, 1], ops).with(2, |task| {
            // No window of two pages with `d` holds `e` too: both its tensors come on demand.
            let timed = published(task).expect("it fits");
            let backs = timed[0].schedule.moves.iter().map(|m| (m.tensor.0, m.back));
            assert_eq!(backs.collect::<Vec<_>>(), [(0, 4), (2, 4)]);
        });
    }
}
