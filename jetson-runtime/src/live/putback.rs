//! Tensors that a plan does not know and an op writes that runs again: saved, then put back.
//!
//! In: for each step that runs an op again, where such tensors are. Guarantees: once the step is
//! over they are as they were; nothing is allocated after [`PutBack::finish`].
//!
//! An op may run again only if what it changes has no influence on what else it writes, so it may
//! find there what is there now: running statistics, say, that are pinned.

use std::ptr;

use super::op::Row;

/// Bytes that an op may write of such tensors and still run again.
pub(super) const PUT_BACK_MAX: u64 = 1 << 20;

/// The tensors of all steps, and a place to save those of one.
#[derive(Debug, Default)]
pub(super) struct PutBack {
    tensors: Vec<Row>,
    /// Where those of each step end.
    ends: Vec<usize>,
    saved: Vec<u8>,
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
    pub(super) fn finish(&mut self) {
        let bytes = |step| self.of(step).iter().map(|row| row.bytes).sum();
        let most = (0..self.ends.len()).map(bytes).max().unwrap_or(0);
        self.saved.resize(most, 0);
    }

    fn of(&self, step: usize) -> &[Row] {
        let first = step.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tensors[first..self.ends[step]]
    }

    /// Runs a step with what it writes of those tensors put back at its end. Nobody else may use
    /// them meanwhile.
    pub(super) fn around<T>(&mut self, step: usize, run: impl FnOnce() -> T) -> T {
        let mut saved = std::mem::take(&mut self.saved);
        let mut at = 0;
        for row in self.of(step) {
            let target = &mut saved[at..at + row.bytes];
            // SAFETY: the tensor is in memory, since it is pinned; the caller has it to itself, and
            // the target is another allocation of that size.
            unsafe {
                ptr::copy_nonoverlapping(row.pointer.as_ptr(), target.as_mut_ptr(), row.bytes)
            };
            at += row.bytes;
        }
        let result = run();
        at = 0;
        for row in self.of(step) {
            let source = &saved[at..at + row.bytes];
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(source.as_ptr(), row.pointer.as_ptr(), row.bytes) };
            at += row.bytes;
        }
        self.saved = saved;
        result
    }
}
