//! Measuring a directory: how fast spilling to it is, how, and what limits it.
//!
//! Limits: what is measured is the first tens of megabytes. A drive with a fast cache in front of
//! slow cells is slower in the long run, and a hot one too.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::BLOCK_BYTES;
use super::buffers::Buffers;
use super::channel::Channel;
use super::disk::{Disk, Request};
use super::file::{SpillFile, what_limits};
use super::options::{REQUEST_BYTES, StorageOptions};
use super::plain::Plain;
use super::seals::Seals;
use crate::error::RuntimeError;

/// The file that is written and read.
const FILE_BYTES: u64 = 64 << 20;
/// Bytes of a copy, about what an engine moves at once.
const COPY_BYTES: usize = 8 << 20;
/// Requests of the comparison with nothing in between.
const RAW_REQUEST_BYTES: usize = 1 << 20;
/// Requests among which the best is looked for.
const REQUESTS: [u32; 5] = [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// A request that is so much of the fastest one's rate is as good: small ones are spread better.
const AS_GOOD: f64 = 0.95;
/// Copies of one block, for the latency.
const SMALL_COPIES: u32 = 32;

/// What spilling to a directory achieves.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StorageProbe {
    /// How requests reach the disk: `io_uring` or `pread/pwrite`.
    pub path: &'static str,
    /// The largest request: as asked for, or the smallest that is nearly as fast as any.
    pub request_bytes: u32,
    /// Bytes per second out and in, sealed or checked as asked for.
    pub bps: [f64; 2],
    /// Nanoseconds of a copy of one block, out and in.
    pub latency_ns: [u64; 2],
    /// Bytes per second out and in with direct requests of 1 MiB, one after the other, and nothing
    /// in between: what the disk gives to a program like `dd`.
    pub raw_bps: [f64; 2],
    /// What limits it, in words.
    pub limits: Vec<&'static str>,
}

/// Measures a directory; takes about `budget`, and 64 MiB of space for that time.
///
/// # Errors
/// If the directory cannot be used, is in memory and that is not accepted, or lacks the space.
pub fn probe(
    directory: &Path,
    options: &StorageOptions,
    budget: Duration,
) -> Result<StorageProbe, RuntimeError> {
    let file = SpillFile::new(directory, FILE_BYTES, options.memory_backed)?;
    file.claim(0, FILE_BYTES)?;
    let seals = Arc::new(Seals::new(options.integrity, FILE_BYTES)?);
    let mut copies = Copies::new(&file, &seals, options)?;
    // Once over everything, so that no block is new to the file system when time counts.
    for slot in (0..FILE_BYTES).step_by(COPY_BYTES) {
        copies.copy(true, slot, COPY_BYTES)?;
    }
    let request_bytes = match options.request_bytes {
        Some(bytes) => bytes,
        None => best_request(&file, &seals, options, budget / 2)?,
    };
    let options = StorageOptions {
        request_bytes: Some(request_bytes),
        ..*options
    };
    copies = Copies::new(&file, &seals, &options)?;
    let bps = copies.rates(budget / 8)?;
    let mut latency_ns = [0; 2];
    for (latency, write) in latency_ns.iter_mut().zip([true, false]) {
        let start = Instant::now();
        for turn in 0..SMALL_COPIES {
            copies.copy(write, u64::from(turn) * 3 * BLOCK_BYTES as u64, BLOCK_BYTES)?;
        }
        let ns = start.elapsed() / SMALL_COPIES;
        *latency = u64::try_from(ns.as_nanos()).unwrap_or(u64::MAX);
    }
    let raw_bps = raw(&file, budget / 4)?;
    Ok(StorageProbe {
        path: copies.channel.path(),
        request_bytes,
        bps,
        latency_ns,
        raw_bps,
        limits: what_limits(&file),
    })
}

/// The smallest request that is nearly as fast as the fastest, out and in taken together.
fn best_request(
    file: &SpillFile,
    seals: &Arc<Seals>,
    options: &StorageOptions,
    budget: Duration,
) -> Result<u32, RuntimeError> {
    let mut found = Vec::new();
    // Each is measured in both directions.
    let slice = budget.div_f64(2.0 * REQUESTS.len() as f64);
    for request_bytes in REQUESTS {
        let options = StorageOptions {
            request_bytes: Some(request_bytes),
            ..*options
        };
        let [out, r#in] = Copies::new(file, seals, &options)?.rates(slice)?;
        found.push((request_bytes, 1.0 / (1.0 / out + 1.0 / r#in)));
    }
    let best = found.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let smallest = found.iter().find(|(_, rate)| *rate >= AS_GOOD * best);
    Ok(smallest.map_or(REQUEST_BYTES, |(bytes, _)| *bytes))
}

/// Copies between a buffer and the file.
struct Copies {
    channel: Channel,
    bytes: Vec<u8>,
}

impl Copies {
    fn new(
        file: &SpillFile,
        seals: &Arc<Seals>,
        options: &StorageOptions,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            channel: Channel::new(file, seals, options)?,
            bytes: vec![0x5a; COPY_BYTES],
        })
    }

    fn copy(&mut self, write: bool, slot: u64, length: usize) -> Result<(), RuntimeError> {
        let buffer = NonNull::from(&mut self.bytes[..length]).cast();
        let copied = match write {
            // SAFETY: the buffer is this one's own and as long; the file is the probe's own.
            true => unsafe { self.channel.write(slot, buffer, length) },
            // SAFETY: as above.
            false => unsafe { self.channel.read(slot, buffer, length) },
        };
        copied.map_err(|error| RuntimeError::system("measure the spill file")(error.errno))
    }

    /// Bytes per second out and in, each measured for about so long.
    fn rates(&mut self, time: Duration) -> Result<[f64; 2], RuntimeError> {
        let mut rate = |write| rate_of(time, COPY_BYTES, |slot| self.copy(write, slot, COPY_BYTES));
        Ok([rate(true)?, rate(false)?])
    }
}

/// Bytes per second of copies that walk through the file, for about so long.
fn rate_of(
    time: Duration,
    bytes: usize,
    mut copy: impl FnMut(u64) -> Result<(), RuntimeError>,
) -> Result<f64, RuntimeError> {
    let start = Instant::now();
    let mut copies = 0_u64;
    while copies == 0 || start.elapsed() < time {
        copy(copies * bytes as u64 % FILE_BYTES)?;
        copies += 1;
    }
    Ok(copies as f64 * bytes as f64 / start.elapsed().as_secs_f64())
}

/// The disk with nothing in between.
fn raw(file: &SpillFile, time: Duration) -> Result<[f64; 2], RuntimeError> {
    let failed = RuntimeError::system("measure the disk");
    let handle = file.file.try_clone();
    let handle = handle.map_err(|_| failed(nix::errno::Errno::EMFILE))?;
    let mut disk = Plain::new(handle, 1);
    let buffers = Buffers::new(1, RAW_REQUEST_BYTES).map_err(&failed)?;
    let mut rates = [0.0; 2];
    for (rate, write) in rates.iter_mut().zip([true, false]) {
        *rate = rate_of(time / 2, RAW_REQUEST_BYTES, |offset| {
            let request = Request {
                write,
                buffer: 0,
                start: buffers.pointer(0),
                bytes: RAW_REQUEST_BYTES,
                offset,
            };
            // SAFETY: the buffer is as long, and nobody else has it.
            unsafe { disk.start(request) };
            disk.finish().result.map_err(&failed)
        })?;
    }
    Ok(rates)
}
