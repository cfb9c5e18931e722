//! The memory of the device: one memory file, of which allocations are parts.
//!
//! Guarantees: an allocation's part of the file is never used again, so nothing of one can be seen
//! through another; its memory goes back to the system when it is freed, and only what was touched
//! ever takes any. How much the device has is a number to compare with, not memory that is taken.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::span::page;

/// An allocation's part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// Its size, in whole pages of the system.
    pub(crate) bytes: u64,
}

/// The memory file.
#[derive(Debug)]
pub(crate) struct Physical {
    file: OwnedFd,
    end: u64,
}

impl Physical {
    /// A device without allocations.
    pub(crate) fn new() -> Result<Self, Errno> {
        let file = memfd_create("cuda-model", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self { file, end: 0 })
    }

    /// Memory for `bytes` bytes.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<Extent, Errno> {
        let bytes = bytes
            .checked_next_multiple_of(page() as u64)
            .ok_or(Errno::ENOMEM)?;
        let offset = self.end;
        let end = offset.checked_add(bytes).ok_or(Errno::ENOMEM)?;
        ftruncate(&self.file, i64::try_from(end).map_err(|_| Errno::ENOMEM)?)?;
        self.end = end;
        Ok(Extent { offset, bytes })
    }

    /// Gives the memory of an allocation back to the system.
    pub(crate) fn free(&self, extent: Extent) {
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let signed = |bytes| i64::try_from(bytes).expect("the file was sized with an i64");
        // Where it fails the memory stays taken until the model ends; nobody sees a difference.
        let _ = fallocate(
            &self.file,
            hole,
            signed(extent.offset),
            signed(extent.bytes),
        );
    }

    /// The file, to map from.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::bytes;
    use crate::memory::span::Span;

    #[test]
    fn two_places_show_the_same_bytes() {
        let mut physical = Physical::new().unwrap();
        let spare = physical.allocate(1).unwrap();
        let extent = physical.allocate(1 << 16).unwrap();
        assert_eq!(extent.offset, spare.bytes);
        let spans = [(); 2].map(|()| Span::reserve(1 << 16, 1 << 16, 0).unwrap());
        for span in &spans {
            span.show(0, 1 << 16, physical.file(), extent.offset)
                .unwrap();
        }
        let [one, other] = spans.map(|span| {
            let start = span.start();
            (start, span)
        });
        // SAFETY: both spans show the whole extent, and are alive.
        unsafe { bytes::fill(one.0 + 100, 7, 50) };
        let mut found = [0_u8; 51];
        // SAFETY: as above; the target is a buffer of this size.
        unsafe { bytes::copy(found.as_mut_ptr().expose_provenance(), other.0 + 100, 51) };
        assert_eq!((found[49], found[50]), (7, 0));
    }

    #[test]
    fn more_than_a_file_can_be_is_refused() {
        let mut physical = Physical::new().unwrap();
        assert!(physical.allocate(u64::MAX - 4096).is_err());
        assert!(physical.allocate(u64::MAX).is_err());
        assert!(physical.allocate(4096).is_ok());
    }
}
