//! Disks for random copies: one in memory that moves bytes as late, or as early, as a real one may,
//! and one that fails, tears and reorders the requests of another.

use std::ptr;
use std::sync::{Arc, Mutex};

use super::*;

/// Numbers that look random, the same ones for a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % bound as u64) as usize
    }

    /// Others, for somebody else.
    pub(super) fn another(&mut self) -> Self {
        Self::new(self.below(1 << 30) as u64)
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A file in memory. A request moves its bytes when it starts, or not before it ends.
pub(super) struct Memory {
    pub(super) file: Arc<Mutex<Vec<u8>>>,
    pub(super) random: Random,
    pub(super) room: usize,
    /// Requests under way, and whether their bytes are still to be moved.
    pub(super) flying: Vec<(Request, bool)>,
}

impl Memory {
    fn moved(&self, request: Request) {
        let mut file = self.file.lock().unwrap();
        let at = request.offset as usize;
        let (there, here) = (&mut file[at..at + request.bytes], request.start.as_ptr());
        match request.write {
            // SAFETY: who started the request vouches for its buffer until it has ended.
            true => unsafe { ptr::copy_nonoverlapping(here, there.as_mut_ptr(), there.len()) },
            // SAFETY: as above.
            false => unsafe { ptr::copy_nonoverlapping(there.as_ptr(), here, there.len()) },
        }
    }
}

impl Disk for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn room(&self) -> usize {
        self.room
    }

    unsafe fn start(&mut self, request: Request) {
        assert!(self.flying.len() < self.room, "there is room");
        assert!(request.bytes > 0 && request.bytes.is_multiple_of(4096));
        let late = self.random.one_in(2);
        if !late {
            self.moved(request);
        }
        self.flying.push((request, late));
    }

    fn poll(&mut self) -> Option<Ended> {
        match self.flying.is_empty() || self.random.one_in(2) {
            true => None,
            false => Some(self.finish()),
        }
    }

    fn finish(&mut self) -> Ended {
        let next = self.random.below(self.flying.len());
        let (request, late) = self.flying.swap_remove(next);
        if late {
            self.moved(request);
        }
        Ended {
            buffer: request.buffer,
            result: Ok(()),
        }
    }
}

/// Fails some of the requests that another disk makes: before, in the middle, or after they have
/// moved their bytes. What has ended is told in any order.
pub(super) struct Chaos {
    pub(super) inner: Box<dyn Disk>,
    pub(super) random: Random,
    /// One in so many requests fails; 0 for none.
    pub(super) one_in: usize,
    /// What requests under way will answer, by buffer.
    pub(super) doomed: [Option<Errno>; 64],
    pub(super) ended: Vec<Ended>,
}

const ERRORS: [Errno; 5] = [
    Errno::EIO,
    Errno::ENOSPC,
    Errno::EAGAIN,
    Errno::EINTR,
    Errno::EINVAL,
];

impl Chaos {
    fn take(&mut self, ended: Ended) {
        let result = self.doomed[ended.buffer].take().map_or(ended.result, Err);
        self.ended.push(Ended { result, ..ended });
    }
}

impl Disk for Chaos {
    fn name(&self) -> &'static str {
        "chaos"
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    unsafe fn start(&mut self, mut request: Request) {
        if self.one_in > 0 && self.random.one_in(self.one_in) {
            let errno = ERRORS[self.random.below(ERRORS.len())];
            let blocks = self.random.below(request.bytes / 4096 + 1);
            if blocks == 0 {
                let (buffer, result) = (request.buffer, Err(errno));
                self.ended.push(Ended { buffer, result });
                return;
            }
            request.bytes = blocks * 4096;
            self.doomed[request.buffer] = Some(errno);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.start(request) };
    }

    fn poll(&mut self) -> Option<Ended> {
        while let Some(ended) = self.inner.poll() {
            self.take(ended);
        }
        match self.ended.is_empty() || self.random.one_in(2) {
            true => None,
            false => Some(self.finish()),
        }
    }

    fn finish(&mut self) -> Ended {
        if self.ended.is_empty() {
            let ended = self.inner.finish();
            self.take(ended);
        }
        let next = self.random.below(self.ended.len());
        self.ended.swap_remove(next)
    }
}
