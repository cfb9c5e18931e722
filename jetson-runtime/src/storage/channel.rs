//! A channel: one user of a spill file, with buffers and requests of its own.
//!
//! Guarantees: `write` and `read` allocate nothing and take no lock. When they return, no request
//! is in flight, whether they succeeded or not. A read hands out a block only after its seal was
//! checked; what comes before a damaged block may have been handed out.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use nix::errno::Errno;

use super::BLOCK_BYTES;
use super::buffers::Buffers;
use super::disk::{Disk, Request};
use super::file::SpillFile;
use super::options::{IoPath, REQUEST_BYTES, StorageOptions};
use super::plain::Plain;
use super::seals::Seals;
use super::uring::Uring;
use crate::error::RuntimeError;
use crate::scale::to_usize;

/// Requests in flight at most.
const DEPTH_MAX: usize = 64;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// A copy that failed, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferError {
    /// What the system said. `EBADMSG`: what was read is not what was written.
    pub(crate) errno: Errno,
    /// Bytes of the copy before the place that failed.
    pub(crate) offset: u64,
}

impl From<Errno> for TransferError {
    fn from(errno: Errno) -> Self {
        Self { errno, offset: 0 }
    }
}

/// One user of a file.
pub(crate) struct Channel {
    // Ends before the buffers that its requests use.
    disk: Box<dyn Disk>,
    buffers: Buffers,
    seals: Arc<Seals>,
    /// What each buffer is busy with: bytes of the copy before its part.
    parts: Vec<Option<u64>>,
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
        let request = options.request_bytes.unwrap_or(REQUEST_BYTES) as usize;
        let request = (request / BLOCK_BYTES).max(1) * BLOCK_BYTES;
        let depth = (options.depth as usize).clamp(1, DEPTH_MAX);
        let buffers = Buffers::new(depth, request)
            .map_err(RuntimeError::system("take buffers for the spill file"))?;
        let handle = || {
            let copy = file.file.try_clone();
            copy.map_err(|error| RuntimeError::System {
                what: "open the spill file once more",
                errno: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
            })
        };
        let disk: Box<dyn Disk> = match options.path {
            IoPath::Plain => Box::new(Plain::new(handle()?, depth)),
            IoPath::Uring => Box::new(
                Uring::new(handle()?, &buffers)
                    .map_err(RuntimeError::system("set up io_uring for the spill file"))?,
            ),
            IoPath::Auto => match Uring::new(handle()?, &buffers) {
                Ok(uring) => Box::new(uring),
                Err(_) => Box::new(Plain::new(handle()?, depth)),
            },
        };
        Ok(Self::on(disk, buffers, seals, file.bytes()))
    }

    pub(super) fn on(
        disk: Box<dyn Disk>,
        buffers: Buffers,
        seals: &Arc<Seals>,
        bytes: u64,
    ) -> Self {
        let parts = vec![None; buffers.count()];
        Self {
            disk,
            buffers,
            seals: Arc::clone(seals),
            parts,
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
        let mut done = 0;
        let mut failed = None;
        while done < bytes && failed.is_none() {
            let Some(index) = self.free() else {
                failed = self.finish(|_, _, _| Ok(())).err();
                continue;
            };
            let part = (bytes - done).min(self.buffers.bytes());
            let padded = part.next_multiple_of(BLOCK_BYTES);
            let buffer = self.buffers.slice(index, padded);
            // SAFETY: `done` is below `bytes`.
            let from = unsafe { source.add(done) };
            // SAFETY: the caller vouches for the source; the buffer is as long, and another memory.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), buffer.as_mut_ptr(), part) };
            buffer[part..].fill(0);
            let offset = slot + done as u64;
            self.seals.seal(offset / BLOCK, buffer);
            self.start(index, true, padded, offset, done);
            done += part;
        }
        self.drain(failed, |_, _, _| Ok(()))
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
        let seals = Arc::clone(&self.seals);
        let hand_out = |buffers: &mut Buffers, index: usize, before: u64| {
            let before = to_usize(before);
            let part = (bytes - before).min(buffers.bytes());
            let padded = part.next_multiple_of(BLOCK_BYTES);
            let buffer = buffers.slice(index, padded);
            let first = (slot + before as u64) / BLOCK;
            let opened = seals.open(first, buffer);
            opened.map_err(|damaged| TransferError {
                errno: Errno::EBADMSG,
                offset: (before + damaged.0 * BLOCK_BYTES) as u64,
            })?;
            // SAFETY: `before` is below `bytes`.
            let to = unsafe { target.add(before) };
            // SAFETY: the caller vouches for the target; the buffer is as long, and another memory.
            unsafe { ptr::copy_nonoverlapping(buffer.as_ptr(), to.as_ptr(), part) };
            Ok(())
        };
        let mut done = 0;
        let mut failed = None;
        while done < bytes && failed.is_none() {
            let Some(index) = self.free() else {
                failed = self.finish(hand_out).err();
                continue;
            };
            let part = (bytes - done).min(self.buffers.bytes());
            let padded = part.next_multiple_of(BLOCK_BYTES);
            self.start(index, false, padded, slot + done as u64, done);
            done += part;
        }
        self.drain(failed, hand_out)
    }

    /// Writes to any range: blocks that it covers in part keep the rest of what they hold.
    ///
    /// # Safety
    /// As [`Self::write`], for the blocks that the range touches.
    pub(crate) unsafe fn patch(
        &mut self,
        slot: u64,
        source: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        if bytes == 0 {
            return Ok(());
        }
        let (start, mut blocks) = whole_blocks(slot, bytes);
        let ends = [0, blocks.len() - BLOCK_BYTES];
        for at in ends {
            let block = (start + at as u64) / BLOCK;
            if self.seals.is_written(block) {
                let target = NonNull::from(&mut blocks[at..at + BLOCK_BYTES]).cast();
                // SAFETY: the target is a local buffer; the caller vouches for the block.
                unsafe { self.read(start + at as u64, target, BLOCK_BYTES) }?;
            }
        }
        let inside = to_usize(slot - start);
        let to = blocks[inside..inside + bytes].as_mut_ptr();
        // SAFETY: the caller vouches for the source; the local buffer is as long.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), to, bytes) };
        let source = NonNull::from(blocks.as_mut_slice()).cast();
        // SAFETY: the source is a local buffer; the caller vouches for the blocks.
        unsafe { self.write(start, source, blocks.len()) }
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
        if bytes == 0 {
            return Ok(());
        }
        let (start, mut blocks) = whole_blocks(slot, bytes);
        let all = NonNull::from(blocks.as_mut_slice()).cast();
        // SAFETY: the target is a local buffer; the caller vouches for the blocks.
        unsafe { self.read(start, all, blocks.len()) }?;
        let from = blocks[to_usize(slot - start)..].as_ptr();
        // SAFETY: the caller vouches for the target; the local buffer is as long.
        unsafe { ptr::copy_nonoverlapping(from, target.as_ptr(), bytes) };
        Ok(())
    }

    /// What makes its requests, for people.
    pub(super) fn path(&self) -> &'static str {
        self.disk.name()
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

    /// A buffer that is not busy.
    fn free(&self) -> Option<usize> {
        self.parts.iter().position(Option::is_none)
    }

    fn start(&mut self, index: usize, write: bool, bytes: usize, offset: u64, done: usize) {
        self.parts[index] = Some(done as u64);
        let request = Request {
            write,
            buffer: index,
            start: self.buffers.pointer(index),
            bytes,
            offset,
        };
        // SAFETY: the buffer has so many bytes; it is marked as busy until the request has ended.
        unsafe { self.disk.start(request) };
    }

    /// Waits for a request, and hands out what it brought.
    fn finish(
        &mut self,
        mut hand_out: impl FnMut(&mut Buffers, usize, u64) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let ended = self.disk.finish();
        let before = self.parts[ended.buffer].take();
        let offset = before.expect("a request belongs to a part");
        match ended.result {
            Ok(()) => hand_out(&mut self.buffers, ended.buffer, offset),
            Err(errno) => Err(TransferError { errno, offset }),
        }
    }

    /// Waits for all requests. The first error is the answer.
    fn drain(
        &mut self,
        mut failed: Option<TransferError>,
        mut hand_out: impl FnMut(&mut Buffers, usize, u64) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        while self.parts.iter().any(Option::is_some) {
            let ended = match failed {
                None => self.finish(&mut hand_out),
                Some(_) => self.finish(|_, _, _| Ok(())),
            };
            failed = failed.or(ended.err());
        }
        failed.map_or(Ok(()), Err)
    }
}

/// A buffer for the blocks that a range touches, and where they begin.
fn whole_blocks(slot: u64, bytes: usize) -> (u64, Vec<u8>) {
    let start = slot / BLOCK * BLOCK;
    let end = (slot + bytes as u64).next_multiple_of(BLOCK);
    (start, vec![0; to_usize(end - start)])
}
