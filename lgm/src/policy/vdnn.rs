//! `vdnn-all`, `vdnn-conv`: feature maps leave in the forward pass, whether or not there is room
//! for them: those that any layer reads, or only those that a convolution reads.
//!
//! What a feature map and a convolution are is in `forward`. What an op writes and the backward
//! pass uses counts as read by a layer.
//!
//! As published, the op behind the last layer that reads a feature map waits until it has left. In
//! the backward pass each op fetches one: the first in the order of need that is not there yet, no
//! farther ahead than the next convolution.
//!
//! Limits: parameters and the state of the optimizer never leave, as published. Where they and the
//! largest layers alone exceed the budget, there is no plan.
//!
//! Source: Rhu et al., *vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient
//! Neural Network Design*, MICRO 2016.

use vtensor::OpIndex;

use super::Task;
use super::forward::{feature_maps, feeds_convolution, is_convolution, turn};
use super::paged::Choice;
use super::published::{Timed, by_need, release};
use crate::moves::Move;
use crate::queues::Overfull;
use crate::schedule::Schedule;

/// Whose inputs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layers {
    All,
    Convolutions,
}

pub(super) fn schedules(task: Task<'_>, layers: Layers) -> Result<Vec<Schedule>, Overfull> {
    choice(task, layers).schedules()
}

fn choice(task: Task<'_>, layers: Layers) -> Choice<'_> {
    let mut choice = Choice::new(task);
    for row in feature_maps(task) {
        if layers == Layers::All || feeds_convolution(task, row) {
            choice.take(row);
        }
    }
    choice
}

/// Each op of the backward pass fetches one feature map at the most.
pub(super) fn published(task: Task<'_>, layers: Layers) -> Result<Vec<Timed>, Overfull> {
    let moves = choice(task, layers).moves();
    let backs = prefetches(task, &moves);
    let schedule = release(task, moves, |row, _| backs[row], by_need(task))?;
    Ok(vec![Timed::waiting(task, schedule)])
}

/// For each move, the op that fetches it: the one that needs it, if none before does.
fn prefetches(task: Task<'_>, moves: &[Move]) -> Vec<i64> {
    let steps = task.graph.steps();
    let mut backs: Vec<i64> = moves.iter().map(|m| i64::from(m.need)).collect();
    // For each op, what it needs that is not there yet.
    let mut needed = vec![Vec::new(); steps as usize];
    let mut away = 0;
    for (row, m) in moves
        .iter()
        .enumerate()
        .filter(|(_, m)| m.read && m.need < steps)
    {
        needed[m.need as usize].push(row);
        away += 1;
    }
    for step in turn(task)..steps {
        away -= core::mem::take(&mut needed[step as usize]).len();
        if away == 0 {
            break;
        }
        for ahead in step + 1..steps {
            if let Some(row) = needed[ahead as usize].pop() {
                backs[row] = i64::from(step);
                away -= 1;
                break;
            }
            if is_convolution(task, OpIndex(ahead)) {
                break;
            }
        }
    }
    backs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    #[test]
    fn feature_maps_leave_and_nothing_else() {
        // Tensor 0 feeds a convolution, 1 another layer, 2 is not used again.
        let ops: &[(_, _, &[_])] = &[
            ("load", 1, &[w(0)]),
            ("convolution", 1, &[r(0), w(1)]),
            ("relu", 1, &[r(1), w(2)]),
            ("loss", 1, &[r(2), w(3)]),
            ("relu_backward", 1, &[r(1), r(3), w(4)]),
            ("convolution_backward", 1, &[r(0), r(4)]),
        ];
        let example = Example::new(&[1; 5], ops);
        example.with(2, |task| {
            let taken = |layers| leaving(task, &choice(task, layers));
            assert_eq!(taken(Layers::All), [0, 1]);
            assert_eq!(taken(Layers::Convolutions), [0]);
        });
    }

    #[test]
    fn each_op_fetches_one_and_waits_for_what_leaves() {
        let ops: &[(_, _, &[_])] = &[
            ("load", 1, &[w(0)]),
            ("convolution", 1, &[r(0), w(1)]),
            ("relu", 1, &[r(1), w(2)]),
            ("convolution", 1, &[r(2), w(3)]),
            ("loss", 1, &[r(3), w(4)]),
            ("convolution_backward", 1, &[r(2), r(4), w(5)]),
            ("relu_backward", 1, &[r(1), r(5), w(6)]),
            ("convolution_backward", 1, &[r(0), r(6)]),
        ];
        let example = Example::new(&[1; 7], ops);
        example.with(7, |task| {
            let timed = published(task, Layers::All).expect("it fits").remove(0);
            let moves = &timed.schedule.moves;
            let backs = moves.iter().map(|m| (m.tensor.0, m.back, m.need));
            // Tensor 2 is needed by the first op of the backward pass, which fetches tensor 1; the
            // next one fetches tensor 0.
            assert_eq!(backs.collect::<Vec<_>>(), [(0, 6, 7), (1, 5, 6), (2, 5, 5)]);
            let out_needed = &timed.schedule.queues.out_needed;
            assert!(timed.waits_for_outs);
            assert_eq!(out_needed[2..5], [1, 2, 3], "behind the last readers");
        });
    }
}
