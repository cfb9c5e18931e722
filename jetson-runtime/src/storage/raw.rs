//! What a copy is made of, each alone, for the probe: the disk without seals, and seals without a
//! disk.

use std::collections::VecDeque;
use std::ops::Range;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::BLOCK_BYTES;
use super::buffers::Buffers;
use super::disk::{Disk, Request};
use super::file::SpillFile;
use super::open::open;
use super::options::{IoPath, StorageOptions};
use super::sealer::Sealer;
use crate::error::RuntimeError;

/// Bytes that are sealed at once, more than any core's own cache.
const SEALED_BYTES: usize = 8 << 20;
/// How often; the fastest counts, for disturbances only slow down.
const ROUNDS: u32 = 3;

/// The disk alone: what a program like `dd` gets from it that does nothing else.
///
/// What is written was made just before, as it is in any copy: on the disk of a virtual machine
/// writes of the same bytes again and again were faster than writes of new ones.
///
/// Its requests walk through as much memory as a copy does. A disk that is a program, as that of a
/// virtual machine is, is faster with a few buffers that stay in a cache, and no copy of different
/// bytes could have that rate.
pub(super) struct Raw {
    // Ends before the buffers that its requests use.
    disk: Box<dyn Disk>,
    buffers: Buffers,
    /// Requests in flight at most.
    depth: u64,
}

impl Raw {
    /// With as many requests in flight, of the same size, through memory of `bytes` bytes, by the
    /// fastest path that there is.
    pub(super) fn new(
        file: &SpillFile,
        options: &StorageOptions,
        bytes: usize,
    ) -> Result<Self, RuntimeError> {
        let fastest = StorageOptions {
            path: IoPath::Auto,
            ..*options
        };
        let count = (bytes / options.request()).max(options.in_flight());
        let buffers = Buffers::new(count, options.request())
            .map_err(RuntimeError::system("take buffers to measure the disk"))?;
        Ok(Self {
            disk: open(file, &fastest, buffers.all(), count)?,
            buffers,
            depth: options.in_flight() as u64,
        })
    }

    /// Bytes per second of requests that walk through a range of the file, for about so long.
    pub(super) fn rate(
        &mut self,
        write: bool,
        range: Range<u64>,
        time: Duration,
    ) -> Result<f64, RuntimeError> {
        let length = range.end - range.start;
        let begin = Instant::now();
        let request_bytes = self.buffers.bytes();
        let (mut started, mut ended) = (0_u64, 0_u64);
        let mut result = Ok(());
        let mut free: VecDeque<usize> = (0..self.buffers.count()).collect();
        loop {
            let more = started == 0 || (result.is_ok() && begin.elapsed() < time);
            if more && started - ended < self.depth {
                // The one that has rested for the longest.
                let buffer = free
                    .pop_front()
                    .expect("there are more than requests in flight");
                if write {
                    self.buffers
                        .slice(buffer, request_bytes)
                        .fill(started.to_le_bytes()[0]);
                }
                let request = Request {
                    write,
                    buffer,
                    start: self.buffers.pointer(buffer),
                    bytes: request_bytes,
                    offset: range.start + started * request_bytes as u64 % length,
                };
                // SAFETY: the buffer is as long, and nobody else has it until it is free again.
                unsafe { self.disk.start(request) };
                started += 1;
            } else if ended < started {
                let end = self.disk.finish();
                result = result.and(end.result);
                free.push_back(end.buffer);
                ended += 1;
            } else {
                break;
            }
        }
        result.map_err(RuntimeError::system("measure the disk"))?;
        Ok((ended * request_bytes as u64) as f64 / begin.elapsed().as_secs_f64())
    }
}

/// Bytes per second that a sealer copies and seals, and opens and copies; of this thread's time.
pub(super) fn seal_rates(sealer: &mut Sealer, request: usize) -> [f64; 2] {
    let request = request.min(SEALED_BYTES);
    let mut plain = vec![0x5a_u8; SEALED_BYTES];
    let mut sealed = vec![0_u8; SEALED_BYTES];
    let blocks = request / BLOCK_BYTES;
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for (best, write) in best.iter_mut().zip([true, false]) {
            let before = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
            let parts = plain
                .chunks_exact_mut(request)
                .zip(sealed.chunks_exact_mut(request));
            for (part, (plain, sealed)) in parts.enumerate() {
                let first = (part * blocks) as u64;
                let plain = NonNull::from(plain).cast();
                let sealed = NonNull::from(sealed);
                if write {
                    // SAFETY: both are borrowed, and one is as long as the other.
                    unsafe { sealer.seal(first, plain, request, sealed, || ()) };
                } else {
                    // SAFETY: as above.
                    let opened = unsafe { sealer.open(first, sealed, plain, request, || ()) };
                    opened.expect("what was sealed just now is intact");
                }
            }
            let took = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID) - before;
            *best = best.min(took.as_secs_f64());
        }
    }
    let bytes = SEALED_BYTES / request * request;
    best.map(|seconds| bytes as f64 / seconds.max(1e-9))
}

/// What was computed so far.
pub(super) fn cpu_time(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
