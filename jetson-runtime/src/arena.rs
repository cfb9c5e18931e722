//! The arena: the budget, as pages of one memory file.
//!
//! In: how many bytes. Out: a file to map windows from. Guarantees: every page is allocated before
//! the first use, so no access can fault for lack of memory; the file is sealed against growing and
//! shrinking, so the budget is hard. An arena without a budget is as large as the machine's memory
//! and holds only what was claimed. Not here: addresses (see `window_map`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl, posix_fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use vtensor::Bytes;

use crate::error::RuntimeError;
use crate::memory;

/// Memory that is asked for at once.
const CLAIM_BYTES_MAX: u64 = 4 << 20;

/// What the system may refuse.
const SIZE_IT: &str = "make the arena, a file in memory, so large (a limit is RLIMIT_FSIZE)";

/// The pages of a budget.
#[derive(Debug)]
pub(crate) struct Arena {
    file: OwnedFd,
    bytes: u64,
}

impl Arena {
    /// Takes so many bytes from the system.
    pub(crate) fn new(bytes: u64) -> Result<Self, RuntimeError> {
        memory::demand("arena", bytes)?;
        let arena = Self::sparse(bytes)?;
        arena.claim(0, bytes)?;
        Ok(arena)
    }

    /// An arena that holds no memory until it is claimed.
    pub(crate) fn sparse(bytes: u64) -> Result<Self, RuntimeError> {
        let file = memfd_create(
            "vtensor-arena",
            MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING,
        )
        .map_err(RuntimeError::system("create the arena's memory file"))?;
        let length = i64::try_from(bytes).map_err(|_| RuntimeError::System {
            what: SIZE_IT,
            errno: Errno::EFBIG,
        })?;
        let sized = memory::demand_file(bytes).and_then(|()| ftruncate(&file, length));
        sized.map_err(RuntimeError::system(SIZE_IT))?;
        let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))
            .map_err(RuntimeError::system("seal the arena"))?;
        Ok(Self { file, bytes })
    }

    /// Allocates the pages of a range, so that no access to it can fail. In parts: the kernel does
    /// not swap what is being allocated, and would kill the process where memory is short.
    pub(crate) fn claim(&self, start: u64, end: u64) -> Result<(), RuntimeError> {
        let mut done = start;
        while done < end {
            let part_end = end.min(done + CLAIM_BYTES_MAX);
            let (offset, length) = self.range(done, part_end);
            posix_fallocate(&self.file, offset, length)
                .map_err(RuntimeError::system("allocate the pages of the arena"))?;
            done = part_end;
        }
        Ok(())
    }

    /// Gives the pages of a range back to the system; what they hold is gone.
    pub(crate) fn release(&self, start: u64, end: u64) -> Result<(), RuntimeError> {
        let (offset, length) = self.range(start, end);
        if length == 0 {
            return Ok(());
        }
        memory::punch_hole(&self.file, offset, length)
            .map_err(RuntimeError::system("give pages of the arena back"))
    }

    /// A range as the kernel takes it: offset and length.
    fn range(&self, start: u64, end: u64) -> (i64, i64) {
        assert!(
            start <= end && end <= self.bytes,
            "{start}..{end} lie in the arena"
        );
        let signed = |bytes| i64::try_from(bytes).expect("the arena was sized with an i64");
        (signed(start), signed(end - start))
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
    use nix::sys::stat::fstat;

    use super::*;

    #[test]
    fn the_budget_is_hard_and_taken_at_once() {
        let arena = Arena::new(3 * 65536).unwrap();
        assert_eq!(arena.allocated().unwrap(), Bytes(3 * 65536));
        assert_eq!(fstat(&arena).unwrap().st_size, 3 * 65536);
        for bytes in [4 * 65536, 2 * 65536] {
            assert_eq!(ftruncate(&arena, bytes), Err(Errno::EPERM), "{bytes}");
        }
        assert_eq!(nix::unistd::write(&arena, &[7; 4 * 65536]), Ok(3 * 65536));
        assert_eq!(arena.allocated().unwrap(), Bytes(3 * 65536));
    }

    #[test]
    fn an_arena_beyond_the_machine_is_refused_before_it_is_taken() {
        let error = Arena::new(1 << 54).unwrap_err();
        assert!(
            matches!(error, RuntimeError::Memory { what: "arena", .. }),
            "{error}"
        );
    }

    #[test]
    fn a_sparse_arena_holds_what_was_claimed() {
        let arena = Arena::sparse(1 << 40).unwrap();
        assert_eq!(arena.allocated().unwrap(), Bytes(0));
        arena.claim(65536, 3 * 65536).unwrap();
        assert_eq!(arena.allocated().unwrap(), Bytes(2 * 65536));
        arena.release(65536, 2 * 65536).unwrap();
        assert_eq!(arena.allocated().unwrap(), Bytes(65536));
    }

    #[test]
    fn an_empty_arena_is_an_arena() {
        assert_eq!(Arena::new(0).unwrap().allocated().unwrap(), Bytes(0));
    }
}
