//! One open step: the op's tensors, at their addresses.

use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

use vtensor::{Mode, TensorId};

use crate::table::AccessRow;

/// The tensors of an open step, in the order of the op's accesses, by number, size and address.
///
/// Addresses are the same in every iteration. They may be used until `step_end`; after it the
/// bytes may move, and the same memory may hold another tensor. A tensor that is read may be
/// copied out meanwhile, but nothing else touches the bytes: that is what the verifier proved.
#[derive(Clone, Copy, Debug)]
pub struct Accesses<'a> {
    rows: &'a [AccessRow],
}

impl<'a> Accesses<'a> {
    #[inline]
    pub(crate) const fn new(rows: &'a [AccessRow]) -> Self {
        Self { rows }
    }

    /// How many tensors the op accesses.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the op accesses none.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Which tensor access `access` is of.
    ///
    /// # Panics
    /// If the op has no such access; so do the methods below.
    #[must_use]
    #[inline]
    pub const fn tensor(&self, access: usize) -> TensorId {
        self.rows[access].tensor
    }

    /// How the tensor may be used.
    #[must_use]
    #[inline]
    pub const fn mode(&self, access: usize) -> Mode {
        self.rows[access].mode
    }

    /// The tensor's size, as executed.
    #[must_use]
    #[inline]
    pub const fn bytes(&self, access: usize) -> usize {
        self.rows[access].bytes
    }

    /// The tensor's first byte. Valid for its size until `step_end`: for reads, and in modes that
    /// write, for writes. The tensors of one step do not overlap. On a GPU it is an address for
    /// its kernels, which the host must not follow.
    #[must_use]
    #[inline]
    pub const fn pointer(&self, access: usize) -> NonNull<u8> {
        self.rows[access].pointer
    }
}

/// An open step on the host: its tensors, and their bytes.
#[derive(Debug)]
pub struct Step<'a> {
    accesses: Accesses<'a>,
}

impl<'a> Step<'a> {
    #[inline]
    pub(crate) const fn new(rows: &'a [AccessRow]) -> Self {
        let accesses = Accesses::new(rows);
        Self { accesses }
    }

    /// The tensor's bytes. In mode `Write` they are what the memory held before, without meaning.
    #[must_use]
    pub fn slice(&self, access: usize) -> &[u8] {
        let AccessRow { pointer, bytes, .. } = self.accesses.rows[access];
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
        } = self.accesses.rows[access];
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

impl<'a> Deref for Step<'a> {
    type Target = Accesses<'a>;

    #[inline]
    fn deref(&self) -> &Accesses<'a> {
        &self.accesses
    }
}
