//! How fast bytes move between device and host.
//!
//! Large copies give the bandwidth, many small ones the time that each takes beside its bytes. Both
//! directions at once tell whether the link is duplex. The best of a few rounds counts, since
//! disturbances only slow down.

use serde::{Deserialize, Serialize};

use crate::cuda::device::{Device, Rest};
use crate::cuda::error::CudaError;
use crate::cuda::memory::{Kind, Memory};
use crate::cuda::prefetch::prefetch;
use crate::cuda::stream::{EventUse, Events, Stream};
use crate::failure::Direction;

/// A copy that is long enough to measure bandwidth by.
const LARGE: usize = 32 << 20;
/// A copy that is nothing but latency.
const SMALL: usize = 4096;
const SMALL_COPIES: usize = 64;
const ROUNDS: usize = 3;

/// Bytes per second, and nanoseconds; out is from the device to the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSpeed {
    /// Copies out, alone.
    pub out_bps: f64,
    /// Copies in, alone.
    pub in_bps: f64,
    /// Both directions at once, together.
    pub both_bps: f64,
    /// What a copy takes beside its bytes.
    pub copy_latency_ns: u64,
    /// Prefetches out and in, where they work.
    pub prefetch_bps: Option<[f64; 2]>,
}

impl LinkSpeed {
    /// Whether both directions at once move clearly more than the faster one alone.
    #[must_use]
    pub fn duplex(&self) -> bool {
        self.both_bps > 1.3 * self.out_bps.max(self.in_bps)
    }

    /// Measures.
    ///
    /// # Errors
    /// If a copy fails.
    pub fn measure(device: &Device, prefetches: bool) -> Result<Self, CudaError> {
        let bench = Bench::new(device)?;
        let out_s = bench.best(|| bench.alone(Direction::Out, LARGE, 1))?;
        let in_s = bench.best(|| bench.alone(Direction::In, LARGE, 1))?;
        let both_s = bench.best(|| bench.together())?;
        let small = |direction| bench.best(|| bench.alone(direction, SMALL, SMALL_COPIES));
        let small_s = small(Direction::Out)?.max(small(Direction::In)?) / SMALL_COPIES as f64;
        let bps = |seconds: f64| LARGE as f64 / seconds.max(1e-9);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let copy_latency_ns = (small_s * 1e9) as u64;
        Ok(Self {
            out_bps: bps(out_s),
            in_bps: bps(in_s),
            both_bps: 2.0 * bps(both_s),
            copy_latency_ns,
            prefetch_bps: match prefetches {
                true => Some(bench.prefetches()?.map(bps)),
                false => None,
            },
        })
    }
}

/// Streams, and memory to copy. Fields are dropped in this order.
struct Bench {
    streams: [Stream; 2],
    events: Events,
    on_device: Memory,
    pinned: Memory,
    device: Device,
}

impl Bench {
    fn new(device: &Device) -> Result<Self, CudaError> {
        Ok(Self {
            streams: [Stream::new(device)?, Stream::new(device)?],
            events: Events::new(device, 4, EventUse::Time)?,
            on_device: Memory::new(device, Kind::Plain, 2 * LARGE)?,
            pinned: Memory::new(device, Kind::Pinned, 2 * LARGE)?,
            device: device.clone(),
        })
    }

    fn best(&self, round: impl Fn() -> Result<f64, CudaError>) -> Result<f64, CudaError> {
        // The first one warms up.
        round()?;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            best = best.min(round()?);
        }
        Ok(best)
    }

    /// Enqueues copies in one direction, on a half of the memory that is its own.
    fn enqueue(&self, direction: Direction, bytes: usize, copies: usize) -> Result<(), CudaError> {
        let stream = &self.streams[direction.index()];
        let half = (direction.index() * LARGE) as u64;
        let (address, host) = (
            self.on_device.at(half, bytes),
            self.pinned.host(half, bytes),
        );
        for _ in 0..copies {
            match direction {
                // SAFETY: streams come to rest before the memory goes, and each direction has a
                // half of its own.
                Direction::Out => unsafe {
                    self.device.copy_out(host, address, bytes, stream.raw())
                },
                // SAFETY: as above.
                Direction::In => unsafe { self.device.copy_in(address, host, bytes, stream.raw()) },
            }?;
        }
        Ok(())
    }

    /// Seconds of copies in one direction.
    fn alone(&self, direction: Direction, bytes: usize, copies: usize) -> Result<f64, CudaError> {
        let stream = &self.streams[direction.index()];
        stream.record(self.events.get(0))?;
        self.enqueue(direction, bytes, copies)?;
        stream.record(self.events.get(1))?;
        stream.synchronize()?;
        self.events.seconds(0, 1)
    }

    /// Seconds of one large copy in each direction at once, to the end of the later one.
    fn together(&self) -> Result<f64, CudaError> {
        let [out, r#in] = &self.streams;
        out.record(self.events.get(0))?;
        r#in.wait(self.events.get(0))?;
        self.enqueue(Direction::Out, LARGE, 1)?;
        self.enqueue(Direction::In, LARGE, 1)?;
        out.record(self.events.get(1))?;
        r#in.record(self.events.get(2))?;
        out.synchronize()?;
        r#in.synchronize()?;
        Ok(self.events.seconds(0, 1)?.max(self.events.seconds(0, 2)?))
    }

    /// Seconds of a large prefetch out, and in.
    fn prefetches(&self) -> Result<[f64; 2], CudaError> {
        let memory = Memory::new(&self.device, Kind::Managed, LARGE)?;
        let _rest = Rest(&self.device);
        // Pages that nobody has written are made, not moved.
        let zeroes = vec![0; LARGE];
        // SAFETY: the memory is this function's, and nothing runs.
        unsafe { self.device.store(memory.at(0, LARGE), &zeroes) }?;
        let stream = &self.streams[0];
        let mut best = [f64::INFINITY; 2];
        for _ in 0..=ROUNDS {
            for to in [Direction::In, Direction::Out] {
                stream.record(self.events.get(0))?;
                // SAFETY: the range is managed, and the stream comes to rest before it goes.
                unsafe { prefetch(&self.device, memory.at(0, LARGE), LARGE, to, stream) }?;
                stream.record(self.events.get(1))?;
                stream.synchronize()?;
                let seconds = self.events.seconds(0, 1)?;
                best[to.index()] = best[to.index()].min(seconds);
            }
        }
        Ok(best)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.device.rest();
    }
}
