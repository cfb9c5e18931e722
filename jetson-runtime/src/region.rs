//! A range of virtual memory that is owned: given back to the system when dropped.
//!
//! Kept out of core dumps (it is the model's content, and large) and out of forked children (a
//! private copy would double the memory, a shared one would race with the engines).

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::libc::c_void;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::scale::{system_page, to_usize};

/// A mapped range.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: a region is an address range; the mapping belongs to the process, not to a thread.
unsafe impl Send for Region {}
// SAFETY: a shared region only gives out raw pointers.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves addresses without memory behind them.
    pub(crate) fn reserve(bytes: NonZeroUsize) -> Result<Self, Errno> {
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        Self::anonymous(bytes, ProtFlags::PROT_NONE, flags)
    }

    /// Zeroed memory, taken from the system before this returns.
    pub(crate) fn memory(bytes: NonZeroUsize) -> Result<Self, Errno> {
        Self::private_memory(bytes, MapFlags::MAP_POPULATE)
    }

    /// Zeroed memory, taken from the system page by page as it is touched.
    pub(crate) fn lazy(bytes: NonZeroUsize) -> Result<Self, Errno> {
        Self::private_memory(bytes, MapFlags::MAP_NORESERVE)
    }

    fn private_memory(bytes: NonZeroUsize, how: MapFlags) -> Result<Self, Errno> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let region = Self::anonymous(bytes, access, MapFlags::MAP_PRIVATE | how)?;
        region.keep_private()?;
        Ok(region)
    }

    /// A file of memory, from its first byte on.
    pub(crate) fn of_file(bytes: NonZeroUsize, file: impl AsFd) -> Result<Self, Errno> {
        let region = Self::reserve(bytes)?;
        region.map_file(0, bytes, file.as_fd(), 0, false)?;
        region.keep_private()?;
        Ok(region)
    }

    /// Gives the whole pages of a range of anonymous memory back; they read as zeroes then.
    ///
    /// # Panics
    /// If they leave the region.
    pub(crate) fn release(&self, offset: u64, bytes: usize) -> Result<(), Errno> {
        self.pointer(offset, bytes);
        // A page that others have a share of stays: the kernel takes whole ones, and it would take
        // one that is there in part for the end of a range.
        let page = system_page();
        let (first, end) = (
            offset.next_multiple_of(page),
            (offset + bytes as u64) / page * page,
        );
        if first >= end {
            return Ok(());
        }
        let bytes = to_usize(end - first);
        let start = self.pointer(first, bytes).cast();
        // SAFETY: the range was checked to lie inside this region, which owns it. Its pages become
        // zeroes, which is a valid content; the caller no longer counts on what they hold.
        unsafe { madvise(start, bytes, MmapAdvise::MADV_DONTNEED) }
    }

    fn anonymous(bytes: NonZeroUsize, access: ProtFlags, flags: MapFlags) -> Result<Self, Errno> {
        // SAFETY: without a wanted address the kernel chooses one that overlaps nothing.
        let start = unsafe { mmap_anonymous(None, bytes, access, flags) }?;
        Ok(Self { start, bytes })
    }

    /// Puts bytes of a file at `offset` of the region.
    ///
    /// # Panics
    /// If they do not fit.
    pub(crate) fn map_file(
        &self,
        offset: u64,
        bytes: NonZeroUsize,
        file: BorrowedFd<'_>,
        file_offset: u64,
        populate: bool,
    ) -> Result<(), Errno> {
        let address = NonZeroUsize::new(self.pointer(offset, bytes.get()).as_ptr() as usize);
        let mut flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        flags.set(MapFlags::MAP_POPULATE, populate);
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let file_offset = i64::try_from(file_offset).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: the range was checked to lie inside this region, whose owner counts on nothing
        // that it has shown there before.
        unsafe { mmap(address, bytes, access, flags, file, file_offset) }?;
        Ok(())
    }

    /// Takes away whatever the region shows: its addresses stay reserved.
    pub(crate) fn hide(&self) -> Result<(), Errno> {
        let address = NonZeroUsize::new(self.start.as_ptr() as usize);
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_FIXED;
        // SAFETY: it replaces this region's own range; nobody counts on what it has shown.
        unsafe { mmap_anonymous(address, self.bytes, ProtFlags::PROT_NONE, flags) }?;
        Ok(())
    }

    /// Asks for large pages behind the whole region, wherever one fits in. A wish: a system without
    /// them gives small ones.
    pub(crate) fn prefer_large_pages(&self) {
        // SAFETY: the range is mapped by this region; the advice leaves its bytes alone.
        let _ = unsafe { madvise(self.start, self.bytes.get(), MmapAdvise::MADV_HUGEPAGE) };
    }

    /// Keeps the whole region out of core dumps and forked children.
    pub(crate) fn keep_private(&self) -> Result<(), Errno> {
        for advice in [MmapAdvise::MADV_DONTDUMP, MmapAdvise::MADV_DONTFORK] {
            // SAFETY: the range is mapped by this region; both advices leave its bytes alone.
            unsafe { madvise(self.start, self.bytes.get(), advice) }?;
        }
        Ok(())
    }

    /// The address of byte `offset`, with `bytes` bytes of the region after it.
    ///
    /// # Panics
    /// If they leave the region: offsets come from a verified plan.
    pub(crate) fn pointer(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        let offset = to_usize(offset);
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes.get());
        assert!(
            inside,
            "bytes {offset}+{bytes} lie in a region of {}",
            self.bytes
        );
        // SAFETY: the offset was checked to lie inside the region.
        unsafe { self.start.cast::<u8>().add(offset) }
    }

    /// The size of the region.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region owns the range, and its pointers are documented to end with it.
        let unmapped = unsafe { munmap(self.start, self.bytes.get()) };
        debug_assert_eq!(unmapped, Ok(()), "an owned range can be unmapped");
    }
}
