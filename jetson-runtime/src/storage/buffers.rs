//! Aligned buffers between the arena and the disk, kept out of core dumps.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;

use nix::errno::Errno;

use super::BLOCK_BYTES;
use crate::region::Region;

/// Buffers of one size.
#[derive(Debug)]
pub(super) struct Buffers {
    region: Region,
    count: usize,
    bytes: usize,
}

impl Buffers {
    /// `count` buffers of `bytes` bytes, in memory that is taken now.
    pub(super) fn new(count: usize, bytes: usize) -> Result<Self, Errno> {
        assert!(bytes.is_multiple_of(BLOCK_BYTES) && bytes > 0 && count > 0);
        let all = count.checked_mul(bytes).and_then(NonZeroUsize::new);
        let region = Region::memory(all.ok_or(Errno::ENOMEM)?)?;
        Ok(Self {
            region,
            count,
            bytes,
        })
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The size of each.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first byte of a buffer.
    pub(super) fn pointer(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count, "there is a buffer {index}");
        self.region.pointer((index * self.bytes) as u64, self.bytes)
    }

    /// The first `bytes` bytes of a buffer. No request may be in flight for it.
    pub(super) fn slice(&mut self, index: usize, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.bytes, "the buffer holds {bytes} bytes");
        let start = self.pointer(index);
        // SAFETY: the range lies in the region, which is initialised (it began as zeroes). The
        // caller has no request in flight for it, and `self` is borrowed.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}
