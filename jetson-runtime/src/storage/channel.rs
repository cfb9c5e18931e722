//! A channel: one user of a spill file, which reads and writes slots and parts of them.
//!
//! Guarantees: `write`, `read` and `announce` allocate nothing and take no lock. When a copy has
//! failed, or the channel ends, no request is in flight any more. A read hands out a block only
//! after its seal was checked; what comes before a damaged block may have been handed out.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use nix::errno::Errno;

use super::BLOCK_BYTES;
use super::blocks::Blocks;
use super::buffers::Buffers;
use super::disk::Disk;
use super::file::SpillFile;
use super::open::open;
use super::options::StorageOptions;
use super::pipeline::{BlockCopy, Pipeline, TransferError};
use super::sealer::Sealer;
use super::seals::Seals;
use crate::error::RuntimeError;
use crate::memory;
use crate::scale::to_usize;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// One user of a file.
pub(crate) struct Channel {
    pipeline: Pipeline,
    seals: Arc<Seals>,
    /// The size of the file.
    bytes: u64,
}

impl Channel {
    /// Takes buffers, and a ring where that is wanted and possible.
    pub(crate) fn new(
        file: &SpillFile,
        seals: &Arc<Seals>,
        options: &StorageOptions,
    ) -> Result<Self, RuntimeError> {
        memory::demand("buffers of the spill file", options.buffer_bytes())?;
        let refused = RuntimeError::system("take buffers for the spill file");
        let buffers = Buffers::new(options.buffers(), options.request()).map_err(refused)?;
        Self::with(Blocks::Own(buffers), file, seals, options)
    }

    /// Uses memory that its copies lie in, and no buffers: what is written is sealed there, and
    /// what is read arrives there sealed. Its copies begin at blocks of it and have the whole of
    /// their last one.
    ///
    /// # Safety
    /// The memory outlives the channel. It is the channel's where copies are made or announced,
    /// whole blocks of it; what a copy to the file leaves there is anything.
    ///
    /// # Errors
    /// If the kernel does not read files into such memory.
    pub(crate) unsafe fn lent(
        file: &SpillFile,
        seals: &Arc<Seals>,
        options: &StorageOptions,
        memory: NonNull<[u8]>,
    ) -> Result<Self, RuntimeError> {
        let refused = RuntimeError::system("use a driver's memory for the spill file");
        if !memory.cast::<u8>().addr().get().is_multiple_of(BLOCK_BYTES) {
            return Err(refused(Errno::EINVAL));
        }
        let blocks = Blocks::Lent {
            memory,
            bytes: options.request(),
            count: options.buffers(),
        };
        let mut channel = Self::with(blocks, file, seals, options)?;
        let tried = channel.pipeline.try_out(memory.cast());
        tried.map_err(refused)?;
        Ok(channel)
    }

    fn with(
        blocks: Blocks,
        file: &SpillFile,
        seals: &Arc<Seals>,
        options: &StorageOptions,
    ) -> Result<Self, RuntimeError> {
        let disk = open(file, options, blocks.all(), blocks.count())?;
        let refused = RuntimeError::system("start threads that seal the spill file");
        let sealer = Sealer::new(seals, options.sealers()).map_err(refused)?;
        Ok(Self::on(disk, blocks, sealer, file.bytes()))
    }

    pub(super) fn on(disk: Box<dyn Disk>, blocks: Blocks, sealer: Sealer, bytes: u64) -> Self {
        Self {
            seals: Arc::clone(sealer.seals()),
            pipeline: Pipeline::new(disk, blocks, sealer),
            bytes,
        }
    }

    /// Writes to a slot. It begins at a block; if the last block is not filled, the rest of it is
    /// zeroes then.
    ///
    /// # Safety
    /// `source` is readable for `bytes` bytes, and nobody writes them, or uses the slot, meanwhile.
    pub(crate) unsafe fn write(
        &mut self,
        slot: u64,
        source: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        self.check(slot, bytes);
        let copy = BlockCopy {
            write: true,
            slot,
            memory: source,
            bytes,
        };
        // SAFETY: the caller's promise is passed on.
        unsafe { self.pipeline.run(copy) }
    }

    /// Reads from a slot, which begins at a block.
    ///
    /// # Safety
    /// `target` is writable for `bytes` bytes, and nobody uses them, or writes the slot, meanwhile.
    pub(crate) unsafe fn read(
        &mut self,
        slot: u64,
        target: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        self.check(slot, bytes);
        let copy = BlockCopy {
            write: false,
            slot,
            memory: target,
            bytes,
        };
        // SAFETY: the caller's promise is passed on.
        unsafe { self.pipeline.run(copy) }
    }

    /// Lets a copy begin early. Answers whether it was taken on: there is room for a few.
    ///
    /// # Safety
    /// As for the copy itself, from now on until it was made, or one before it has failed, or the
    /// channel is gone. The copies that follow are the announced ones, in this order.
    pub(crate) unsafe fn announce(&mut self, copy: BlockCopy) -> bool {
        self.check(copy.slot, copy.bytes);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.pipeline.announce(copy) }
    }

    /// Writes to any range: blocks that it covers in part keep the rest of what they hold. Not
    /// where memory was lent, as [`Self::peek`].
    ///
    /// # Safety
    /// As [`Self::write`], for the blocks that the range touches.
    pub(crate) unsafe fn patch(
        &mut self,
        slot: u64,
        source: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        let Range { head, whole, tail } = Range::of(slot, bytes);
        for (before, part) in [(0, head), (head + whole, tail)] {
            if part > 0 {
                // SAFETY: the part lies in the source.
                let source = unsafe { source.add(before) };
                // SAFETY: the caller vouches for the source and for the block.
                let patched = unsafe { self.patch_block(slot + before as u64, source, part) };
                patched.map_err(|error| error.behind(before))?;
            }
        }
        if whole == 0 {
            return Ok(());
        }
        // SAFETY: what is whole lies in the source.
        let source = unsafe { source.add(head) };
        // SAFETY: as above, for whole blocks.
        unsafe { self.write(slot + head as u64, source, whole) }.map_err(|error| error.behind(head))
    }

    /// Writes to a part of a block.
    ///
    /// # Safety
    /// As [`Self::patch`].
    unsafe fn patch_block(
        &mut self,
        slot: u64,
        source: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        let (start, inside) = (slot / BLOCK * BLOCK, to_usize(slot % BLOCK));
        let mut buffer = block_buffer()?;
        if self.seals.is_written(start / BLOCK) {
            // SAFETY: the buffer is a block; the caller vouches for the other.
            unsafe { self.read(start, buffer.pointer(0), BLOCK_BYTES) }?;
        }
        let to = buffer.slice(0, BLOCK_BYTES)[inside..][..bytes].as_mut_ptr();
        // SAFETY: the caller vouches for the source; the part of the buffer is as long.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), to, bytes) };
        // SAFETY: as for the read.
        unsafe { self.write(start, buffer.pointer(0), BLOCK_BYTES) }
    }

    /// Reads from any range.
    ///
    /// # Safety
    /// As [`Self::read`], for the blocks that the range touches.
    pub(crate) unsafe fn peek(
        &mut self,
        slot: u64,
        target: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        let Range { head, whole, tail } = Range::of(slot, bytes);
        if head > 0 {
            let mut buffer = block_buffer()?;
            let (start, inside) = (slot / BLOCK * BLOCK, to_usize(slot % BLOCK));
            // SAFETY: the buffer is a block; the caller vouches for the other.
            unsafe { self.read(start, buffer.pointer(0), BLOCK_BYTES) }?;
            let from = buffer.slice(0, BLOCK_BYTES)[inside..][..head].as_ptr();
            // SAFETY: the caller vouches for the target; the part of the buffer is as long.
            unsafe { ptr::copy_nonoverlapping(from, target.as_ptr(), head) };
        }
        if whole + tail == 0 {
            return Ok(());
        }
        // SAFETY: the rest lies in the target.
        let target = unsafe { target.add(head) };
        // SAFETY: it begins at a block; the caller vouches for it and for the target.
        unsafe { self.read(slot + head as u64, target, whole + tail) }
            .map_err(|error| error.behind(head))
    }

    /// What makes its requests, for people.
    pub(super) fn path(&self) -> &'static str {
        self.pipeline.path()
    }

    fn check(&self, slot: u64, bytes: usize) {
        assert!(slot.is_multiple_of(BLOCK), "slot {slot} begins at a block");
        let end = slot.checked_add(bytes as u64);
        assert!(
            end.is_some_and(|end| end <= self.bytes.next_multiple_of(BLOCK)),
            "slot {slot}+{bytes} lies in a file of {} bytes",
            self.bytes
        );
    }
}

/// A range of bytes, from a slot on.
#[derive(Clone, Copy)]
struct Range {
    /// Bytes of a block that does not begin with them.
    head: usize,
    /// Bytes of whole blocks.
    whole: usize,
    /// Bytes of a block that does not end with them.
    tail: usize,
}

impl Range {
    fn of(slot: u64, bytes: usize) -> Self {
        let to_block = to_usize(slot.next_multiple_of(BLOCK) - slot);
        let head = to_block.min(bytes);
        let tail = (bytes - head) % BLOCK_BYTES;
        Self {
            head,
            whole: bytes - head - tail,
            tail,
        }
    }
}

/// A buffer of a block, which is kept out of core dumps as all others are.
fn block_buffer() -> Result<Buffers, TransferError> {
    Ok(Buffers::new(1, BLOCK_BYTES)?)
}
