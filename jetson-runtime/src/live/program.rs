//! A frozen program, and how it maps to what the application does.
//!
//! In: a proven plan of a transcript. Out: for each op of the score, the addresses of its tensors;
//! the same for each op that runs again, with the addresses of the lives that it uses then.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use lgm::plan::Plan;
use lgm::plan_file;
use lgm::skeleton::Skeleton;
use lgm::trace::MappedSkeleton;
use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, Mode, OpIndex, StepKind, TensorId};

use super::executor::Executor;
use super::op::{Op, Replayer, Row, Token};
use super::putback::PutBack;
use super::score::{OpEvent, Score, mode_of};
use super::seats::Seats;
use super::tensor::Key;
use crate::arena::Arena;
use crate::error::RuntimeError;
use crate::failure::short_name;
use crate::ground::Ground;
use crate::scale::to_usize;

/// A program of a kind of iteration.
pub(super) struct Program {
    pub(super) frozen: Executor,
    /// What each tensor of the plan is here.
    keys: Vec<Key>,
    ids: BTreeMap<Key, TensorId>,
    /// The accesses of all steps, as the application gives them for their ops.
    rows: Vec<Row>,
    /// Where the rows of each step begin, and the end.
    first_row: Vec<usize>,
    /// The step of each op.
    step_of: Vec<usize>,
    /// What the application has said of each op in this iteration, for its replayer.
    pub(super) tokens: Vec<Token>,
    /// Tensors that the plan does not know and an op writes that runs again.
    pub(super) put_back: PutBack,
    /// What an iteration computes again.
    pub(super) recomputed: Bytes,
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
        frozen: Executor,
        score: &Score,
        (keys, seats): (Vec<Key>, Seats),
        predicted_ns: u64,
        elsewhere: impl Fn(Key) -> (NonNull<u8>, usize),
        ground: &dyn Ground,
    ) -> Result<Self, RuntimeError> {
        let numbered = keys.iter().enumerate();
        let ids: BTreeMap<Key, TensorId> = numbered
            .map(|(row, &key)| (key, TensorId::from_index(row)))
            .collect();
        let ops: Vec<&OpEvent> = score.ops().collect();
        let (mut rows, mut first_row, mut step_of) = (Vec::new(), vec![0], Vec::new());
        let mut put_back = PutBack::default();
        for step in &frozen.table().steps {
            let op = op_of(step.kind);
            if matches!(step.kind, StepKind::App(_)) {
                step_of.push(first_row.len() - 1);
            }
            let own = original(frozen.plan()).accesses_of(op);
            let planned = frozen.table().accesses_of(step);
            let event = ops[op.index()];
            let merged = event.merged();
            for (key, _) in &event.accesses {
                let (pointer, bytes) = match ids.get(key) {
                    Some(id) => {
                        let number = own.iter().position(|access| access.tensor == *id);
                        let number = number.expect("the plan has every access of the score");
                        (planned[number].pointer, planned[number].bytes)
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
            if matches!(step.kind, StepKind::Replay(_)) {
                for (key, mode) in unknown_writes(&merged, |key| !ids.contains_key(&key)) {
                    let (pointer, bytes) = elsewhere(key);
                    put_back.add(Row {
                        pointer,
                        bytes,
                        mode,
                    });
                }
            }
            put_back.end_step();
        }
        put_back.finish(ground)?;
        Ok(Self {
            digest: plan_file::digest_of(frozen.plan()),
            recomputed: frozen.plan().recomputed(),
            tokens: vec![Token::default(); ops.len()],
            put_back,
            frozen,
            keys,
            ids,
            rows,
            first_row,
            step_of,
            predicted_ns,
            seats,
        })
    }

    /// Shows tensors that keep their address there. The program has the arena.
    pub(super) fn show_seats(&self, arena: &Arena) -> Result<(), RuntimeError> {
        let plan = self.frozen.plan();
        let (skeleton, program) = (&plan.skeleton, &plan.program);
        let mut shown = BTreeSet::new();
        for (access, place) in skeleton.accesses.iter().zip(&program.places) {
            // A later life has no address of its own.
            let key = self.keys.get(access.tensor.index()).copied();
            let seat = key.and_then(|key| self.seats.get(key).filter(|_| shown.insert(key)));
            let Some(seat) = seat else {
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

    /// Runs the steps that are due until one of them is the application's own. `score` is the one
    /// that the program was made for.
    pub(super) fn run_again(
        &mut self,
        score: &Score,
        replayer: &mut Replayer,
        ground: &dyn Ground,
    ) -> Result<(), RuntimeError> {
        while let Some(StepKind::Replay(op)) = self.frozen.due() {
            let step = self.frozen.course().next_step;
            self.frozen.step_begin()?;
            let token = self.tokens[op.index()];
            let mut tensors = Op::new(self.rows_of_step(step), self.frozen.on_host());
            let run = || replayer(token, &mut tensors);
            let ran = self.put_back.around(ground, step, run)?;
            ran.map_err(|reason| failed(score, op, reason))?;
            compiler_fence(Ordering::SeqCst);
            self.frozen.step_end()?;
        }
        Ok(())
    }

    /// The tensors of op `op` of the score, as it runs at first.
    pub(super) fn rows(&self, op: usize) -> &[Row] {
        self.rows_of_step(self.step_of[op])
    }

    /// The tensors of a step.
    pub(super) fn rows_of_step(&self, step: usize) -> &[Row] {
        &self.rows[self.first_row[step]..self.first_row[step + 1]]
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

/// The application's iteration.
pub(super) fn original(plan: &Plan) -> &Skeleton {
    plan.replays
        .as_ref()
        .map_or(&plan.skeleton, |replays| &replays.original)
}

/// The op that a step runs.
pub(super) fn op_of(kind: StepKind) -> OpIndex {
    match kind {
        StepKind::App(op) | StepKind::Replay(op) => op,
        _ => unreachable!("the table refused other kinds of steps"),
    }
}

/// Whether a plan is of as many ops as a score. That its steps run them in order is proven.
pub(super) fn fits(plan: &VerifiedPlan, score: &Score) -> bool {
    original(plan).ops.len() == score.ops().count()
}

/// What an op, whose accesses name each tensor once, writes of those `unknown` to a plan.
pub(super) fn unknown_writes(
    merged: &[(Key, Mode)],
    unknown: impl Fn(Key) -> bool,
) -> impl Iterator<Item = (Key, Mode)> {
    let accesses = merged.iter().copied();
    accesses.filter(move |(key, mode)| mode.writes() && unknown(*key))
}

/// An op that would run again after a tensor has changed that it uses and the plan does not know:
/// the first, by its number.
pub(super) fn stale(plan: &Plan, score: &Score, left_out: &dyn Fn(Key) -> bool) -> Option<usize> {
    let ops: Vec<&OpEvent> = score.ops().collect();
    let mut ran = 0;
    for step in &plan.program.steps {
        match step.kind {
            StepKind::Replay(op) => {
                // What it writes itself it may find as it is now.
                let reads = ops[op.index()].merged().into_iter();
                let reads = reads
                    .filter(|(_, mode)| *mode == Mode::Read)
                    .map(|(key, _)| key);
                let unknown: Vec<Key> = reads.filter(|key| left_out(*key)).collect();
                let changes = |(key, mode): &(Key, Mode)| mode.writes() && unknown.contains(key);
                let since = &ops[op.index()..ran];
                if since.iter().any(|op| op.accesses.iter().any(changes)) {
                    return Some(op.index());
                }
            }
            _ => ran += 1,
        }
    }
    None
}

/// The error of an op that could not run again.
#[cold]
pub(super) fn failed(score: &Score, op: OpIndex, reason: &'static str) -> RuntimeError {
    let name = score.ops().nth(op.index()).map_or("", |op| &op.name);
    RuntimeError::Replay {
        op: short_name(name),
        reason,
    }
}
