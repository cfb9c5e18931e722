//! Reserved addresses, at which parts of a memory file can be shown and hidden again.
//!
//! Guarantees: a span is given back when it is dropped; showing and hiding stay inside it.

use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::libc::c_void;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A range of addresses of this process that the model owns.
#[derive(Debug)]
pub(crate) struct Span {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: a span is an address range; the mapping belongs to the process, not to a thread.
unsafe impl Send for Span {}

impl Span {
    /// Addresses for whole pages that nobody may touch, at a multiple of `align` (a power of two),
    /// at `wish` if that is free and not 0.
    pub(crate) fn reserve(bytes: usize, align: usize, wish: usize) -> Result<Self, Errno> {
        let bytes = bytes
            .checked_next_multiple_of(page())
            .ok_or(Errno::ENOMEM)?;
        let bytes = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        let align = align.max(page());
        if wish.is_multiple_of(align)
            && let Some(wish) = NonZeroUsize::new(wish)
            && let Ok(span) = Self::anonymous(Some(wish), bytes, MapFlags::MAP_FIXED_NOREPLACE)
        {
            return Ok(span);
        }
        let wide = bytes.checked_add(align).ok_or(Errno::ENOMEM)?;
        let mut span = Self::anonymous(None, wide, MapFlags::empty())?;
        span.trim(bytes, align)?;
        Ok(span)
    }

    fn anonymous(
        wish: Option<NonZeroUsize>,
        bytes: NonZeroUsize,
        flags: MapFlags,
    ) -> Result<Self, Errno> {
        let flags = flags | MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: without an address the kernel chooses one that overlaps nothing, with one it
        // refuses to replace what is there.
        let start = unsafe { mmap_anonymous(wish, bytes, ProtFlags::PROT_NONE, flags) }?;
        Ok(Self { start, bytes })
    }

    /// Cuts the span to `bytes` at a multiple of `align`.
    fn trim(&mut self, bytes: NonZeroUsize, align: usize) -> Result<(), Errno> {
        let start = self.start();
        let head = start.next_multiple_of(align) - start;
        let whole = self.bytes.get();
        let tail = whole - head - bytes.get();
        if tail > 0 {
            let at = self.pointer(head + bytes.get());
            // SAFETY: the tail lies in this span, and nobody knows its addresses yet.
            unsafe { munmap(at, tail) }?;
        }
        let kept = self.pointer(head);
        if head > 0 {
            // SAFETY: as for the tail.
            unsafe { munmap(self.start, head) }?;
        }
        self.start = kept;
        self.bytes = bytes;
        Ok(())
    }

    /// The first address.
    pub(crate) fn start(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    /// Behind the last address.
    pub(crate) fn end(&self) -> usize {
        self.start() + self.bytes.get()
    }

    fn pointer(&self, offset: usize) -> NonNull<c_void> {
        assert!(offset <= self.bytes.get(), "an offset lies in its span");
        // SAFETY: the offset was checked to lie inside the span.
        unsafe { self.start.byte_add(offset) }
    }

    /// The address of a part, checked to lie inside.
    fn part(&self, offset: usize, bytes: usize) -> (NonZeroUsize, NonZeroUsize) {
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes.get());
        assert!(inside, "{offset}+{bytes} lie in a span of {}", self.bytes);
        let address = NonZeroUsize::new(self.start() + offset);
        let bytes = NonZeroUsize::new(bytes);
        address
            .zip(bytes)
            .expect("no part is empty or at address 0")
    }

    /// Shows `bytes` bytes of a file at `offset`.
    pub(crate) fn show(
        &self,
        offset: usize,
        bytes: usize,
        file: BorrowedFd<'_>,
        file_offset: u64,
    ) -> Result<(), Errno> {
        let (address, bytes) = self.part(offset, bytes);
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let file_offset = i64::try_from(file_offset).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: the part was checked to lie inside this span, which the model owns; the driver
        // waits for the work that may still touch what was shown there before.
        unsafe { mmap(Some(address), bytes, access, flags, file, file_offset) }?;
        Ok(())
    }

    /// Makes a part untouchable again.
    pub(crate) fn hide(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let (address, bytes) = self.part(offset, bytes);
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_FIXED;
        // SAFETY: as for `show`.
        unsafe { mmap_anonymous(Some(address), bytes, ProtFlags::PROT_NONE, flags) }?;
        Ok(())
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: the span owns the range; the driver waits for work before it drops one.
        let unmapped = unsafe { munmap(self.start, self.bytes.get()) };
        debug_assert_eq!(unmapped, Ok(()), "an owned range can be unmapped");
    }
}

/// The size of a page of the system, in bytes.
pub(crate) fn page() -> usize {
    let bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let bytes = bytes.ok().flatten().and_then(|n| usize::try_from(n).ok());
    bytes.expect("the system names its page size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_aligned_and_take_a_wish() {
        let span = Span::reserve(3 << 20, 2 << 20, 0).unwrap();
        assert_eq!(span.start() % (2 << 20), 0);
        let place = span.start();
        drop(span);
        let again = Span::reserve(1 << 20, 1 << 16, place).unwrap();
        assert_eq!(again.start(), place);
        let other = Span::reserve(1 << 20, 1 << 16, place).unwrap();
        assert_ne!(other.start(), place, "a wish replaces nothing");
    }

    #[test]
    fn nothing_is_no_span() {
        assert_eq!(Span::reserve(0, 1, 0).unwrap_err(), Errno::EINVAL);
        assert!(Span::reserve(usize::MAX - 1, 1, 0).is_err());
    }
}
