//! Requests by `io_uring`: several in flight, on registered memory where the kernel grants that.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use nix::errno::Errno;
use nix::libc;

use super::disk::{Disk, Ended, RETRIES_MAX, Request, Rest};

/// The index of the memory that is registered.
const MEMORY: u16 = 0;
/// How long a ring rests when the kernel is short of something, before it asks again.
const PAUSE: Duration = Duration::from_millis(1);

/// Requests in a ring.
pub(super) struct Uring {
    ring: IoUring,
    file: File,
    /// Whether the memory is registered.
    fixed: bool,
    /// Those in flight, by buffer.
    flying: Vec<Option<Rest>>,
    /// Entries so far, and by buffer how many there were before its last one: the kernel takes them
    /// in this order.
    pushed: u64,
    before: Vec<u64>,
    /// How often in a row the kernel was short of something.
    refusals: u32,
    /// Why it takes no entries any more.
    refused: Option<Errno>,
    /// The largest part of a request that goes out at once; smaller in tests.
    part_bytes_max: usize,
}

impl Uring {
    /// A ring for requests on memory, which must outlive it: at most `count` of them at a time.
    ///
    /// # Errors
    /// If the kernel does not allow it: it is too old, or a sandbox forbids it.
    pub(super) fn new(file: File, memory: NonNull<[u8]>, count: usize) -> Result<Self, Errno> {
        let entries = u32::try_from(count).map_err(|_| Errno::EINVAL)?;
        let entries = entries.next_power_of_two();
        // What ended is told when this thread calls the kernel: it does not interrupt its sealing.
        // Kernels before 5.19 do not know that.
        let ring = IoUring::builder().setup_coop_taskrun().build(entries);
        let ring = ring.or_else(|_| IoUring::new(entries));
        let ring = ring.map_err(|error| errno(&error))?;
        let vector = libc::iovec {
            iov_base: memory.as_ptr().cast(),
            iov_len: memory.len(),
        };
        // SAFETY: it names live memory that outlives the ring, as the caller promises.
        let registered = unsafe { ring.submitter().register_buffers(&[vector]) };
        // What it refuses for is the limit on locked memory: it works without, a little slower.
        let fixed = registered.is_ok();
        let mut flying = Vec::with_capacity(count);
        flying.resize_with(count, || None);
        let mut uring = Self {
            ring,
            file,
            fixed,
            flying,
            pushed: 0,
            before: vec![0; count],
            refusals: 0,
            refused: None,
            part_bytes_max: usize::MAX,
        };
        uring.try_out(memory)?;
        Ok(uring)
    }

    /// Sandboxes may allow a ring and forbid what is in it: makes a request of nothing.
    fn try_out(&mut self, memory: NonNull<[u8]>) -> Result<(), Errno> {
        let request = Request {
            write: false,
            buffer: 0,
            start: memory.cast(),
            bytes: super::BLOCK_BYTES,
            offset: 0,
        };
        self.flying[0] = Some(Rest::of(request));
        self.push(0);
        let answer = self.next_answer();
        self.flying[0] = None;
        match answer?.1 {
            // An empty file has nothing to read.
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Parts of at most so many bytes: for tests of what happens after the first.
    #[cfg(test)]
    pub(super) fn in_parts(mut self, bytes: usize) -> Self {
        self.part_bytes_max = bytes;
        self
    }

    /// Sends out what is left of a request.
    fn push(&mut self, buffer: usize) {
        self.before[buffer] = self.pushed;
        if self.refused.is_some() {
            return;
        }
        let rest = self.flying[buffer].as_ref().expect("a request is there");
        let part = rest.part();
        let fd = types::Fd(self.file.as_raw_fd());
        let bytes = part.bytes.min(self.part_bytes_max).min(1 << 30);
        #[allow(clippy::cast_possible_truncation)]
        let bytes = bytes as u32;
        let start = part.start.as_ptr();
        let entry = match (part.write, self.fixed) {
            (true, true) => opcode::WriteFixed::new(fd, start, bytes, MEMORY)
                .offset(part.offset)
                .build(),
            (true, false) => opcode::Write::new(fd, start, bytes)
                .offset(part.offset)
                .build(),
            (false, true) => opcode::ReadFixed::new(fd, start, bytes, MEMORY)
                .offset(part.offset)
                .build(),
            (false, false) => opcode::Read::new(fd, start, bytes)
                .offset(part.offset)
                .build(),
        };
        let entry = entry.user_data(buffer as u64);
        let mut queue = self.ring.submission();
        // SAFETY: the caller of `start` vouches for the buffer until the request has ended; the
        // file is open as long as the ring.
        let pushed = unsafe { queue.push(&entry) };
        pushed.expect("the ring has room for a request of each buffer");
        drop(queue);
        self.pushed += 1;
        // What is not taken now is taken by the next call that waits.
        let _ = self.ring.submit();
    }

    /// An answer of the kernel, with its buffer, if there is one.
    fn answer(&mut self) -> Option<(usize, Result<usize, Errno>)> {
        let entry = self.ring.completion().next()?;
        let answer = entry.result();
        #[allow(clippy::cast_possible_truncation)]
        let buffer = entry.user_data() as usize;
        let moved = usize::try_from(answer).map_err(|_| Errno::from_raw(-answer));
        Some((buffer, moved))
    }

    /// The next answer of the kernel; an error if it takes no entries any more.
    fn next_answer(&mut self) -> Result<(usize, Result<usize, Errno>), Errno> {
        loop {
            if let Some(answer) = self.answer() {
                return Ok(answer);
            }
            if let Some(errno) = self.refused {
                return Err(errno);
            }
            match self.ring.submit_and_wait(1).map_err(|error| errno(&error)) {
                Ok(_) => self.refusals = 0,
                // A signal came; the requests are still there.
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOMEM)
                    if self.refusals < RETRIES_MAX =>
                {
                    self.refusals += 1;
                    thread::sleep(PAUSE);
                }
                // For good: entries that it has not taken would be taken by a later call.
                Err(errno) => self.refused = Some(errno),
            }
        }
    }

    /// A request that waits for a part which the kernel has not taken.
    fn left(&mut self) -> Option<usize> {
        let taken = self.pushed - self.ring.submission().len() as u64;
        let mut flying = self.flying.iter().zip(&self.before);
        flying.position(|(flying, before)| flying.is_some() && *before >= taken)
    }

    /// Takes an answer in. `None`: the request goes on.
    fn take(&mut self, buffer: usize, answer: Result<usize, Errno>) -> Option<Ended> {
        let rest = self.flying[buffer].as_mut();
        let result = rest.expect("the kernel answers once").answer(answer);
        let Some(result) = result else {
            self.push(buffer);
            return None;
        };
        self.flying[buffer] = None;
        Some(Ended { buffer, result })
    }
}

impl Disk for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn room(&self) -> usize {
        self.flying.len()
    }

    unsafe fn start(&mut self, request: Request) {
        let before = self.flying[request.buffer].replace(Rest::of(request));
        assert!(before.is_none(), "one request for each buffer");
        self.push(request.buffer);
    }

    fn poll(&mut self) -> Option<Ended> {
        loop {
            let (buffer, answer) = self.answer()?;
            if let Some(ended) = self.take(buffer, answer) {
                return Some(ended);
            }
        }
    }

    fn finish(&mut self) -> Ended {
        assert!(
            self.flying.iter().any(Option::is_some),
            "a request is in flight"
        );
        loop {
            match self.next_answer() {
                Ok((buffer, answer)) => {
                    if let Some(ended) = self.take(buffer, answer) {
                        return ended;
                    }
                }
                Err(errno) => match self.left() {
                    Some(buffer) => {
                        self.flying[buffer] = None;
                        let result = Err(errno);
                        return Ended { buffer, result };
                    }
                    // What it has taken ends without a call.
                    None => thread::sleep(PAUSE),
                },
            }
        }
    }
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
