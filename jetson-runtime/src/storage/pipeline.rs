//! Copies between memory and a file: buffers, requests in flight, seals.
//!
//! Copies are made in the order in which they are asked for. Those that were announced are begun
//! while the ones before are under way, so the disk does not pause between them. A copy goes in
//! parts, one to a buffer:
//!
//! ```text
//! out: free ──> sealed ──> flying ──> free        in: free ──> flying ──> read ──> free
//! ```
//!
//! Guarantees: nothing is allocated and no lock is taken. When a copy has failed, or the pipeline
//! ends, no request is in flight any more.

use std::ptr::NonNull;

use heapless::Deque;
use nix::errno::Errno;

use super::BLOCK_BYTES;
use super::blocks::Blocks;
use super::disk::{Disk, Ended, Request};
use super::sealer::Sealer;

/// Copies that are under way or announced, at most.
const COPIES_MAX: usize = 8;

/// A copy that failed, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferError {
    /// What the system said. `EBADMSG`: what was read is not what was written.
    pub(crate) errno: Errno,
    /// Bytes of the copy before the place that failed.
    pub(crate) offset: u64,
}

impl TransferError {
    /// The same, of a copy that has so many bytes more before it.
    pub(crate) const fn behind(self, bytes: usize) -> Self {
        Self {
            offset: self.offset + bytes as u64,
            ..self
        }
    }
}

impl From<Errno> for TransferError {
    fn from(errno: Errno) -> Self {
        Self { errno, offset: 0 }
    }
}

/// A copy between memory and a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockCopy {
    /// To the slot; else from it.
    pub(crate) write: bool,
    /// Where the slot begins: at a block.
    pub(crate) slot: u64,
    pub(crate) memory: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: a copy is an address range; who may touch it when is said where copies are announced.
unsafe impl Send for BlockCopy {}

/// How far a copy is.
struct Progress {
    copy: BlockCopy,
    /// Bytes that were sealed, or asked for.
    begun: usize,
    /// Bytes that are in place.
    ended: usize,
    /// The first error.
    failed: Option<TransferError>,
}

/// A part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    /// The number of the copy.
    copy: u64,
    /// Bytes of the copy before it.
    before: usize,
}

/// What a buffer is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Free,
    /// A request is in flight for it.
    Flying(Part),
    /// It is sealed, and waits for its request.
    Sealed(Part),
    /// It was read, and waits for being opened.
    Read(Part),
}

/// Makes copies.
pub(super) struct Pipeline {
    // Ends before the memory that its requests use.
    disk: Box<dyn Disk>,
    blocks: Blocks,
    sealer: Sealer,
    /// By buffer.
    work: Vec<Work>,
    /// Requests that the disk has.
    flying: usize,
    /// In the order in which they end, and the number of the first.
    copies: Deque<Progress, COPIES_MAX>,
    first: u64,
}

impl Pipeline {
    /// With requests of the size of a part.
    pub(super) fn new(disk: Box<dyn Disk>, blocks: Blocks, sealer: Sealer) -> Self {
        Self {
            disk,
            work: vec![Work::Free; blocks.count()],
            blocks,
            sealer,
            flying: 0,
            copies: Deque::new(),
            first: 0,
        }
    }

    /// What makes its requests, for people.
    pub(super) fn path(&self) -> &'static str {
        self.disk.name()
    }

    /// Reads the first block of the file to a place of the memory, to see whether that is possible.
    pub(super) fn try_out(&mut self, memory: NonNull<u8>) -> Result<(), Errno> {
        let blocks = self.blocks.of(0, memory, BLOCK_BYTES);
        let request = Request {
            write: false,
            buffer: 0,
            start: blocks.cast(),
            bytes: blocks.len(),
            offset: 0,
        };
        // SAFETY: the memory is a block of what was taken or lent, and not in use yet.
        unsafe { self.disk.start(request) };
        self.disk.finish().result
    }

    /// Lets a copy begin early. Answers whether it was taken on: there is room for a few.
    ///
    /// # Safety
    /// As for the copy itself, from now on until it was made, or one before it has failed, or the
    /// pipeline is gone. The copies that follow are the announced ones, in this order.
    pub(super) unsafe fn announce(&mut self, copy: BlockCopy) -> bool {
        let progress = Progress {
            copy,
            begun: 0,
            ended: 0,
            failed: None,
        };
        self.copies.push_back(progress).is_ok()
    }

    /// Makes a copy, and meanwhile of those announced what there is time for.
    ///
    /// # Safety
    /// As for reading and writing.
    pub(super) unsafe fn run(&mut self, copy: BlockCopy) -> Result<(), TransferError> {
        if self.copies.is_empty() {
            // SAFETY: the caller vouches for the copy, which is made now.
            unsafe { self.announce(copy) };
        }
        loop {
            // The disk first: it shall not wait for a core.
            while let Some(ended) = self.disk.poll() {
                self.end(ended);
            }
            let front = self.copies.front().expect("the copy was announced");
            assert_eq!(front.copy, copy, "copies follow in the order announced");
            if let Some(error) = front.failed {
                self.give_up();
                return Err(error);
            }
            if front.ended == copy.bytes {
                self.copies.pop_front();
                self.first += 1;
                return Ok(());
            }
            // SAFETY: the caller vouches for this copy, whoever announced others for them.
            if !unsafe { self.go_on() } {
                let ended = self.disk.finish();
                self.end(ended);
            }
        }
    }

    /// A buffer that is not busy.
    fn free(&self) -> Option<usize> {
        self.work.iter().position(|work| *work == Work::Free)
    }

    /// The buffer with the earliest part among those that do some work.
    fn earliest(&self, of: impl Fn(Work) -> Option<Part>) -> Option<(usize, Part)> {
        let parts = self.work.iter().enumerate();
        let parts = parts.filter_map(|(index, work)| Some((index, of(*work)?)));
        parts.min_by_key(|(_, part)| *part)
    }

    /// The next part of the first copy that has any left to begin, if it goes in this direction.
    fn next_part(&self, write: bool) -> Option<Part> {
        let mut copies = (self.first..).zip(self.copies.iter());
        let (copy, progress) = copies.find(|(_, some)| some.begun < some.copy.bytes)?;
        (progress.copy.write == write).then_some(Part {
            copy,
            before: progress.begun,
        })
    }

    fn progress(&mut self, part: Part) -> &mut Progress {
        let mut copies = (self.first..).zip(self.copies.iter_mut());
        let found = copies.find(|(number, _)| *number == part.copy);
        found.expect("parts belong to copies under way").1
    }

    /// The copy of a part, and how many bytes of it the part has.
    fn of(&mut self, part: Part) -> (BlockCopy, usize) {
        let bytes_max = self.blocks.bytes();
        let copy = self.progress(part).copy;
        (copy, (copy.bytes - part.before).min(bytes_max))
    }

    /// Starts a request, and meanwhile opens a part that was read or seals one: what there is to
    /// be done. Answers whether there was anything.
    ///
    /// # Safety
    /// As for all copies under way.
    unsafe fn go_on(&mut self) -> bool {
        let request = self.next_request();
        if let Some((index, part)) = self.next_work() {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.seal_or_open(index, part, request) };
        } else if let Some(request) = request {
            // SAFETY: the buffer has so many bytes; it is busy until the request has ended.
            unsafe { self.disk.start(request) };
        } else {
            return false;
        }
        true
    }

    /// The next request, if one may start: what is sealed goes out first.
    fn next_request(&mut self) -> Option<Request> {
        if self.flying == self.disk.room() {
            return None;
        }
        let sealed = self.earliest(|work| match work {
            Work::Sealed(part) => Some(part),
            _ => None,
        });
        let wanted = || Some((self.free()?, self.next_part(false)?));
        let (index, part) = sealed.or_else(wanted)?;
        let (copy, bytes) = self.of(part);
        if !copy.write {
            self.progress(part).begun += bytes;
        }
        self.work[index] = Work::Flying(part);
        self.flying += 1;
        let blocks = self.blocks.of(index, memory_of(copy, part), bytes);
        Some(Request {
            write: copy.write,
            buffer: index,
            start: blocks.cast(),
            bytes: blocks.len(),
            offset: copy.slot + part.before as u64,
        })
    }

    /// A part that was read, to be opened; or one to be sealed, and a buffer for it.
    fn next_work(&self) -> Option<(usize, Part)> {
        let read = self.earliest(|work| match work {
            Work::Read(part) => Some(part),
            _ => None,
        });
        let unsealed = || Some((self.free()?, self.next_part(true)?));
        read.or_else(unsealed)
    }

    /// Opens or seals a part, and starts a request meanwhile: the time that the kernel takes for it
    /// is time in which others work.
    ///
    /// # Safety
    /// As for all copies under way.
    unsafe fn seal_or_open(&mut self, index: usize, part: Part, request: Option<Request>) {
        let (copy, bytes) = self.of(part);
        let memory = memory_of(copy, part);
        let buffer = self.blocks.of(index, memory, bytes);
        let block = (copy.slot + part.before as u64) / BLOCK_BYTES as u64;
        let meanwhile = || {
            if let Some(request) = request {
                // SAFETY: another buffer, which has so many bytes; it is busy until the request has
                // ended.
                unsafe { self.disk.start(request) };
            }
        };
        if copy.write {
            // SAFETY: the caller vouches for the source; the buffer has its blocks.
            unsafe { (self.sealer).seal(block, memory, bytes, buffer, meanwhile) };
            self.work[index] = Work::Sealed(part);
            self.progress(part).begun += bytes;
            return;
        }
        // SAFETY: the caller vouches for the target; the buffer has its blocks.
        let opened = unsafe { (self.sealer).open(block, buffer, memory, bytes, meanwhile) };
        self.work[index] = Work::Free;
        self.note(
            part,
            bytes,
            opened.map_err(|damaged| TransferError {
                errno: Errno::EBADMSG,
                offset: (part.before + damaged.0 * BLOCK_BYTES) as u64,
            }),
        );
    }

    /// Takes the end of a request in.
    fn end(&mut self, ended: Ended) {
        let Work::Flying(part) = self.work[ended.buffer] else {
            unreachable!("a request belongs to a part");
        };
        self.flying -= 1;
        let (copy, bytes) = self.of(part);
        let opens = !copy.write && ended.result.is_ok();
        self.work[ended.buffer] = if opens { Work::Read(part) } else { Work::Free };
        if !opens {
            self.note(
                part,
                bytes,
                ended.result.map_err(|errno| TransferError {
                    errno,
                    offset: part.before as u64,
                }),
            );
        }
    }

    /// Notes that a part is in place, or is not.
    fn note(&mut self, part: Part, bytes: usize, result: Result<(), TransferError>) {
        let progress = self.progress(part);
        match result {
            Ok(()) => progress.ended += bytes,
            Err(error) => progress.failed = progress.failed.or(Some(error)),
        }
    }

    /// Waits for all requests, and forgets them with their copies.
    fn give_up(&mut self) {
        for _ in 0..std::mem::take(&mut self.flying) {
            self.disk.finish();
        }
        self.work.fill(Work::Free);
        self.first += self.copies.len() as u64;
        self.copies.clear();
    }
}

/// Where the bytes of a part are.
fn memory_of(copy: BlockCopy, part: Part) -> NonNull<u8> {
    // SAFETY: the part lies in the copy.
    unsafe { copy.memory.add(part.before) }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.give_up();
    }
}
