//! Copy engines: what a copy between host and device takes.
//!
//! A device with one copy engine does one copy at a time; one with more does one in each
//! direction. Without a throttle copies are as fast as this machine copies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Sleeping is not more precise than this; what is shorter is spent spinning.
const SPIN_MAX: Duration = Duration::from_micros(60);

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    ToHost,
}

/// The engines, and what slows them.
#[derive(Debug)]
pub(crate) struct Link {
    /// When each engine is free again.
    engines: Vec<Mutex<Instant>>,
    /// Bytes per second by direction; 0 for no throttle.
    rates: [AtomicU64; 2],
    latency_ns: AtomicU64,
}

impl Link {
    /// A link with so many copy engines, at least 1; more than 2 are of no use.
    pub(crate) fn new(engines: usize) -> Self {
        let engines = (0..engines.clamp(1, 2)).map(|_| Mutex::new(Instant::now()));
        Self {
            engines: engines.collect(),
            rates: [AtomicU64::new(0), AtomicU64::new(0)],
            latency_ns: AtomicU64::new(0),
        }
    }

    /// Bytes per second in each direction (0: not throttled), and nanoseconds for each copy.
    pub(crate) fn throttle(&self, to_device: u64, to_host: u64, latency_ns: u64) {
        self.rates[0].store(to_device, Ordering::Relaxed);
        self.rates[1].store(to_host, Ordering::Relaxed);
        self.latency_ns.store(latency_ns, Ordering::Relaxed);
    }

    /// Does a copy when its engine is free, and takes as long as the link does.
    pub(crate) fn pass(&self, direction: Direction, bytes: u64, copy: impl FnOnce()) {
        let index = usize::from(direction == Direction::ToHost);
        let engine = &self.engines[index.min(self.engines.len() - 1)];
        let mut free_at = engine.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        copy();
        let rate = self.rates[index].load(Ordering::Relaxed);
        let latency = Duration::from_nanos(self.latency_ns.load(Ordering::Relaxed));
        let moving = match rate {
            0 => Duration::ZERO,
            rate => nanoseconds(u128::from(bytes) * 1_000_000_000 / u128::from(rate)),
        };
        if moving + latency == Duration::ZERO {
            return;
        }
        // What sleeping too long cost is given back by the next copy, if it follows at once.
        let slack = start.saturating_duration_since(*free_at) < SPIN_MAX * 4;
        let begin = if slack { *free_at } else { start };
        *free_at = begin + latency + moving;
        sleep_until(*free_at);
    }
}

fn nanoseconds(n: u128) -> Duration {
    Duration::from_nanos(u64::try_from(n).unwrap_or(u64::MAX))
}

/// Blocks until then, without using the processor for long.
pub(crate) fn sleep_until(then: Instant) {
    loop {
        let left = then.saturating_duration_since(Instant::now());
        match left {
            Duration::ZERO => return,
            left if left > SPIN_MAX => thread::sleep(left - SPIN_MAX),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttled_copy_takes_at_least_its_time() {
        let link = Link::new(2);
        link.throttle(0, 1_000_000, 1_000_000);
        let start = Instant::now();
        for _ in 0..3 {
            link.pass(Direction::ToHost, 2_000, || ());
        }
        // 3 ms each; a little may be given back.
        assert!(start.elapsed() > Duration::from_millis(8), "{start:?}");
    }

    #[test]
    fn one_engine_takes_turns_and_two_do_not() {
        for (engines, one_at_a_time) in [(1, true), (2, false)] {
            let link = Link::new(engines);
            let lock = std::sync::atomic::AtomicU64::new(0);
            let seen_together = std::sync::atomic::AtomicBool::new(false);
            let copy = || {
                lock.fetch_add(1, Ordering::SeqCst);
                for _ in 0..50 {
                    thread::sleep(Duration::from_millis(1));
                    if lock.load(Ordering::SeqCst) > 1 {
                        seen_together.store(true, Ordering::SeqCst);
                        break;
                    }
                }
                lock.fetch_sub(1, Ordering::SeqCst);
            };
            thread::scope(|scope| {
                scope.spawn(|| link.pass(Direction::ToDevice, 1, copy));
                scope.spawn(|| link.pass(Direction::ToHost, 1, copy));
            });
            if one_at_a_time {
                assert!(!seen_together.load(Ordering::SeqCst));
            }
        }
    }
}
