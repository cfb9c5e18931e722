//! One open step: the op's tensors, at their addresses.

use std::ptr::NonNull;
use std::slice;

use vtensor::{Mode, TensorId};

use crate::table::AccessRow;

/// The tensors of an open step, in the order of the op's accesses.
///
/// Pointers are the same in every iteration. They may be used until `step_end`; after it the
/// bytes may move, and the same memory may hold another tensor. A tensor that is read may be
/// copied out meanwhile, but nothing else touches the bytes: that is what the verifier proved.
#[derive(Debug)]
pub struct Step<'a> {
    accesses: &'a [AccessRow],
}

impl<'a> Step<'a> {
    #[inline]
    pub(crate) const fn new(accesses: &'a [AccessRow]) -> Self {
        Self { accesses }
    }

    /// How many tensors the op accesses.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.accesses.len()
    }

    /// Whether the op accesses none.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }

    /// Which tensor access `access` is of.
    ///
    /// # Panics
    /// If the op has no such access; so do the methods below.
    #[must_use]
    #[inline]
    pub const fn tensor(&self, access: usize) -> TensorId {
        self.accesses[access].tensor
    }

    /// How the tensor may be used.
    #[must_use]
    #[inline]
    pub const fn mode(&self, access: usize) -> Mode {
        self.accesses[access].mode
    }

    /// The tensor's size, as executed.
    #[must_use]
    #[inline]
    pub const fn bytes(&self, access: usize) -> usize {
        self.accesses[access].bytes
    }

    /// The tensor's first byte. Valid for its size until `step_end`: for reads, and in modes that
    /// write, for writes. The tensors of one step do not overlap.
    #[must_use]
    #[inline]
    pub const fn pointer(&self, access: usize) -> NonNull<u8> {
        self.accesses[access].pointer
    }

    /// The tensor's bytes. In mode `Write` they are what the memory held before, without meaning.
    #[must_use]
    pub fn slice(&self, access: usize) -> &[u8] {
        let AccessRow { pointer, bytes, .. } = self.accesses[access];
        // SAFETY: the row lies in a mapped window for as long as the runtime is borrowed, and is
        // initialised (the arena begins as zeroes). Nobody writes it while the step is open: not
        // an engine, by the verified plan; not this step, whose writing method borrows it whole.
        unsafe { slice::from_raw_parts(pointer.as_ptr(), bytes) }
    }

    /// The tensor's bytes, to write.
    ///
    /// # Panics
    /// If the access only reads: its copies in the spill tier would become stale unnoticed.
    #[must_use]
    pub fn slice_mut(&mut self, access: usize) -> &mut [u8] {
        let AccessRow {
            pointer,
            bytes,
            mode,
            tensor,
        } = self.accesses[access];
        assert!(
            mode.writes(),
            "the op was recorded to only read tensor {tensor}"
        );
        // SAFETY: as for `slice`; and nobody reads it either: an out of a written tensor is not
        // released before the step is complete, and is complete before the next write, by the
        // verified plan.
        unsafe { slice::from_raw_parts_mut(pointer.as_ptr(), bytes) }
    }
}
