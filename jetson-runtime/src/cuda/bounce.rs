//! A bounce: copies between the device and a spill file, by way of a ring of pinned buffers.
//!
//! In: the copies of a queue, in its order, from the thread of an engine. Out: each complete when
//! the call returns. A copy goes in parts, each through a buffer of the ring; what was announced
//! moves ahead as far as there are buffers:
//!
//! ```text
//! out: device ──stream──> buffer ──> file         in: file ──> buffer ──stream──> device
//! ```
//!
//! Order: a stream of copies waits for the end of the step that releases a copy before it touches
//! the device (E2, E3). That an in may be read from the file is known from counters; this comes
//! before its step has ended on the device, since nobody but its buffer sees it. An out goes to the
//! file once its part is in the buffer, which the host waits for; a buffer is used again once the
//! host has seen what the device did with it last. A direction has a stream of its own also where
//! the device has one copy engine: then nothing is enqueued behind a later step than its own.
//!
//! Guarantees: nothing is allocated. When it is dropped, no work with the buffers is left.
//!
//! The file's side uses the same buffers: what goes out is sealed in them, and what comes in is
//! opened there. Where the kernel does not read files into a driver's memory, it has buffers of its
//! own, and each byte is copied once more.

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use heapless::Deque;
use nix::errno::Errno;
use nix::sys::mman::{MmapAdvise, madvise};
use vtensor::limits;

use super::device::Device;
use super::error::CudaError;
use super::memory::{Kind, Memory};
use super::stream::{EventUse, Events, Stream};
use crate::copier::{Copier, Transfer};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::scale::{system_page, to_usize};
use crate::spill::{Port, Tier};
use crate::storage::{BlockCopy, TransferError};
use crate::table::Command;

/// Buffers of a ring: as many copies as a channel takes on.
const BUFFERS: usize = 8;
/// Bytes of each, at most: whole blocks of the file. Tests are small.
const BUFFER_BYTES_MAX: usize = if cfg!(test) { 4096 } else { 1 << 20 };
/// Copies that are under way or announced, at most.
const JOBS_MAX: usize = 8;

const _: () = assert!((BUFFER_BYTES_MAX as u64).is_multiple_of(limits::SLOT_ALIGN));

/// Where a driver's error is left for the application: a copier answers with what a disk says.
pub(super) type Trouble = Arc<OnceLock<CudaError>>;

/// The ends of the steps that release the copies of a queue.
pub(super) struct Releases {
    /// Two sets, which iterations use in turn.
    pub(super) events: Arc<Events>,
    /// Events of a set.
    pub(super) set: usize,
    /// The event of each copy of the queue.
    pub(super) of_copies: Vec<usize>,
}

/// A copy that was taken on.
#[derive(Clone, Copy)]
struct Job {
    transfer: Transfer,
    /// The end of the step that releases it.
    release: usize,
    /// Its parts, counted from the start on.
    first: u64,
    end: u64,
}

/// A copy's part.
#[derive(Clone, Copy)]
struct Part {
    number: u64,
    job: Job,
    buffer: usize,
    /// Bytes of the copy before it.
    before: usize,
    bytes: usize,
}

/// The way of one engine.
pub(super) struct Bounce {
    // Its requests end before the buffers go.
    port: Port,
    /// By direction, if the queue has copies of that.
    streams: [Option<Stream>; 2],
    releases: Releases,
    memory: Memory,
    /// Bytes of a buffer.
    buffer_bytes: usize,
    /// What the device did last with each buffer, and whether the host has not seen its end.
    events: Events,
    busy: [bool; BUFFERS],
    /// The copies under way, in their order.
    jobs: Deque<Job, JOBS_MAX>,
    /// Copies that were taken on, from the start on.
    copies: u64,
    /// Parts whose buffer was given to them: outs were asked of the device.
    begun: u64,
    /// Parts that the file knows of.
    announced: u64,
    /// Parts that are through with the file.
    passed: u64,
    trouble: Trouble,
    device: Device,
}

impl Bounce {
    /// Takes streams, and buffers that are no larger than the copies of the queue.
    pub(super) fn new(
        device: &Device,
        tier: &Arc<Tier>,
        queue: &[Command],
        releases: Releases,
        trouble: &Trouble,
    ) -> Result<Self, RuntimeError> {
        let transfers = || queue.iter().map(|command| &command.transfer);
        let stream = |direction: Direction| {
            let wanted = transfers().any(|transfer| transfer.direction == direction);
            wanted.then(|| Stream::new(device)).transpose()
        };
        let largest = transfers().map(|transfer| transfer.bytes).max();
        let buffer_bytes = largest.unwrap_or(1).min(BUFFER_BYTES_MAX);
        let buffer_bytes = buffer_bytes.next_multiple_of(to_usize(limits::SLOT_ALIGN));
        // Whole pages: what is left of one could not be kept out of core dumps.
        let bytes = (BUFFERS * buffer_bytes).next_multiple_of(to_usize(system_page()));
        let memory = Memory::new(device, Kind::Pinned, bytes)?;
        let ring = NonNull::slice_from_raw_parts(memory.host(0, bytes), bytes);
        keep_from_dumps(ring);
        Ok(Self {
            // SAFETY: the port ends before the ring. A part's buffer, whose size is whole blocks,
            // is the port's alone while it is announced or made; what an out leaves there is
            // overwritten by the next part.
            port: unsafe { Port::lent(tier, ring) }?,
            streams: [stream(Direction::Out)?, stream(Direction::In)?],
            releases,
            memory,
            buffer_bytes,
            events: Events::new(device, BUFFERS, EventUse::Host)?,
            busy: [false; BUFFERS],
            jobs: Deque::new(),
            copies: 0,
            begun: 0,
            announced: 0,
            passed: 0,
            trouble: Arc::clone(trouble),
            device: device.clone(),
        })
    }

    /// Pinned memory of the ring.
    pub(super) const fn pinned(&self) -> usize {
        self.memory.bytes()
    }

    /// Takes a copy on, if there is room for one more.
    fn take_on(&mut self, transfer: &Transfer) -> bool {
        let queue = self.releases.of_copies.len() as u64;
        let row = to_usize(self.copies % queue);
        // Iterations are counted from 1.
        let set = super::ahead::set(self.copies / queue + 1);
        let first = self.jobs.back().map_or(self.passed, |job| job.end);
        let job = Job {
            transfer: *transfer,
            release: set * self.releases.set + self.releases.of_copies[row],
            first,
            end: first + transfer.bytes.div_ceil(self.buffer_bytes) as u64,
        };
        let taken = self.jobs.push_back(job).is_ok();
        self.copies += u64::from(taken);
        taken
    }

    /// A part of the copies under way, if there are so many.
    fn part(&self, number: u64) -> Option<Part> {
        let job = *self.jobs.iter().find(|job| number < job.end)?;
        let before = to_usize(number - job.first) * self.buffer_bytes;
        Some(Part {
            number,
            job,
            buffer: to_usize(number % BUFFERS as u64),
            before,
            bytes: (job.transfer.bytes - before).min(self.buffer_bytes),
        })
    }

    /// The part as the file sees it.
    fn block_copy(&self, part: &Part) -> BlockCopy {
        BlockCopy {
            write: part.job.transfer.direction == Direction::Out,
            slot: part.job.transfer.slot + part.before as u64,
            memory: self.host(part),
            bytes: part.bytes,
        }
    }

    fn host(&self, part: &Part) -> NonNull<u8> {
        let offset = part.buffer * self.buffer_bytes;
        self.memory.host(offset as u64, part.bytes)
    }

    /// Whether the device is through with a buffer. Waits for that if it must be.
    fn idle(&mut self, buffer: usize, wait: bool) -> Result<bool, CudaError> {
        if self.busy[buffer] {
            self.busy[buffer] = match wait {
                true => {
                    self.events.sleep(buffer)?;
                    false
                }
                false => !self.events.done(buffer)?,
            };
        }
        Ok(!self.busy[buffer])
    }

    /// Enqueues a part's way between device and buffer, behind the step that releases it.
    fn enqueue(&mut self, part: &Part) -> Result<(), CudaError> {
        let Transfer {
            direction, device, ..
        } = part.job.transfer;
        let stream = self.streams[direction.index()].as_ref();
        let stream = stream.expect("there is a stream for each direction of the queue");
        if part.before == 0 {
            stream.wait(self.releases.events.get(part.job.release))?;
        }
        let on_device = device.addr().get() as u64 + part.before as u64;
        let (host, raw) = (self.host(part), stream.raw());
        match direction {
            // SAFETY: the windows outlive the engines, and `drop` lets the stream come to rest
            // before the buffer goes. The stream has waited for the copy's step, and the device is
            // through with the buffer. The plan is verified: nobody else touches the range.
            Direction::Out => unsafe { self.device.copy_out(host, on_device, part.bytes, raw) },
            // SAFETY: as above.
            Direction::In => unsafe { self.device.copy_in(on_device, host, part.bytes, raw) },
        }?;
        stream.record(self.events.get(part.buffer))?;
        self.busy[part.buffer] = true;
        Ok(())
    }

    /// Gives the next part its buffer, if it is idle, or is waited for.
    fn begin(&mut self, part: &Part, wait: bool) -> Result<bool, CudaError> {
        let free = part.number < self.passed + BUFFERS as u64 && self.idle(part.buffer, wait)?;
        if free {
            if part.job.transfer.direction == Direction::Out {
                self.enqueue(part)?;
            }
            self.begun = part.number + 1;
        }
        Ok(free)
    }

    /// Begins what there are buffers for, and lets the file know what it may do meanwhile.
    fn look_ahead(&mut self) -> Result<(), CudaError> {
        while let Some(part) = self.part(self.begun) {
            if !self.begin(&part, false)? {
                break;
            }
        }
        while self.announced < self.begun {
            let part = self.part(self.announced).expect("it was begun");
            // SAFETY: the buffer is the part's own until it has passed, and nobody else's: the
            // device is through with it. Parts pass in this order.
            let ready = self.idle(part.buffer, false)?
                && unsafe { self.port.announce(self.block_copy(&part)) };
            if !ready {
                break;
            }
            self.announced += 1;
        }
        Ok(())
    }

    /// Makes the next part.
    fn pass(&mut self, part: &Part) -> Result<(), Stop> {
        if self.begun == part.number {
            self.begin(part, true)?;
        }
        self.idle(part.buffer, true)?;
        self.look_ahead()?;
        let BlockCopy {
            write,
            slot,
            memory,
            bytes,
        } = self.block_copy(part);
        let passed = match write {
            // SAFETY: the buffer has so many bytes, is the part's own, and the device is through
            // with it. The engine upholds for the slot what the verified plan makes sufficient.
            true => unsafe { self.port.write(slot, memory, bytes) },
            // SAFETY: as above.
            false => unsafe { self.port.read(slot, memory, bytes) },
        };
        passed.map_err(|error| Stop::File(error.behind(part.before)))?;
        self.passed = part.number + 1;
        self.announced = self.announced.max(self.passed);
        if !write {
            self.enqueue(part)?;
        }
        Ok(())
    }

    /// Makes the first of the copies under way.
    fn make(&mut self) -> Result<(), Stop> {
        // The context of the engine's thread.
        self.device.calls()?;
        let job = *self.jobs.front().expect("it was taken on");
        while self.passed < job.end {
            let part = self.part(self.passed).expect("the copy has parts left");
            self.pass(&part)?;
        }
        if job.transfer.direction == Direction::In && job.end > job.first {
            // The last part: those before it are in the same stream.
            self.idle(to_usize((job.end - 1) % BUFFERS as u64), true)?;
        }
        self.jobs.pop_front();
        Ok(())
    }
}

/// Why a copy was not made.
enum Stop {
    File(TransferError),
    Device(CudaError),
}

impl From<CudaError> for Stop {
    fn from(error: CudaError) -> Self {
        Self::Device(error)
    }
}

impl Copier for Bounce {
    unsafe fn copy(
        &mut self,
        transfer: &Transfer,
        _: Option<Instant>,
    ) -> Result<(), TransferError> {
        if self.jobs.is_empty() {
            self.take_on(transfer);
        }
        match self.make() {
            Ok(()) => Ok(()),
            Err(Stop::File(error)) => Err(error),
            Err(Stop::Device(error)) => {
                // The first one counts: what is said later may follow from it.
                let _ = self.trouble.set(error);
                Err(Errno::EIO.into())
            }
        }
    }

    unsafe fn announce(&mut self, transfer: &Transfer) -> bool {
        self.take_on(transfer)
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        self.streams.iter().flatten().for_each(Stream::rest);
    }
}

/// Keeps the whole pages of the ring, which holds contents unsealed, out of core dumps. A wish: a
/// driver's memory may be of a kind that is not dumped anyway, and refuses.
fn keep_from_dumps(ring: NonNull<[u8]>) {
    let page = to_usize(system_page());
    let start = ring.cast::<u8>();
    let skipped = start.as_ptr().align_offset(page);
    let bytes = ring.len().saturating_sub(skipped) / page * page;
    if bytes == 0 {
        return;
    }
    // SAFETY: there is more of the ring than what is skipped.
    let start = unsafe { start.add(skipped) };
    // SAFETY: the range lies in the ring, which is the caller's; its bytes are left alone.
    let _ = unsafe { madvise(start.cast(), bytes, MmapAdvise::MADV_DONTDUMP) };
}
