//! `flashneuron`: feature maps leave in the order in which the forward pass writes them, until the
//! rest fits.
//!
//! Early feature maps wait the longest for the backward pass, and leaving in order keeps the writes
//! to storage sequential.
//!
//! Limits: parameters and the state of the optimizer never leave, as published. The paper's second
//! phase, which compresses, is left out: nothing here changes content.
//!
//! Source: Bae et al., *FlashNeuron: SSD-Enabled Large-Batch Training of Very Deep Neural
//! Networks*, FAST 2021.

use super::Task;
use super::forward::feature_maps;
use super::forward::turn;
use super::paged::Choice;
use super::published::{Fastest, Timed, release};
use crate::moves::Move;
use crate::queues::Overfull;
use crate::schedule::Schedule;

pub(super) fn schedules(task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    choice(task).schedules()
}

fn choice(task: Task<'_>) -> Choice<'_> {
    let mut choice = Choice::new(task);
    for row in feature_maps(task) {
        if choice.fits() {
            break;
        }
        choice.take(row);
    }
    choice
}

/// From the turn on, copies in come in the reverse order of the copies out, each as early as there
/// is room.
pub(super) fn published(task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
    let turn = i64::from(turn(task));
    let mut fastest = Fastest::new();
    let reverse = |m: &Move| core::cmp::Reverse(m.leave);
    fastest.offer(release(task, choice(task).moves(), |_, _| turn, reverse));
    fastest.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    #[test]
    fn the_first_feature_maps_leave_until_the_rest_fits() {
        let ops: &[(_, _, &[_])] = &[
            ("a", 1, &[w(0)]),
            ("b", 1, &[r(0), w(1)]),
            ("c", 1, &[r(1), w(2)]),
            ("d", 1, &[r(2), w(3)]),
            ("loss", 1, &[w(4)]),
            ("loss_backward", 1, &[r(3), r(4)]),
            ("c_backward", 1, &[r(2)]),
            ("b_backward", 1, &[r(1)]),
            ("a_backward", 1, &[r(0)]),
        ];
        // Five pages at the loss; tensors are 0 .. 4, each of one page.
        let example = Example::new(&[1; 5], ops);
        for (capacity, wanted) in [(5, vec![]), (4, vec![0]), (3, vec![0, 1])] {
            example.with(capacity, |task| {
                let choice = choice(task);
                assert_eq!(leaving(task, &choice), wanted, "capacity {capacity}");
                assert!(choice.schedules().is_ok());
            });
        }
    }

    #[test]
    fn copies_return_in_reverse_order_as_there_is_room() {
        let ops: &[(_, _, &[_])] = &[
            ("a", 1, &[w(0)]),
            ("b", 1, &[w(1)]),
            ("loss", 1, &[w(2)]),
            ("a_backward", 1, &[w(3)]),
            ("b_backward", 1, &[w(4)]),
            ("c_backward", 1, &[r(1)]),
            ("d_backward", 1, &[r(0)]),
        ];
        let example = Example::new(&[1, 1, 2, 1, 1], ops);
        example.with(2, |task| {
            let timed = published(task).expect("it fits").remove(0);
            let moves = timed.schedule.moves.iter();
            let backs: Vec<_> = moves.map(|m| (m.tensor.0, m.back)).collect();
            // Tensor 1 left last and has the room from the turn on; tensor 0 comes when the op
            // before the one that needs tensor 1 is over.
            assert_eq!(backs, [(0, 5), (1, 3)]);
        });
    }
}
