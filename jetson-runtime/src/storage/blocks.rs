//! Blocks: where the blocks of a copy are while they are sealed, on their way, and opened.
//!
//! Either in buffers of the pipeline, to and from which bytes are copied; or in the memory of the
//! copies themselves, if that was lent for it: a ring of buffers that is somebody else's already.

use std::ptr::NonNull;

use super::BLOCK_BYTES;
use super::buffers::Buffers;

/// Memory for a number of parts at a time.
pub(super) enum Blocks {
    /// Of the pipeline's own.
    Own(Buffers),
    /// In place.
    Lent {
        memory: NonNull<[u8]>,
        /// Bytes of a part, at most.
        bytes: usize,
        /// Parts at a time, at most.
        count: usize,
    },
}

// SAFETY: lent memory is an address range; whoever lends it says who may touch it when.
unsafe impl Send for Blocks {}

impl Blocks {
    /// Parts at a time, at most.
    pub(super) const fn count(&self) -> usize {
        match self {
            Self::Own(buffers) => buffers.count(),
            Self::Lent { count, .. } => *count,
        }
    }

    /// Bytes of a part, at most.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Own(buffers) => buffers.bytes(),
            Self::Lent { bytes, .. } => *bytes,
        }
    }

    /// All memory that requests may name.
    pub(super) fn all(&self) -> NonNull<[u8]> {
        match self {
            Self::Own(buffers) => buffers.all(),
            Self::Lent { memory, .. } => *memory,
        }
    }

    /// The blocks of part `index`, whose bytes are at `bytes` of `memory`.
    ///
    /// # Panics
    /// If memory was lent, and that is not of it.
    pub(super) fn of(&self, index: usize, memory: NonNull<u8>, bytes: usize) -> NonNull<[u8]> {
        let blocks = bytes.next_multiple_of(BLOCK_BYTES);
        let start = match self {
            Self::Own(buffers) => buffers.pointer(index),
            Self::Lent { memory: lent, .. } => {
                let first = lent.cast::<u8>().addr().get();
                let inside = memory.addr().get().checked_sub(first);
                let inside = inside.and_then(|before| before.checked_add(blocks));
                assert!(
                    inside.is_some_and(|end| end <= lent.len()),
                    "copies are of the memory that was lent"
                );
                memory
            }
        };
        NonNull::slice_from_raw_parts(start, blocks)
    }
}
