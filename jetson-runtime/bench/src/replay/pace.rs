//! Ops that take their time.
//!
//! Each op ends when its work is done and its scaled duration is over, whichever is later.
//! Deadlines are cumulative: an op that did not have to wait begins, on the device's clock, where
//! the one before it ended, so waking up late is made up for by the next op.
//!
//! Limits: an op whose checks take longer than its scaled duration takes that long. A replay is
//! then slower than predicted through no fault of the program; so the occupancy of each op is kept,
//! and the cost model can be asked again with it.

use std::thread;
use std::time::{Duration, Instant};

use lgm::skeleton::Skeleton;

/// How far the device's clock may lie behind: several times what a sleep oversleeps.
const LAG_MAX: Duration = Duration::from_millis(5);
/// Closer than this to a deadline the thread spins: a sleep ends some 50 µs late.
const SPIN_MAX: Duration = Duration::from_micros(150);

/// The clock of a device.
#[derive(Debug)]
pub(super) struct Pace {
    durations: Vec<Duration>,
    /// When the op before ended, on the device's clock.
    clock: Option<Instant>,
    /// How long each op took, the last time.
    pub(super) occupancy: Vec<Duration>,
}

impl Pace {
    pub(super) fn new(skeleton: &Skeleton, scale: f64) -> Self {
        let duration = |ns: u64| Duration::from_secs_f64(ns as f64 * 1e-9 * scale);
        let ops = skeleton.ops.iter();
        let durations: Vec<Duration> = ops.map(|op| duration(op.duration_ns)).collect();
        Self {
            occupancy: durations.clone(),
            durations,
            clock: None,
        }
    }

    /// Op `op` began at `began`, unless it did not have to wait; its work is done. Returns when its
    /// time is over.
    pub(super) fn finish(&mut self, op: usize, began: Instant, waited: bool) {
        let begin = self.begin(began, waited);
        let deadline = begin + self.durations[op];
        let done = Instant::now();
        sleep_until(deadline);
        let end = deadline.max(done);
        self.occupancy[op] = end.saturating_duration_since(begin);
        self.clock = Some(end);
    }

    fn begin(&self, began: Instant, waited: bool) -> Instant {
        match self.clock {
            Some(clock) if !waited => {
                let earliest = began.checked_sub(LAG_MAX).unwrap_or(began);
                clock.max(earliest)
            }
            _ => began,
        }
    }
}

fn sleep_until(deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > SPIN_MAX {
            thread::sleep(left - SPIN_MAX);
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use lgm::skeleton::Op;

    use super::*;

    fn pace(ns: &[u64], scale: f64) -> Pace {
        let op = |&duration_ns: &u64| Op {
            name: String::new(),
            duration_ns,
            first_access: 0,
            access_count: 0,
            replayable: false,
        };
        let skeleton = Skeleton {
            ops: ns.iter().map(op).collect(),
            ..Skeleton::default()
        };
        Pace::new(&skeleton, scale)
    }

    #[test]
    fn ops_take_their_scaled_time_in_all() {
        let mut pace = pace(&[20_000_000; 10], 0.1);
        let start = Instant::now();
        for op in 0..10 {
            pace.finish(op, Instant::now(), false);
        }
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(20), "{took:?}");
        let shortest = pace.occupancy.iter().min();
        assert!(shortest >= Some(&Duration::from_millis(2)), "{shortest:?}");
    }

    #[test]
    fn late_ops_begin_where_the_last_one_ended_and_waiting_ones_where_they_could() {
        let mut pace = pace(&[1], 1.0);
        let now = Instant::now();
        let us = Duration::from_micros;
        pace.clock = now.checked_sub(us(300));
        assert_eq!(pace.begin(now, false), now - us(300));
        assert_eq!(pace.begin(now, true), now);
        pace.clock = now.checked_sub(Duration::from_secs(1));
        assert_eq!(pace.begin(now, false), now - LAG_MAX);
    }

    #[test]
    fn work_that_takes_longer_is_what_the_op_took() {
        let mut pace = pace(&[1_000], 1.0);
        let began = Instant::now();
        thread::sleep(Duration::from_millis(3));
        pace.finish(0, began, true);
        assert!(pace.occupancy[0] >= Duration::from_millis(3));
    }
}
