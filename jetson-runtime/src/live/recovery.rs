//! Recovery: a program that runs ops again stops in the middle of an iteration, and what it had
//! given up, to compute it later, is computed now, on the heap.
//!
//! In: the lives of tensors that the program still holds, and the ops that it would have run again.
//! Out: each tensor of the application with its present content. Guarantees: what the program could
//! have computed is not lost unless its inputs or its op fail; then it is lost by name. Lives have
//! items of their own on the heap while this lasts, under keys that no application can have.
//!
//! Limits: every op that is left to run again does, needed or not.

use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use lgm::plan::{Replays, is_scratch};
use lgm::skeleton::Access;
use tracing::warn;
use vtensor::{Mode, OpIndex, StepKind, TensorId};

use super::handover::salvage;
use super::heap::Heap;
use super::losses::Loss;
use super::op::{Op, Replayer, Row};
use super::program::{Program, failed, unknown_writes};
use super::putback::PutBack;
use super::registry::Registry;
use super::score::{Score, Spec, mode_of};
use super::tensor::Key;
use crate::content::Content;
use crate::error::RuntimeError;
use crate::scale::to_usize;

/// A program that has stopped, and what is to be computed.
pub(super) struct Recovery<'a> {
    program: &'a Program,
    replays: &'a Replays,
    score: &'a Score,
    /// What each tensor of the steps is on the heap.
    keys: Vec<Key>,
    /// The version that each tensor of the steps holds: how often the application had written the
    /// tensor by then.
    holds: Vec<Option<u32>>,
    /// The present version of each tensor of the application; none if an op was at it.
    present: Vec<Option<u32>>,
    /// For each access of the application's ops, the version before and behind it.
    versions: Vec<(u32, u32)>,
    /// The steps that are left to run.
    left: Vec<(usize, OpIndex)>,
}

impl<'a> Recovery<'a> {
    /// Of a program that has completed so many steps, and whose next one may be open; `None` if it
    /// runs no op again. The heap has the application's tensors as the program held them.
    pub(super) fn new(
        program: &'a Program,
        score: &'a Score,
        registry: &Registry,
        (steps, open): (usize, bool),
    ) -> Option<Self> {
        let plan = program.frozen.plan();
        let replays = plan.replays.as_ref()?;
        let lives = replays.lives.iter().enumerate();
        let keys = lives.map(|(life, of)| {
            let key = program.keys()[of.index()];
            let own = life == of.index() && registry.spec(key).is_some();
            match own {
                true => key,
                false => temporary(life),
            }
        });
        let tensors = replays.original.tensors.iter();
        let mut recovery = Self {
            program,
            replays,
            score,
            keys: keys.collect(),
            holds: vec![None; replays.lives.len()],
            present: vec![Some(0); tensors.len()],
            versions: replays.original.versions(),
            left: Vec::new(),
        };
        for (row, tensor) in replays.original.tensors.iter().enumerate() {
            recovery.holds[row] = tensor.persistent.then_some(0);
        }
        let mut ran = 0;
        for (index, step) in plan.program.steps.iter().enumerate() {
            let now = plan.skeleton.accesses_of(OpIndex::from_index(index));
            match step.kind {
                StepKind::App(op) if index < steps => {
                    recovery.note(op, now, true);
                    ran += 1;
                }
                StepKind::App(_) if index == steps && open => recovery.tear(now),
                StepKind::Replay(op) if index < steps => recovery.note(op, now, false),
                StepKind::Replay(op) if op.index() < ran => recovery.left.push((index, op)),
                _ => {}
            }
        }
        Some(recovery)
    }

    /// A step has run.
    fn note(&mut self, op: OpIndex, now: &[Access], first: bool) {
        let own = self.replays.original.accesses_of(op);
        let first_access = self.replays.original.ops[op.index()].first_access as usize;
        for (number, (own, now)) in own.iter().zip(now).enumerate() {
            if !now.mode.writes() {
                continue;
            }
            let (_, behind) = self.versions[first_access + number];
            let scratch = !first && is_scratch(own, now);
            self.holds[now.tensor.index()] = (!scratch).then_some(behind);
            if first {
                self.present[own.tensor.index()] = Some(behind);
            }
        }
    }

    /// An op was at what it writes.
    fn tear(&mut self, now: &[Access]) {
        for access in now.iter().filter(|access| access.mode.writes()) {
            let of = self.replays.lives[access.tensor.index()];
            self.holds[access.tensor.index()] = None;
            self.present[of.index()] = None;
        }
    }

    /// Takes over what the program holds and the heap does not have: lives beside the tensors of
    /// the application that are alive.
    pub(super) fn carry(&self, heap: &mut Heap, content: &Content) {
        for (life, &key) in self.keys.iter().enumerate() {
            if key != temporary(life) || self.holds[life].is_none() {
                continue;
            }
            heap.admit(key, &self.spec(life));
            let life = TensorId::from_index(life);
            salvage(heap, &self.program.frozen, content, (life, key));
        }
    }

    fn spec(&self, life: usize) -> Spec {
        let tensor = &self.program.frozen.plan().skeleton.tensors[life];
        Spec {
            name: tensor.name.as_str().into(),
            bytes: tensor.bytes.0,
            kind: tensor.kind,
            scratch: false,
            fixed: false,
        }
    }

    /// Runs what is left to run again, and gives each tensor that is alive its present content.
    pub(super) fn finish(mut self, heap: &mut Heap, mut replayer: Option<&mut Replayer>) {
        for (step, op) in std::mem::take(&mut self.left) {
            let index = OpIndex::from_index(step);
            let now = self.program.frozen.plan().skeleton.accesses_of(index);
            let ran = match replayer.as_mut() {
                Some(replayer) => self.run(heap, replayer, (step, op), now),
                None => Err(failed(self.score, op, "there is nothing to run it")),
            };
            match ran {
                Ok(()) => self.note(op, now, false),
                Err(error) => {
                    warn!(%error, "an op could not run again");
                    let writes = now.iter().filter(|access| access.mode.writes());
                    writes.for_each(|access| self.holds[access.tensor.index()] = None);
                }
            }
        }
        self.settle(heap);
    }

    /// Runs one op again.
    fn run(
        &self,
        heap: &mut Heap,
        replayer: &mut Replayer,
        (step, op): (usize, OpIndex),
        now: &[Access],
    ) -> Result<(), RuntimeError> {
        let own = self.replays.original.accesses_of(op);
        let first_access = self.replays.original.ops[op.index()].first_access as usize;
        let mut list: Vec<(Key, Mode)> = Vec::new();
        for (number, access) in now.iter().enumerate() {
            let (life, key) = (access.tensor.index(), self.keys[access.tensor.index()]);
            let wanted = self
                .versions
                .get(first_access + number)
                .map(|(before, _)| *before);
            let sound = match number < own.len() {
                true => !access.mode.reads() || self.holds[life] == wanted,
                false => heap.items.contains_key(&key),
            };
            if !sound {
                return Err(failed(self.score, op, "what it reads is gone"));
            }
            if !heap.items.contains_key(&key) {
                heap.admit(key, &self.spec(life));
            }
            list.push((key, access.mode));
        }
        let event = self.score.ops().nth(op.index()).expect("steps run its ops");
        let merged = event.merged();
        let known = |key: &Key| self.program.id(*key).is_some();
        list.extend(merged.iter().filter(|(key, _)| !known(key)));
        heap.acquire(&event.name, &list)?;
        for (to, from) in self.replays.fills(op, now) {
            let [to, from] = [to, from].map(|number| list[number].0);
            let bytes = to_usize(heap.items[&to].bytes);
            let (to, from) = (heap.pointer(to), heap.pointer(from));
            // SAFETY: both were acquired, as blocks of one size that do not overlap.
            unsafe { heap.ground().copy_in_turn(from, to, bytes) }?;
        }
        let row = |(key, _): &(Key, Mode)| {
            let number = own
                .iter()
                .position(|access| self.program.id(*key) == Some(access.tensor));
            let here = number.map_or(*key, |number| list[number].0);
            Row {
                pointer: heap.pointer(here),
                bytes: to_usize(heap.items[&here].asked),
                mode: mode_of(*key, &merged),
            }
        };
        let rows: Vec<Row> = event.accesses.iter().map(row).collect();
        debug_assert_eq!(rows.len(), self.program.rows_of_step(step).len());
        let mut put_back = PutBack::default();
        for (key, mode) in unknown_writes(&merged, |key| !known(&key)) {
            put_back.add(Row {
                pointer: heap.pointer(key),
                bytes: to_usize(heap.items[&key].asked),
                mode,
            });
        }
        put_back.end_step();
        let ground = Arc::clone(heap.ground());
        put_back.finish(&*ground)?;
        compiler_fence(Ordering::SeqCst);
        let token = self.program.tokens[op.index()];
        let mut tensors = Op::new(&rows, ground.on_host());
        let ran = put_back
            .around(&*ground, 0, || replayer(token, &mut tensors))
            .and_then(|ran| ran.map_err(|reason| failed(self.score, op, reason)));
        // Whatever came of it: what was enqueued uses memory that ends here.
        let ran = ran.and(ground.settle());
        compiler_fence(Ordering::SeqCst);
        match ran {
            Ok(()) => heap.note_writes(&list),
            Err(_) => heap.note_torn(&list),
        }
        ran
    }

    /// Each tensor that is alive takes the life that holds its present content.
    fn settle(&self, heap: &mut Heap) {
        for (row, present) in self.present.iter().enumerate() {
            let key = self.keys[row];
            if key == temporary(row) {
                continue;
            }
            let Some(version) = *present else {
                heap.lose(key, Loss::Torn);
                continue;
            };
            let whole = |life: usize| {
                let held = self.holds[life] == Some(version);
                let item = heap.items.get(&self.keys[life]);
                held && item.is_some_and(|item| item.losses.is_empty())
            };
            if whole(row) {
                continue;
            }
            let mut later = self.replays.original.tensors.len()..self.replays.lives.len();
            match later.find(|&life| self.replays.lives[life].index() == row && whole(life)) {
                Some(life) => {
                    heap.forget(key);
                    heap.rename(temporary(life), key);
                }
                // One that was not written yet holds nothing.
                None if version == 0 => {}
                // Some bytes of it are there.
                None if self.holds[row] == Some(version) => {}
                None => heap.lose(key, Loss::Lost),
            }
        }
        let lives = (0..self.keys.len()).map(temporary);
        lives.for_each(|key| heap.forget(key));
    }
}

/// The key of a life on the heap: of a tensor that no iteration creates.
fn temporary(life: usize) -> Key {
    let life = u32::try_from(life).expect("tensors are counted in u32");
    Key::transient(u32::MAX - life)
}
