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
use super::disk::{Disk, Ended, Request};
use super::file::SpillFile;
use super::options::{IoPath, StorageOptions};
use super::plain::Plain;
use super::seals::Seals;
use super::uring::Uring;
use crate::error::RuntimeError;
use crate::scale::to_usize;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Buffers for each request in flight: while some are on their way, others are sealed or opened.
const BUFFERS_EACH: usize = 2;

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

/// What a buffer is busy with. A part is named by the bytes of the copy before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Free,
    /// A request is in flight for it.
    Flying(usize),
    /// It waits for a request, or for being opened.
    Waiting(usize),
}

/// One user of a file.
pub(crate) struct Channel {
    // Ends before the buffers that its requests use.
    disk: Box<dyn Disk>,
    buffers: Buffers,
    seals: Arc<Seals>,
    /// By buffer.
    work: Vec<Work>,
    /// Requests in flight now, and at most.
    flying: usize,
    depth: usize,
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
        let depth = options.in_flight();
        let buffers = Buffers::new(BUFFERS_EACH * depth, options.request())
            .map_err(RuntimeError::system("take buffers for the spill file"))?;
        let disk = disk(file, options, &buffers)?;
        Ok(Self::on(disk, buffers, depth, seals, file.bytes()))
    }

    pub(super) fn on(
        disk: Box<dyn Disk>,
        buffers: Buffers,
        depth: usize,
        seals: &Arc<Seals>,
        bytes: u64,
    ) -> Self {
        let work = vec![Work::Free; buffers.count()];
        Self {
            disk,
            buffers,
            seals: Arc::clone(seals),
            work,
            flying: 0,
            depth,
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
        let mut sealed = 0;
        loop {
            // The disk first: it shall not wait for a core.
            while let Some(ended) = self.disk.poll() {
                self.end(ended, false)?;
            }
            if self.flying < self.depth
                && let Some((index, before)) = self.waiting()
            {
                self.start(index, true, slot, before, bytes);
            } else if sealed < bytes
                && let Some(index) = self.free()
            {
                let part = (bytes - sealed).min(self.buffers.bytes());
                let buffer = (self.buffers).slice(index, part.next_multiple_of(BLOCK_BYTES));
                // SAFETY: `sealed` is below `bytes`.
                let from = unsafe { source.add(sealed) };
                let first = (slot + sealed as u64) / BLOCK;
                // SAFETY: the caller vouches for the source; the buffer has its blocks.
                unsafe { self.seals.copy_in(first, from, part, buffer) };
                self.work[index] = Work::Waiting(sealed);
                sealed += part;
            } else if self.flying > 0 {
                let ended = self.disk.finish();
                self.end(ended, false)?;
            } else {
                return Ok(());
            }
        }
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
        let mut started = 0;
        loop {
            // The disk first: it shall not wait for a core.
            while let Some(ended) = self.disk.poll() {
                self.end(ended, true)?;
            }
            if self.flying < self.depth
                && started < bytes
                && let Some(index) = self.free()
            {
                self.start(index, false, slot, started, bytes);
                started += (bytes - started).min(self.buffers.bytes());
            } else if let Some((index, before)) = self.waiting() {
                let part = (bytes - before).min(self.buffers.bytes());
                let buffer = (self.buffers).slice(index, part.next_multiple_of(BLOCK_BYTES));
                // SAFETY: `before` is below `bytes`.
                let to = unsafe { target.add(before) };
                let first = (slot + before as u64) / BLOCK;
                // SAFETY: the caller vouches for the target; the buffer has its blocks.
                let opened = unsafe { self.seals.copy_out(first, buffer, to, part) };
                self.work[index] = Work::Free;
                opened.map_err(|damaged| {
                    self.give_up(TransferError {
                        errno: Errno::EBADMSG,
                        offset: (before + damaged.0 * BLOCK_BYTES) as u64,
                    })
                })?;
            } else if self.flying > 0 {
                let ended = self.disk.finish();
                self.end(ended, true)?;
            } else {
                return Ok(());
            }
        }
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
        self.work.iter().position(|work| *work == Work::Free)
    }

    /// The buffer that waits with the earliest part.
    fn waiting(&self) -> Option<(usize, usize)> {
        let waiting = self.work.iter().enumerate();
        let waiting = waiting.filter_map(|(index, work)| match work {
            Work::Waiting(before) => Some((index, *before)),
            _ => None,
        });
        waiting.min_by_key(|(_, before)| *before)
    }

    /// Starts the request of a part.
    fn start(&mut self, index: usize, write: bool, slot: u64, before: usize, bytes: usize) {
        let part = (bytes - before).min(self.buffers.bytes());
        let request = Request {
            write,
            buffer: index,
            start: self.buffers.pointer(index),
            bytes: part.next_multiple_of(BLOCK_BYTES),
            offset: slot + before as u64,
        };
        self.work[index] = Work::Flying(before);
        self.flying += 1;
        // SAFETY: the buffer has so many bytes; it is busy until the request has ended.
        unsafe { self.disk.start(request) };
    }

    /// Takes the end of a request in: its buffer is free, or waits to be opened.
    fn end(&mut self, ended: Ended, opens: bool) -> Result<(), TransferError> {
        let Work::Flying(before) = self.work[ended.buffer] else {
            unreachable!("a request belongs to a part");
        };
        self.flying -= 1;
        self.work[ended.buffer] = if opens {
            Work::Waiting(before)
        } else {
            Work::Free
        };
        ended.result.map_err(|errno| {
            let offset = before as u64;
            self.give_up(TransferError { errno, offset })
        })
    }

    /// Waits for all requests, and forgets them. The first error is the answer.
    fn give_up(&mut self, error: TransferError) -> TransferError {
        for _ in 0..std::mem::take(&mut self.flying) {
            self.disk.finish();
        }
        self.work.fill(Work::Free);
        error
    }
}

/// What makes the requests of buffers, which must outlive it.
pub(super) fn disk(
    file: &SpillFile,
    options: &StorageOptions,
    buffers: &Buffers,
) -> Result<Box<dyn Disk>, RuntimeError> {
    if options.path != IoPath::Plain {
        let copy = file.file.try_clone();
        let copy = copy.map_err(|error| RuntimeError::System {
            what: "open the spill file once more",
            errno: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
        })?;
        match Uring::new(copy, buffers) {
            Ok(uring) => return Ok(Box::new(uring)),
            Err(errno) if options.path == IoPath::Uring => {
                let refused = RuntimeError::system("set up io_uring for the spill file");
                return Err(refused(errno));
            }
            Err(_) => {}
        }
    }
    let plain = Plain::new(&file.file, options.in_flight(), buffers.count());
    let refused = RuntimeError::system("start threads for the spill file");
    Ok(Box::new(plain.map_err(refused)?))
}

/// A buffer for the blocks that a range touches, and where they begin.
fn whole_blocks(slot: u64, bytes: usize) -> (u64, Vec<u8>) {
    let start = slot / BLOCK * BLOCK;
    let end = (slot + bytes as u64).next_multiple_of(BLOCK);
    (start, vec![0; to_usize(end - start)])
}
