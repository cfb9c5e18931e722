//! A frozen program, and how it maps to what the application does.
//!
//! In: a proven plan of a transcript. Out: for each op of the score, the addresses of its tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;

use lgm::plan_file;
use lgm::trace::MappedSkeleton;
use lgm::verify::VerifiedPlan;
use vtensor::{OpIndex, StepKind, TensorId};

use super::op::Row;
use super::score::{Score, mode_of};
use super::seats::Seats;
use super::tensor::Key;
use crate::arena::Arena;
use crate::error::RuntimeError;
use crate::frozen::Frozen;
use crate::scale::to_usize;
use crate::table::AccessRow;

/// A program of a kind of iteration.
pub(super) struct Program {
    pub(super) frozen: Frozen,
    /// What each tensor of the plan is here.
    keys: Vec<Key>,
    ids: BTreeMap<Key, TensorId>,
    /// The accesses of all ops, as the application gives them.
    rows: Vec<Row>,
    /// Where the rows of each op begin, and the end.
    first_row: Vec<usize>,
    pub(super) predicted_ns: u64,
    /// Addresses of tensors that keep theirs.
    pub(super) seats: Seats,
    /// The plan's digest.
    pub(super) digest: [u8; 32],
}

/// The tensors of a plan, as keys.
pub(super) fn keys_of(skeleton: &MappedSkeleton, keys: &[Key]) -> Vec<Key> {
    let rows = skeleton.tensor_rows.iter();
    rows.map(|&row| keys[row as usize]).collect()
}

impl Program {
    /// A frozen plan of a score; `keys` are those of the plan's tensors. Tensors of the score that
    /// the plan does not know are where `elsewhere` says.
    pub(super) fn new(
        frozen: Frozen,
        score: &Score,
        keys: Vec<Key>,
        predicted_ns: u64,
        seats: Seats,
        elsewhere: impl Fn(Key) -> (NonNull<u8>, usize),
    ) -> Self {
        let numbered = keys.iter().enumerate();
        let ids: BTreeMap<Key, TensorId> = numbered
            .map(|(row, &key)| (key, TensorId::from_index(row)))
            .collect();
        let mut rows = Vec::new();
        let mut first_row = vec![0];
        for (index, op) in score.ops().enumerate() {
            let planned = planned_accesses(&frozen, index);
            let merged = op.merged();
            for (key, _) in &op.accesses {
                let (pointer, bytes) = match ids.get(key) {
                    Some(id) => {
                        let access = planned.iter().find(|access| access.tensor == *id);
                        let access = access.expect("the plan has every access of the score");
                        (access.pointer, access.bytes)
                    }
                    None => elsewhere(*key),
                };
                let seat = seats.get(*key);
                rows.push(Row {
                    pointer: seat.map_or(pointer, |seat| seat.pointer()),
                    bytes: seat.map_or(bytes, |seat| to_usize(seat.asked)),
                    mode: mode_of(*key, &merged),
                });
            }
            first_row.push(rows.len());
        }
        Self {
            digest: plan_file::digest_of(&frozen.parts.plan),
            frozen,
            keys,
            ids,
            rows,
            first_row,
            predicted_ns,
            seats,
        }
    }

    /// Shows tensors that keep their address there. The program has the arena.
    pub(super) fn show_seats(&self, arena: &Arena) -> Result<(), RuntimeError> {
        let plan = &self.frozen.parts.plan;
        let (skeleton, program) = (&plan.skeleton, &plan.program);
        let mut shown = BTreeSet::new();
        for (access, place) in skeleton.accesses.iter().zip(&program.places) {
            let key = self.keys[access.tensor.index()];
            let Some(seat) = self.seats.get(key).filter(|_| shown.insert(key)) else {
                continue;
            };
            let ranges = program.arena_ranges(*place, skeleton.tensor(access.tensor).bytes);
            seat.show(
                arena,
                ranges.map(|range| (range.start, range.end - range.start)),
            )?;
        }
        Ok(())
    }

    /// Shows nothing there: the arena is somebody else's.
    pub(super) fn hide_seats(&self) {
        self.seats.iter().for_each(|(_, seat)| seat.hide());
    }

    /// The tensors of op `op` of the score.
    pub(super) fn rows(&self, op: usize) -> &[Row] {
        &self.rows[self.first_row[op]..self.first_row[op + 1]]
    }

    /// The plan's number for a tensor.
    pub(super) fn id(&self, key: Key) -> Option<TensorId> {
        self.ids.get(&key).copied()
    }

    /// The tensors by the plan's numbers.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// All tensors that it knows.
    pub(super) fn all(&self) -> impl Iterator<Item = (TensorId, Key)> {
        let numbered = self.keys.iter().enumerate();
        numbered.map(|(row, &key)| (TensorId::from_index(row), key))
    }

    /// The persistent tensors, which it holds while it is active.
    pub(super) fn persistent(&self) -> impl Iterator<Item = (TensorId, Key)> {
        self.all().filter(|(_, key)| !key.is_transient())
    }
}

/// The accesses of an op of the score, which is a step.
fn planned_accesses(frozen: &Frozen, op: usize) -> &[AccessRow] {
    let table = &frozen.parts.table;
    let step = &table.steps[op];
    assert_eq!(step.op, OpIndex::from_index(op), "ops are steps");
    let first = step.first_access as usize;
    &table.accesses[first..first + step.access_count as usize]
}

/// Whether a plan has a step for each op of a score and no other.
pub(super) fn fits(plan: &VerifiedPlan, score: &Score) -> bool {
    let mut steps = plan.program.steps.iter().enumerate();
    plan.program.steps.len() == score.ops().count()
        && steps.all(|(index, step)| step.kind == StepKind::App(OpIndex::from_index(index)))
}
