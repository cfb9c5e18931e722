//! A sealer: seals what goes to the file and opens what comes back, on one core or several.
//!
//! In: a part of a copy in memory, or sealed in a buffer. Out: the other. A part is sealed and
//! opened in shares, which the threads of a team take beside the caller.
//!
//! Guarantees: nothing is allocated and no lock is taken.

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;

use super::BLOCK_BYTES;
use super::seals::{Damaged, Seals};
use crate::team::Team;

/// What a thread takes at a time: copied and sealed, or opened and copied. So much work that taking
/// it costs nothing beside, and so little that whoever makes the last share is not long waited for
/// and a core's second cache has it from the first step to the second. Tests are small.
const SHARE_BYTES: usize = if cfg!(test) { 8 << 10 } else { 64 << 10 };

const _: () = assert!(SHARE_BYTES.is_multiple_of(BLOCK_BYTES));

/// Seals and opens.
pub(super) struct Sealer {
    seals: Arc<Seals>,
    team: Team,
}

/// A part of a copy: bytes in memory, and the buffer that has their blocks and no more.
struct Part {
    /// The first block.
    first: u64,
    memory: NonNull<u8>,
    bytes: usize,
    buffer: NonNull<[u8]>,
}

// SAFETY: addresses; whoever uses them says why nobody else does.
unsafe impl Sync for Part {}

/// What a thread takes of a part.
struct Share<'a> {
    first: u64,
    memory: NonNull<u8>,
    bytes: usize,
    buffer: &'a mut [u8],
    /// Blocks of the part before it.
    before: usize,
}

impl Part {
    /// How many shares it has.
    fn shares(&self) -> u32 {
        let shares = self.buffer.len().div_ceil(SHARE_BYTES);
        u32::try_from(shares).expect("a buffer is small")
    }

    /// One of them.
    ///
    /// # Safety
    /// The part's memory and buffer exist, and nobody else takes this share.
    unsafe fn share(&self, share: usize) -> Share<'_> {
        let at = share * SHARE_BYTES;
        let end = (at + SHARE_BYTES).min(self.buffer.len());
        // SAFETY: the share begins in the buffer.
        let start = unsafe { self.buffer.cast::<u8>().add(at) };
        Share {
            first: self.first + (at / BLOCK_BYTES) as u64,
            // SAFETY: the buffer ends with the block of the last byte, so the share begins before.
            memory: unsafe { self.memory.add(at) },
            bytes: self.bytes.min(end) - at,
            // SAFETY: the share ends in the buffer, and no two have a byte in common.
            buffer: unsafe { slice::from_raw_parts_mut(start.as_ptr(), end - at) },
            before: at / BLOCK_BYTES,
        }
    }
}

impl Sealer {
    /// With so many threads beside the caller's.
    ///
    /// # Errors
    /// If there is no thread.
    pub(super) fn new(seals: &Arc<Seals>, threads: usize) -> Result<Self, Errno> {
        let team = Team::new(threads, "vtensor-seal");
        Ok(Self {
            seals: Arc::clone(seals),
            team: team.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?,
        })
    }

    /// The seals that it makes.
    pub(super) const fn seals(&self) -> &Arc<Seals> {
        &self.seals
    }

    /// Copies `bytes` bytes into a buffer, with zeroes after them, and seals it as block `first`
    /// and those after it. What is to be done `meanwhile` is done at once, by the caller's thread:
    /// others begin to seal.
    ///
    /// # Safety
    /// As [`Seals::copy_in`], and the buffer is the caller's.
    pub(super) unsafe fn seal(
        &mut self,
        first: u64,
        memory: NonNull<u8>,
        bytes: usize,
        buffer: NonNull<[u8]>,
        meanwhile: impl FnOnce(),
    ) {
        let part = Part {
            first,
            memory,
            bytes,
            buffer,
        };
        self.team.share(part.shares(), meanwhile, &|share| {
            // SAFETY: the caller vouches for the part; a team makes each share once.
            let share = unsafe { part.share(share) };
            let Share { first, memory, .. } = share;
            // SAFETY: as above.
            unsafe { (self.seals).copy_in(first, memory, share.bytes, share.buffer) };
        });
    }

    /// Opens a buffer that holds block `first` and those after it, in place, and copies `bytes`
    /// bytes of it out; `meanwhile` as above. What lies around a damaged block may have been
    /// copied.
    ///
    /// # Safety
    /// As [`Seals::copy_out`], and the buffer is the caller's.
    pub(super) unsafe fn open(
        &mut self,
        first: u64,
        buffer: NonNull<[u8]>,
        memory: NonNull<u8>,
        bytes: usize,
        meanwhile: impl FnOnce(),
    ) -> Result<(), Damaged> {
        let part = Part {
            first,
            memory,
            bytes,
            buffer,
        };
        let damaged = AtomicUsize::new(usize::MAX);
        self.team.share(part.shares(), meanwhile, &|share| {
            // SAFETY: the caller vouches for the part; a team makes each share once.
            let share = unsafe { part.share(share) };
            let Share { first, memory, .. } = share;
            // SAFETY: as above.
            let opened = unsafe { (self.seals).copy_out(first, share.buffer, memory, share.bytes) };
            if let Err(Damaged(block)) = opened {
                damaged.fetch_min(share.before + block, Ordering::Relaxed);
            }
        });
        match damaged.into_inner() {
            usize::MAX => Ok(()),
            first => Err(Damaged(first)),
        }
    }
}
