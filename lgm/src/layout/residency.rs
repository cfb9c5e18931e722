//! Residencies: when pieces are on the device, on a circle that is cut open at one step.
//!
//! In: the graph, a schedule, and the cut. Out: for a piece that is claimed at some position, how long
//! it stays. Positions count twice the steps from the cut: `2k` is the `k`-th step, `2k + 1` is
//! what follows its completion (pages are freed, then copies in are released).

use vtensor::TensorId;

use crate::graph::{Graph, Holding};
use crate::moves::Move;
use crate::queues::Queues;
use crate::schedule::Schedule;

/// A position on the opened circle.
pub(super) type Position = u32;

/// How a stay on the device ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Behind the cut: the stay goes on at the beginning of the circle.
    Crosses,
    /// After the step at this position less one, within the circle.
    At(Position),
}

/// The moves by tensor, and where they are in the queues.
pub(super) struct Stays<'a> {
    pub(super) graph: &'a Graph<'a>,
    pub(super) schedule: &'a Schedule,
    pub(super) cut: u32,
    by_tensor: Vec<Vec<usize>>,
    /// For each move, its number among the outs.
    pub(super) out_of: Vec<Option<usize>>,
    /// For each move, its number among the ins.
    pub(super) in_of: Vec<Option<usize>>,
}

impl<'a> Stays<'a> {
    pub(super) fn new(graph: &'a Graph<'a>, schedule: &'a Schedule, cut: u32) -> Self {
        let moves = &schedule.moves;
        let mut by_tensor = vec![Vec::new(); graph.skeleton.tensors.len()];
        for (row, m) in moves.iter().enumerate() {
            by_tensor[m.tensor.index()].push(row);
        }
        let Queues { outs, ins, .. } = &schedule.queues;
        let mut out_of = vec![None; moves.len()];
        outs.iter()
            .enumerate()
            .for_each(|(number, out)| out_of[out.row] = Some(number));
        let mut in_of = vec![None; moves.len()];
        ins.iter()
            .enumerate()
            .for_each(|(number, i)| in_of[i.row] = Some(number));
        Self {
            graph,
            schedule,
            cut,
            by_tensor,
            out_of,
            in_of,
        }
    }

    pub(super) fn move_at(&self, row: usize) -> &Move {
        &self.schedule.moves[row]
    }

    /// The moves of a tensor.
    pub(super) fn moves_of(&self, tensor: TensorId) -> &[usize] {
        &self.by_tensor[tensor.index()]
    }

    /// How many steps from the cut a step is.
    pub(super) fn turn(&self, step: u32) -> u32 {
        let steps = self.graph.steps();
        (step % steps + steps - self.cut) % steps
    }

    /// When a move's pieces are claimed again.
    pub(super) fn claim_position(&self, m: &Move) -> Position {
        if m.read {
            2 * self.turn(m.release()) + 1
        } else {
            2 * self.turn(m.need)
        }
    }

    fn leave_position(&self, m: &Move) -> Position {
        2 * self.turn(m.leave) + 1
    }

    /// How the stay of a piece ends that is claimed at a position, and the move that ends it.
    pub(super) fn end(
        &self,
        tensor: TensorId,
        piece: u32,
        claimed: Position,
    ) -> (End, Option<usize>) {
        let holding = |&&row: &&usize| self.move_at(row).pieces.contains(piece);
        // A copy in that is released with a leave comes behind it, hence strictly later.
        let next = self
            .moves_of(tensor)
            .iter()
            .filter(holding)
            .map(|&row| (self.leave_position(self.move_at(row)), row))
            .filter(|&(leave, _)| leave > claimed)
            .min();
        let death = self.death_position(tensor).filter(|&death| death > claimed);
        match (next, death) {
            (Some((leave, row)), None) => (End::At(leave), Some(row)),
            (Some((leave, row)), Some(death)) if leave < death => (End::At(leave), Some(row)),
            (_, Some(death)) => (End::At(death), None),
            (None, None) => (End::Crosses, None),
        }
    }

    /// When a transient is gone.
    fn death_position(&self, tensor: TensorId) -> Option<Position> {
        let node = self.graph.node(tensor);
        (!node.persistent).then(|| 2 * self.turn(self.graph.life(tensor).end - 1) + 1)
    }

    /// When the piece is claimed whose stay crosses the cut: `None` if the piece is not there when the
    /// circle begins, `Some(None)` if it is always there.
    pub(super) fn crossing(&self, tensor: TensorId, piece: u32) -> Option<Option<Position>> {
        let node = self.graph.node(tensor);
        let steps = self.graph.steps();
        if node.holding != Holding::Paged {
            return None;
        }
        let life = self.graph.life(tensor);
        if !node.persistent && !(life.start < self.cut && self.cut < life.end) {
            return None;
        }
        let mut last_claim = (!node.persistent).then(|| 2 * self.turn(life.start));
        for &row in self.moves_of(tensor) {
            let m = self.move_at(row);
            if !m.pieces.contains(piece) {
                continue;
            }
            if absent_before(m).contains(self.cut, steps) {
                return None;
            }
            last_claim = last_claim.max(Some(self.claim_position(m)));
        }
        Some(last_claim)
    }
}

/// The steps before which a move's pieces are away, and not yet claimed again.
pub(super) fn absent_before(m: &Move) -> vtensor::StepRange {
    let end = if m.read { m.back } else { m.need + 1 };
    vtensor::StepRange {
        start: m.leave + 1,
        end,
    }
}
