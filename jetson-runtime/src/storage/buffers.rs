//! Aligned buffers between the arena and the disk, kept out of core dumps.
//!
//! They lie on large pages where the system has some. A request is then one stretch of memory for
//! the device, and not one for each page: less work for any disk, and for one that takes few
//! stretches at once most of its speed.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;

use nix::errno::Errno;

use super::BLOCK_BYTES;
use crate::region::Region;

/// A large page where the system's pages are 4 KiB. Where they are larger, large pages are, too,
/// and this is only an alignment.
const LARGE_PAGE: usize = 2 << 20;

/// Buffers of one size.
#[derive(Debug)]
pub(super) struct Buffers {
    region: Region,
    /// Where the first begins in the region.
    first: u64,
    count: usize,
    bytes: usize,
}

impl Buffers {
    /// `count` buffers of `bytes` bytes, in memory that is taken now.
    pub(super) fn new(count: usize, bytes: usize) -> Result<Self, Errno> {
        assert!(bytes.is_multiple_of(BLOCK_BYTES) && bytes > 0 && count > 0);
        let all = count.checked_mul(bytes).ok_or(Errno::ENOMEM)?;
        // Addresses for whole large pages, wherever they begin; those that are not touched take no
        // memory.
        let pages = all.checked_next_multiple_of(LARGE_PAGE);
        let reserved = pages.and_then(|bytes| bytes.checked_add(LARGE_PAGE));
        let reserved = reserved.and_then(NonZeroUsize::new).ok_or(Errno::ENOMEM)?;
        let region = Region::lazy(reserved)?;
        let start = region.pointer(0, 0).as_ptr();
        let first = start.align_offset(LARGE_PAGE);
        // A few small buffers are not worth a large page.
        if all >= LARGE_PAGE / 2 {
            region.prefer_large_pages();
        }
        let mut buffers = Self {
            region,
            first: first as u64,
            count,
            bytes,
        };
        (0..count).for_each(|index| buffers.slice(index, bytes).fill(0));
        Ok(buffers)
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The size of each.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them, one behind the other.
    pub(super) fn all(&self) -> NonNull<[u8]> {
        let bytes = self.count * self.bytes;
        NonNull::slice_from_raw_parts(self.region.pointer(self.first, bytes), bytes)
    }

    /// The first byte of a buffer.
    pub(super) fn pointer(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count, "there is a buffer {index}");
        let offset = self.first + (index * self.bytes) as u64;
        self.region.pointer(offset, self.bytes)
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
