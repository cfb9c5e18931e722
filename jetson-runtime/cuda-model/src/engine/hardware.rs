//! What all streams of the device share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::failure::Failure;
use super::link::Link;

/// The link, the failures, and how much the streams are shaken.
#[derive(Debug)]
pub(crate) struct Hardware {
    pub(crate) link: Link,
    pub(crate) failure: Arc<Failure>,
    jitter_seed: AtomicU64,
    jitter_ns_max: AtomicU64,
}

impl Hardware {
    /// A device with so many copy engines.
    pub(crate) fn new(engines: usize) -> Self {
        Self {
            link: Link::new(engines),
            failure: Arc::default(),
            jitter_seed: AtomicU64::new(0),
            jitter_ns_max: AtomicU64::new(0),
        }
    }

    /// Delays every command by up to so many nanoseconds, by the seed. Streams then complete in
    /// other orders from seed to seed.
    pub(crate) fn shake(&self, seed: u64, ns_max: u64) {
        self.jitter_seed.store(seed, Ordering::Relaxed);
        self.jitter_ns_max.store(ns_max, Ordering::Relaxed);
    }

    /// Sleeps before the command of this number in the stream of this number.
    pub(crate) fn jitter(&self, stream: u32, number: u64) {
        let ns_max = self.jitter_ns_max.load(Ordering::Relaxed);
        if ns_max == 0 {
            return;
        }
        let seed = self.jitter_seed.load(Ordering::Relaxed);
        let place = u64::from(stream) << 40 ^ number;
        let ns = mix(seed ^ mix(place)) % (ns_max + 1);
        thread::sleep(Duration::from_nanos(ns));
    }
}

/// Scatters a number over all 64 bits (the finalizer of SplitMix64).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
