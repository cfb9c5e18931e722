//! Measuring a directory: how fast spilling to it is, how, and what limits it.
//!
//! The disk alone and what is made of it are measured in turns, and compared turn by turn: others
//! who use the machine then slow both down alike.
//!
//! Limits: what is measured is the first tens of megabytes, less where a disk has no more. A drive
//! with a fast cache in front of slow cells is slower in the long run, and a hot one too.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use nix::time::ClockId;

use super::BLOCK_BYTES;
use super::buffers::Buffers;
use super::channel::Channel;
use super::file::{SpillFile, what_limits};
use super::options::{REQUEST_BYTES, SEALERS_MAX, StorageOptions, Tuning};
use super::pipeline::BlockCopy;
use super::raw::{Raw, cpu_time, seal_rates};
use super::sealer::Sealer;
use super::seals::Seals;
use crate::error::RuntimeError;
use crate::memory;
use crate::scale::to_usize;

/// The file, at most.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The file, at least: a copy is a large request then.
const FILE_BYTES_MIN: u64 = 4 << 20;
/// Requests among which the best is looked for. Larger ones are hardly faster, and their buffers
/// are memory that is wanted elsewhere.
const REQUESTS: [u32; 3] = [128 << 10, 256 << 10, REQUEST_BYTES];
/// A request that is so much of the fastest one's rate is as good: small ones are spread better.
const AS_GOOD: f64 = 0.95;
/// How often each request is tried, in turns; the best counts, for disturbances only slow down.
const TRIES: u32 = 2;
/// Turns of the disk alone and what is made of it.
const TURNS: u32 = 5;
/// The clock of what all threads of this process compute.
const CPU: ClockId = ClockId::CLOCK_PROCESS_CPUTIME_ID;
/// Copies of one block, for the latency.
const SMALL_COPIES: u32 = 32;
/// Sealing must be so much faster than the disk, for the same thread makes the requests.
const AMPLE: f64 = 1.5;
/// What part of the time the disk alone is measured to find out how many threads should seal.
const SHARE_FOR_SEALERS: u32 = 8;
/// What is so near to the disk alone is limited by it.
const AT_THE_DISK: f64 = 0.9;
/// Who computes for so much of the time has no time left to wait for the disk.
const BUSY: f64 = 0.75;

/// What spilling to a directory achieves. Pairs are out and in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StorageProbe {
    /// How requests reach the disk: `io_uring` or `pread/pwrite`.
    pub path: &'static str,
    /// The largest request: as asked for, at most a copy; or the smallest that is nearly as fast as
    /// any.
    pub request_bytes: u32,
    /// Bytes of a copy that was measured.
    pub copy_bytes: u64,
    /// Threads that seal beside each engine: as asked for, or as many as it takes to keep up with
    /// the disk, if there are cores for them.
    pub sealers: u32,
    /// Bytes per second, sealed or checked as asked for.
    pub bps: [f64; 2],
    /// Nanoseconds of a copy of one block.
    pub latency_ns: [u64; 2],
    /// Bytes per second of the disk: requests of the same size and as many in flight, through as
    /// much memory, without a pause and with nothing in between; new bytes each, as `dd` writes.
    pub raw_bps: [f64; 2],
    /// `bps` over `raw_bps`, of the same moments.
    pub over_raw: [f64; 2],
    /// CPU time of the process over the time of the copies: all that they take, and what else the
    /// process computes meanwhile.
    pub busy: [f64; 2],
    /// Bytes per second that one core copies and seals, or opens and copies, without a disk.
    pub seal_bps: [f64; 2],
    /// What limits the directory, in words.
    pub limits: Vec<&'static str>,
}

impl StorageProbe {
    /// What limits the rates, in a word.
    #[must_use]
    pub fn limited_by(&self) -> [&'static str; 2] {
        std::array::from_fn(|way| match (self.over_raw[way], self.busy[way]) {
            (over_raw, _) if over_raw >= AT_THE_DISK => "disk",
            (_, busy) if busy >= BUSY * f64::from(1 + self.sealers) => "CPU",
            _ => "latency",
        })
    }

    /// What suits the directory.
    #[must_use]
    pub const fn tuning(&self) -> Tuning {
        Tuning {
            request_bytes: self.request_bytes,
            sealers: self.sealers,
        }
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Bytes of the file.
    file: u64,
}

impl Extent {
    /// For a disk that has so much free: half of it at most.
    fn within(free: u64) -> Self {
        let file = (free / 2).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
        Self {
            file: 1 << file.ilog2(),
        }
    }

    /// What copies write and read. What lies behind is for the disk alone, whose contents have no
    /// seals.
    const fn copied(self) -> u64 {
        self.file / 2
    }

    const fn behind(self) -> Range<u64> {
        self.copied()..self.file
    }

    /// Bytes of a copy: 8 MiB is about what an engine moves at once.
    fn copy(self) -> usize {
        to_usize(self.file / 8)
    }
}

/// Measures a directory; takes about `budget`, and 64 MiB of space for that time, or less where
/// half of what is free is less: 4 MiB at least.
///
/// # Errors
/// If the directory cannot be used, is in memory and that is not accepted, or lacks the space.
pub fn probe(
    directory: &Path,
    options: &StorageOptions,
    budget: Duration,
) -> Result<StorageProbe, RuntimeError> {
    // Whoever cannot be asked cannot be used either, which is told below.
    let free = statvfs(directory).map(|disk| memory::disk_available(&disk));
    let extent = Extent::within(free.unwrap_or(u64::MAX));
    let file = SpillFile::new(directory, extent.file, options.memory_backed)?;
    file.claim(0, extent.file)?;
    let seals = Arc::new(Seals::new(options.integrity, extent.file)?);
    let most = u32::try_from(extent.copy()).unwrap_or(u32::MAX);
    let options = &StorageOptions {
        request_bytes: options.request_bytes.map(|bytes| bytes.min(most)),
        ..*options
    };
    let mut copies = Copies::new(&file, &seals, options, extent)?;
    // Once over everything, so that no block is new to the file system when time counts.
    for slot in (0..extent.file).step_by(extent.copy()) {
        copies.copy(true, slot, extent.copy())?;
    }
    let alone = Sealer::new(&seals, 0).map_err(RuntimeError::system("seal without threads"));
    let seal_bps = seal_rates(&mut alone?, options.request());
    let sealers = match options.sealers {
        Some(threads) => threads,
        None => {
            let mut raw = Raw::new(&file, options, extent.copy())?;
            let slice = budget / (2 * SHARE_FOR_SEALERS);
            let raw_bps = [
                raw.rate(true, extent.behind(), slice)?,
                raw.rate(false, extent.behind(), slice)?,
            ];
            enough_sealers(raw_bps, seal_bps, cores())
        }
    };
    let mut options = StorageOptions {
        sealers: Some(sealers),
        ..*options
    };
    let request_bytes = match options.request_bytes {
        Some(bytes) => bytes,
        None => best_request(&file, &seals, &options, extent, budget / 2)?,
    };
    options.request_bytes = Some(request_bytes);
    copies = Copies::new(&file, &seals, &options, extent)?;
    let latency_ns = [copies.latency(true)?, copies.latency(false)?];
    // The disk is what any path to it could show.
    let raw = Raw::new(&file, &options, extent.copy())?;
    let turns = in_turns(&mut copies, raw, budget / 2)?;
    let each = |of: &dyn Fn(&Turn) -> f64| turns.each_ref().map(|turns| median(turns, of));
    Ok(StorageProbe {
        path: copies.channel.path(),
        request_bytes,
        copy_bytes: extent.copy() as u64,
        sealers,
        bps: each(&|turn| turn.bps),
        latency_ns,
        raw_bps: each(&|turn| turn.raw_bps),
        over_raw: each(&|turn| turn.bps / turn.raw_bps),
        busy: each(&|turn| turn.busy),
        seal_bps,
        limits: what_limits(&file),
    })
}

/// The smallest request that is nearly as fast as the fastest, out and in taken together.
fn best_request(
    file: &SpillFile,
    seals: &Arc<Seals>,
    options: &StorageOptions,
    extent: Extent,
    budget: Duration,
) -> Result<u32, RuntimeError> {
    let mut found = REQUESTS.map(|bytes| (bytes, [0.0_f64; 2]));
    let slice = budget.div_f64(2.0 * f64::from(TRIES) * REQUESTS.len() as f64);
    for _ in 0..TRIES {
        for (request_bytes, best) in &mut found {
            let options = StorageOptions {
                request_bytes: Some(*request_bytes),
                ..*options
            };
            let mut copies = Copies::new(file, seals, &options, extent)?;
            for (best, write) in best.iter_mut().zip([true, false]) {
                *best = best.max(copies.rate(write, slice)?);
            }
        }
    }
    let found = found.map(|(bytes, [out, r#in])| (bytes, 1.0 / (1.0 / out + 1.0 / r#in)));
    let best = found.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let smallest = found.iter().find(|(_, rate)| *rate >= AS_GOOD * best);
    Ok(smallest.map_or(REQUEST_BYTES, |(bytes, _)| *bytes))
}

/// How many threads must seal beside an engine to keep up with the disk, out and in.
fn enough_sealers(raw_bps: [f64; 2], seal_bps: [f64; 2], cores: usize) -> u32 {
    let spare = u32::try_from(cores.saturating_sub(1)).unwrap_or(u32::MAX);
    let most = SEALERS_MAX.min(spare);
    let keeps_up = |sealers: &u32| {
        let mut ways = raw_bps.iter().zip(seal_bps);
        ways.all(|(raw, seal)| f64::from(1 + sealers) * seal >= AMPLE * raw)
    };
    (0..most).find(keeps_up).unwrap_or(most)
}

/// Cores that this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// One measurement of both.
struct Turn {
    raw_bps: f64,
    bps: f64,
    busy: f64,
}

/// Measures the disk and the copies in turns: out and in.
fn in_turns(
    copies: &mut Copies,
    mut raw: Raw,
    budget: Duration,
) -> Result<[Vec<Turn>; 2], RuntimeError> {
    let slice = budget / (4 * TURNS);
    let mut turns = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (turns, write) in turns.iter_mut().zip([true, false]) {
            let raw_bps = raw.rate(write, copies.extent.behind(), slice)?;
            let (start, before) = (Instant::now(), cpu_time(CPU));
            let bps = copies.rate(write, slice)?;
            let busy = (cpu_time(CPU) - before).as_secs_f64() / start.elapsed().as_secs_f64();
            turns.push(Turn { raw_bps, bps, busy });
        }
    }
    Ok(turns)
}

fn median(turns: &[Turn], of: &dyn Fn(&Turn) -> f64) -> f64 {
    let mut values: Vec<f64> = turns.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Copies between a buffer and the file. The buffer is mapped, so that nothing of it stays with the
/// program that has measured: an allocator keeps what large blocks it was given back.
struct Copies {
    channel: Channel,
    buffer: Buffers,
    extent: Extent,
}

impl Copies {
    fn new(
        file: &SpillFile,
        seals: &Arc<Seals>,
        options: &StorageOptions,
        extent: Extent,
    ) -> Result<Self, RuntimeError> {
        let buffer = Buffers::new(1, extent.copy());
        let mut buffer = buffer.map_err(RuntimeError::system("take memory to measure with"))?;
        buffer.slice(0, extent.copy()).fill(0x5a);
        Ok(Self {
            channel: Channel::new(file, seals, options)?,
            buffer,
            extent,
        })
    }

    fn copy(&mut self, write: bool, slot: u64, length: usize) -> Result<(), RuntimeError> {
        assert!(length <= self.extent.copy(), "the buffer is as long");
        let buffer = self.buffer.pointer(0);
        let copied = match write {
            // SAFETY: the buffer is this one's own and as long; the file is the probe's own.
            true => unsafe { self.channel.write(slot, buffer, length) },
            // SAFETY: as above.
            false => unsafe { self.channel.read(slot, buffer, length) },
        };
        copied.map_err(|error| RuntimeError::system("measure the spill file")(error.errno))
    }

    /// Bytes per second of copies that walk through the file, for about so long. As engines do, it
    /// announces a copy before the one before it is made.
    fn rate(&mut self, write: bool, time: Duration) -> Result<f64, RuntimeError> {
        let start = Instant::now();
        let (bytes, all) = (self.extent.copy(), self.extent.copied());
        let slot = |copy: u64| copy * bytes as u64 % all;
        let mut made = 0;
        self.announce(write, slot(made));
        loop {
            let more = start.elapsed() < time;
            if more {
                self.announce(write, slot(made + 1));
            }
            self.copy(write, slot(made), bytes)?;
            made += 1;
            if !more {
                break;
            }
        }
        let copied = made as f64 * bytes as f64;
        Ok(copied / start.elapsed().as_secs_f64())
    }

    fn announce(&mut self, write: bool, slot: u64) {
        let copy = BlockCopy {
            write,
            slot,
            memory: self.buffer.pointer(0),
            bytes: self.extent.copy(),
        };
        // SAFETY: the buffer is this one's own and as long; the file is the probe's own, and
        // nothing else is copied before.
        let taken = unsafe { self.channel.announce(copy) };
        assert!(taken, "there is room for two copies");
    }

    /// Nanoseconds of a copy of one block.
    fn latency(&mut self, write: bool) -> Result<u64, RuntimeError> {
        let start = Instant::now();
        for turn in 0..SMALL_COPIES {
            self.copy(write, u64::from(turn) * 3 * BLOCK_BYTES as u64, BLOCK_BYTES)?;
        }
        let ns = (start.elapsed() / SMALL_COPIES).as_nanos();
        Ok(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_is_measured_by_a_small_file() {
        let file = |free| Extent::within(free).file >> 20;
        let mib = [0_u64, 7, 8, 20, 100, 127, 128, 1 << 20].map(|mib| mib << 20);
        assert_eq!(mib.map(file), [4, 4, 4, 8, 32, 32, 64, 64]);
        assert_eq!(file(u64::MAX), 64);
        assert!(Extent::within(0).copy() >= REQUEST_BYTES as usize);
    }

    #[test]
    fn as_many_threads_seal_as_keep_up_with_the_disk_and_have_a_core() {
        let sealers = |raw: f64, cores| enough_sealers([raw, 1.0], [4.0, 4.0], cores);
        // A core that seals 4 GB/s keeps up with 2.66, two with 5.33.
        assert_eq!([2.6, 2.7, 5.4].map(|raw| sealers(raw, 8)), [0, 1, 2]);
        assert_eq!(
            enough_sealers([1.0, 5.0], [4.0, 4.0], 8),
            1,
            "in counts, too"
        );
        assert_eq!([1, 2, 3].map(|cores| sealers(6.0, cores)), [0, 1, 2]);
        assert_eq!(sealers(1e3, 64), SEALERS_MAX);
    }
}
