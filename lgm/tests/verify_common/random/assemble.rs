//! From a simulated iteration to a skeleton and a program.

use lgm::program::Program;
use lgm::skeleton::Skeleton;
use vtensor::{PieceRun, Place, TensorId};

use super::{Copy, HALF, Piece, Simulation, Unit};
use crate::verify_common::build::{Builder, PAGE, pieces};

impl Simulation<'_> {
    pub(super) fn build(&mut self) -> Option<(Skeleton, Program)> {
        let slots = self
            .tensors
            .iter()
            .map(|tensor| tensor.pieces.len())
            .sum::<usize>()
            * 2;
        let pages = u32::try_from(self.pages).expect("few");
        let mut b = Builder::new(pages, slots as u64);
        for tensor in &self.tensors {
            let bytes = tensor.halves as u64 * HALF;
            if tensor.persistent {
                b.persistent(bytes)
            } else {
                b.transient(bytes)
            };
        }
        for (step, accesses) in self.ops.iter().enumerate() {
            let mut rows = Vec::new();
            for (&(tensor, mode), units) in accesses.iter().zip(&self.places[step]) {
                rows.push((TensorId::from_index(tensor), mode, place(&mut b, units)));
            }
            b.step(&rows);
        }
        let outs = self.grouped(&self.outs);
        let ins = self.grouped(&self.ins);
        self.add_outs(&mut b, &outs);
        self.add_ins(&mut b, &outs, &ins);
        self.add_waits(&mut b, &outs, &ins);
        for (index, tensor) in self.tensors.iter().enumerate() {
            for (piece, &(unit, in_slot)) in tensor.homes.iter().enumerate() {
                if tensor.persistent {
                    let place = unit.map(|unit| place(&mut b, &[unit]));
                    let slot = in_slot.then(|| self.slot((index, piece), 0));
                    let run = pieces(u32::try_from(piece).expect("few"), 1);
                    b.home(TensorId::from_index(index), run, place, slot);
                }
            }
        }
        Some(b.finish())
    }

    fn slot(&self, (tensor, piece): Piece, which: usize) -> u64 {
        let before = self.tensors[..tensor]
            .iter()
            .map(|t| t.pieces.len())
            .sum::<usize>();
        let own = self.tensors[tensor].pieces.len();
        (2 * before + which * own + piece) as u64 * PAGE
    }

    /// Copies in order of release, neighbours together where their last pieces meet.
    fn grouped(&self, copies: &[Copy]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..copies.len()).collect();
        order.sort_by_key(|&id| copies[id].release);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for id in order {
            let copy = &copies[id];
            let joins = groups
                .last()
                .and_then(|group| group.last())
                .is_some_and(|&last| {
                    let last = &copies[last];
                    last.release == copy.release
                        && last.slot == copy.slot
                        && last.piece.0 == copy.piece.0
                        && last.piece.1 + 1 == copy.piece.1
                        && copy.slot == 0
                });
            match groups.last_mut() {
                Some(group) if joins => group.push(id),
                _ => groups.push(vec![id]),
            }
        }
        groups
    }

    fn add_outs(&self, b: &mut Builder, outs: &[Vec<usize>]) {
        for group in outs {
            let first = &self.outs[group[0]];
            let units: Vec<Unit> = group.iter().map(|&id| self.outs[id].unit).collect();
            let source = place(b, &units);
            let run = run_of(first.piece.1, group.len());
            let tensor = TensorId::from_index(first.piece.0);
            b.out(tensor, run, source, self.slot(first.piece, first.slot));
        }
    }

    fn add_ins(&self, b: &mut Builder, outs: &[Vec<usize>], ins: &[Vec<usize>]) {
        let mut after_out = 0;
        for group in ins {
            for &id in group {
                let after = self.ins[id].after.iter();
                let count = after.map(|&out| position(outs, out) + 1).max().unwrap_or(0);
                after_out = after_out.max(count);
            }
            let first = &self.ins[group[0]];
            let units: Vec<Unit> = group.iter().map(|&id| self.ins[id].unit).collect();
            let destination = place(b, &units);
            let run = run_of(first.piece.1, group.len());
            let tensor = TensorId::from_index(first.piece.0);
            let slot = self.slot(first.piece, first.slot);
            b.copy_in(tensor, run, destination, slot, after_out);
        }
    }

    fn add_waits(&self, b: &mut Builder, outs: &[Vec<usize>], ins: &[Vec<usize>]) {
        let released = |groups: &[Vec<usize>], copies: &[Copy], step: usize| {
            let count = groups
                .iter()
                .filter(|group| copies[group[0]].release <= step)
                .count();
            i64::try_from(count).expect("few")
        };
        let (mut out_needed, mut in_needed) = (0, 0);
        for (index, step) in b.program.steps.iter_mut().enumerate() {
            for &out in &self.needs[index].0 {
                out_needed = out_needed.max(position(outs, out) + 1);
            }
            for &copy in &self.needs[index].1 {
                in_needed = in_needed.max(position(ins, copy) + 1);
            }
            step.counts.out_needed = out_needed;
            step.counts.in_needed = in_needed;
            step.counts.out_released = released(outs, &self.outs, index);
            step.counts.in_released = released(ins, &self.ins, index);
        }
    }
}

fn run_of(first: usize, count: usize) -> PieceRun {
    pieces(
        u32::try_from(first).expect("few"),
        u32::try_from(count).expect("few"),
    )
}

fn position(groups: &[Vec<usize>], id: usize) -> i64 {
    let group = groups
        .iter()
        .position(|group| group.contains(&id))
        .expect("in some group");
    i64::try_from(group).expect("few")
}

/// The place of pieces that begin at these units.
fn place(b: &mut Builder, units: &[Unit]) -> Place {
    let pages: Vec<u32> = units
        .iter()
        .map(|unit| u32::try_from(unit / 2).expect("few"))
        .collect();
    b.place(&pages, (units[0] % 2) as u64 * HALF)
}
