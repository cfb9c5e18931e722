//! `swapadvisor`: where there is no room, the tensor with the farthest next use leaves; it returns
//! as early as there is room.
//!
//! Limits: the planner alone. The paper's genetic search also changes the order of ops and the
//! pools of its allocator; here the order is fixed, and pages need no pools.
//!
//! Source: Huang, Jin and Li, *SwapAdvisor: Pushing Deep Learning Beyond the GPU Memory Limit via
//! Smart Swapping*, ASPLOS 2020.

use super::Task;
use super::paged::Choice;
use super::published::{Fastest, Timed, by_need, release};
use crate::queues::Overfull;
use crate::schedule::Schedule;
use crate::select::{Aim, select};

pub(super) fn schedules(task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    choice(task).schedules()
}

fn choice(task: Task<'_>) -> Choice<'_> {
    let target = vec![task.capacity; task.pages.live.len()];
    let aim = Aim {
        live: &task.pages.live,
        most: &[],
        target: &target,
        whole: true,
    };
    let mut choice = Choice::new(task);
    for (row, &pieces) in select(task.graph, aim).iter().enumerate() {
        if pieces > 0 {
            choice.take(row);
        }
    }
    choice
}

/// Each copy in starts as early as there is room for it.
pub(super) fn published(task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
    let mut fastest = Fastest::new();
    fastest.offer(release(task, choice(task).moves(), |_, _| 0, by_need(task)));
    fastest.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    #[test]
    fn the_farthest_next_use_leaves() {
        let ops: &[(_, _, &[_])] = &[
            ("a", 1, &[w(0)]),
            ("b", 1, &[w(1)]),
            ("c", 1, &[w(2)]),
            ("d", 1, &[w(3)]),
            ("e", 1, &[r(0)]),
            ("f", 1, &[r(2)]),
            ("g", 1, &[r(1)]),
        ];
        let example = Example::new(&[1; 4], ops);
        for (capacity, wanted) in [(4, vec![]), (3, vec![1]), (2, vec![1, 2])] {
            example.with(capacity, |task| {
                assert_eq!(leaving(task, &choice(task)), wanted, "capacity {capacity}");
            });
        }
    }
}
