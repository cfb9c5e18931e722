//! Tensors that a plan does not know and an op writes that runs again: saved, then put back.
//!
//! In: for each step that runs an op again, where such tensors are. Guarantees: once the step is
//! over they are as they were; nothing is allocated after [`PutBack::finish`].
//!
//! An op may run again only if what it changes has no influence on what else it writes, so it may
//! find there what is there now: running statistics, say, that are pinned.

use std::ptr::NonNull;

use super::op::Row;
use crate::error::RuntimeError;
use crate::ground::{Ground, Scratch};

/// Bytes that an op may write of such tensors and still run again.
pub(super) const PUT_BACK_MAX: u64 = 1 << 20;

/// The tensors of all steps, and a place to save those of one.
#[derive(Default)]
pub(super) struct PutBack {
    tensors: Vec<Row>,
    /// Where those of each step end.
    ends: Vec<usize>,
    saved: Option<Scratch>,
}

impl PutBack {
    /// Adds a tensor of the step that comes next.
    pub(super) fn add(&mut self, tensor: Row) {
        self.tensors.push(tensor);
    }

    /// Ends a step.
    pub(super) fn end_step(&mut self) {
        self.ends.push(self.tensors.len());
    }

    /// Takes the memory that the largest step needs.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn finish(&mut self, ground: &dyn Ground) -> Result<(), RuntimeError> {
        let bytes = |step| self.of(step).iter().map(|row| row.bytes).sum();
        let most: usize = (0..self.ends.len()).map(bytes).max().unwrap_or(0);
        self.saved = match most {
            0 => None,
            _ => Some(ground.scratch(most)?),
        };
        Ok(())
    }

    fn of(&self, step: usize) -> &[Row] {
        let first = step.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tensors[first..self.ends[step]]
    }

    /// Runs a step with what it writes of those tensors put back at its end. Nobody else may use
    /// them meanwhile.
    ///
    /// # Errors
    /// If a copy cannot be made.
    pub(super) fn around<T>(
        &self,
        ground: &dyn Ground,
        step: usize,
        run: impl FnOnce() -> T,
    ) -> Result<T, RuntimeError> {
        for (tensor, saved, bytes) in self.places(step) {
            // SAFETY: the tensor is in memory, since it is pinned; the caller has it to itself, and
            // what is saved has a place of its own.
            unsafe { ground.copy_in_turn(tensor, saved, bytes) }?;
        }
        let result = run();
        for (tensor, saved, bytes) in self.places(step) {
            // SAFETY: as above.
            unsafe { ground.copy_in_turn(saved, tensor, bytes) }?;
        }
        Ok(result)
    }

    /// The tensors of a step, with where each is saved.
    fn places(&self, step: usize) -> impl Iterator<Item = (NonNull<u8>, NonNull<u8>, usize)> {
        let mut at = 0;
        self.of(step).iter().map(move |row| {
            let scratch = self.saved.as_ref().expect("it was taken for this step");
            // SAFETY: it was taken for all tensors of the step together.
            let saved = unsafe { scratch.start.add(at) };
            at += row.bytes;
            (row.pointer, saved, row.bytes)
        })
    }
}
