//! The arena: the budget, as pages of one memory file.
//!
//! In: how many pages. Out: a file to map windows from. Guarantees: every page is allocated before
//! the first use, so no access can fault for lack of memory; the file is sealed against growing and
//! shrinking, so the budget is hard. Not here: addresses (see `window_map`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, SealFlag, fcntl, posix_fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use vtensor::{Bytes, PageBytes};

use crate::error::RuntimeError;
use crate::memory;

/// The pages of a budget.
#[derive(Debug)]
pub(crate) struct Arena {
    file: OwnedFd,
    bytes: u64,
}

impl Arena {
    /// Takes so many pages from the system.
    pub(crate) fn new(pages: u32, page: PageBytes) -> Result<Self, RuntimeError> {
        let bytes = u64::from(pages) * page.get();
        memory::demand("arena", bytes)?;
        let file = memfd_create(
            "vtensor-arena",
            MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING,
        )
        .map_err(RuntimeError::system("create the arena's memory file"))?;
        if bytes > 0 {
            let length = i64::try_from(bytes).expect("demand() refused more than there is");
            ftruncate(&file, length).map_err(RuntimeError::system("size the arena"))?;
            posix_fallocate(&file, 0, length)
                .map_err(RuntimeError::system("allocate the pages of the arena"))?;
        }
        let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))
            .map_err(RuntimeError::system("seal the arena"))?;
        Ok(Self { file, bytes })
    }

    /// The size of the arena.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory that the system holds for the arena now.
    pub(crate) fn allocated(&self) -> Result<Bytes, RuntimeError> {
        memory::file_allocated(&self.file).map_err(RuntimeError::system("measure the arena"))
    }
}

impl AsFd for Arena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;
    use nix::sys::stat::fstat;

    use super::*;

    #[test]
    fn the_budget_is_hard_and_taken_at_once() {
        let arena = Arena::new(3, PageBytes::MIN).unwrap();
        assert_eq!(arena.allocated().unwrap(), Bytes(3 * 4096));
        assert_eq!(fstat(&arena).unwrap().st_size, 3 * 4096);
        for bytes in [4 * 4096, 2 * 4096] {
            assert_eq!(ftruncate(&arena, bytes), Err(Errno::EPERM), "{bytes}");
        }
        assert_eq!(nix::unistd::write(&arena, &[7; 4 * 4096]), Ok(3 * 4096));
        assert_eq!(arena.allocated().unwrap(), Bytes(3 * 4096));
    }

    #[test]
    fn an_arena_beyond_the_machine_is_refused_before_it_is_taken() {
        let error = Arena::new(1 << 24, PageBytes::MAX).unwrap_err();
        assert!(
            matches!(error, RuntimeError::Memory { what: "arena", .. }),
            "{error}"
        );
    }

    #[test]
    fn an_empty_arena_is_an_arena() {
        assert_eq!(
            Arena::new(0, PageBytes::MIN).unwrap().allocated().unwrap(),
            Bytes(0)
        );
    }
}
