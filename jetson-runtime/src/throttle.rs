//! An adaptor that gives a fast copy the pace of a slower link.
//!
//! In: the link of a device profile. Each copy occupies the link for its latency and its *planned*
//! bytes over the bandwidth, so a replay at a smaller scale keeps the times of the plan. Deadlines
//! are cumulative: a copy that did not have to wait begins, on the link's clock, where the one
//! before ended, so waking up late is made up for by the next copy.
//!
//! Limits: a link faster than the machine's memory cannot be imitated; the clock then falls
//! behind, at most by `LAG_MAX`, so that later copies are not unduly fast.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lgm::profile::Link;
use nix::sys::prctl::set_timerslack;

use crate::copier::{Copier, Transfer};
use crate::counters::Counters;
use crate::failure::Direction;
use crate::storage::TransferError;

/// How far the link's clock may lie behind: several times what a sleep oversleeps.
const LAG_MAX: Duration = Duration::from_millis(5);
/// Closer than this to a deadline a thread spins: sleeps are not more exact.
const SPIN_MAX: Duration = Duration::from_micros(60);
/// A sleeper looks this often whether the runtime ends.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// The longest copy: a bandwidth next to nothing is a year, not an overflow.
const OCCUPANCY_S_MAX: f64 = 3.2e7;

/// The pace of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Bytes per second from the device to the spill tier.
    pub out_bps: f64,
    /// Bytes per second from the spill tier to the device.
    pub in_bps: f64,
    /// Nanoseconds that each copy takes beside its bytes.
    pub latency_ns: u64,
    /// All times are multiplied by this: 0.1 is ten times as fast.
    pub time_scale: f64,
}

impl Throttle {
    /// The pace of a profile's link.
    #[must_use]
    pub const fn of(link: &Link, time_scale: f64) -> Self {
        Self {
            out_bps: link.out_bps,
            in_bps: link.in_bps,
            latency_ns: link.copy_latency_ns,
            time_scale,
        }
    }

    /// The link that has this pace.
    #[must_use]
    pub fn link(&self) -> Link {
        Link {
            out_bps: self.out_bps / self.time_scale,
            in_bps: self.in_bps / self.time_scale,
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            copy_latency_ns: (self.latency_ns as f64 * self.time_scale) as u64,
            duplex: true,
        }
    }

    /// How long a copy occupies the link. A bandwidth or scale that is not positive counts as
    /// unlimited.
    pub(crate) fn occupancy(&self, direction: Direction, planned_bytes: u64) -> Duration {
        let bps = match direction {
            Direction::Out => self.out_bps,
            Direction::In => self.in_bps,
        };
        let bytes_s = if bps > 0.0 {
            planned_bytes as f64 / bps
        } else {
            0.0
        };
        let seconds = (self.latency_ns as f64 * 1e-9 + bytes_s) * self.time_scale;
        if seconds > 0.0 {
            Duration::from_secs_f64(seconds.min(OCCUPANCY_S_MAX))
        } else {
            Duration::ZERO
        }
    }
}

/// The adaptor.
pub(crate) struct Throttled<C> {
    inner: C,
    throttle: Throttle,
    counters: Arc<Counters>,
    /// Until when the link is taken.
    busy_until: Option<Instant>,
}

impl<C> Throttled<C> {
    pub(crate) const fn new(inner: C, throttle: Throttle, counters: Arc<Counters>) -> Self {
        Self {
            inner,
            throttle,
            counters,
            busy_until: None,
        }
    }

    /// When a copy begins on the link's clock.
    fn begin(&self, ready: Option<Instant>, now: Instant) -> Instant {
        let link_free = self.busy_until.unwrap_or(now);
        let earliest = match ready {
            Some(ready) => link_free.max(ready),
            None => link_free,
        };
        now.checked_sub(LAG_MAX)
            .map_or(earliest, |bound| earliest.max(bound))
    }

    fn sleep_until(&self, deadline: Instant) {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.counters.ended() {
                return;
            }
            if left > SPIN_MAX {
                thread::sleep((left - SPIN_MAX).min(SLEEP_MAX));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl<C: Copier> Copier for Throttled<C> {
    unsafe fn copy(
        &mut self,
        transfer: &Transfer,
        ready: Option<Instant>,
    ) -> Result<(), TransferError> {
        let now = Instant::now();
        if self.busy_until.is_none() {
            // The first copy on this thread: have its sleeps end when they should. A kernel that
            // refuses costs exactness, nothing else.
            let _ = set_timerslack(1);
        }
        let occupancy = self
            .throttle
            .occupancy(transfer.direction, transfer.planned_bytes);
        let begin = self.begin(ready, now);
        let deadline = begin.checked_add(occupancy).unwrap_or(begin);
        self.busy_until = Some(deadline);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { self.inner.copy(transfer, ready) }?;
        self.sleep_until(deadline);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copier::TierCopier;
    use crate::spill::Tier;

    const LINK: Throttle = Throttle {
        out_bps: 1e9,
        in_bps: 2e9,
        latency_ns: 10_000,
        time_scale: 0.5,
    };

    fn throttled() -> Throttled<TierCopier> {
        let copier = TierCopier::new(&Arc::new(Tier::Empty)).unwrap();
        Throttled::new(copier, LINK, Arc::new(Counters::new(0, 0)))
    }

    #[test]
    fn a_copy_occupies_latency_and_bytes() {
        let micros = |direction, bytes| LINK.occupancy(direction, bytes).as_micros();
        assert_eq!(micros(Direction::Out, 0), 5);
        assert_eq!(micros(Direction::Out, 1_000_000), 505);
        assert_eq!(micros(Direction::In, 1_000_000), 255);
        for bps in [0.0, -1.0, f64::NAN] {
            let unlimited = Throttle {
                out_bps: bps,
                ..LINK
            };
            assert_eq!(unlimited.occupancy(Direction::Out, 1 << 40).as_micros(), 5);
        }
        let dead = Throttle {
            out_bps: f64::MIN_POSITIVE,
            ..LINK
        };
        let year = Duration::from_secs_f64(OCCUPANCY_S_MAX);
        assert_eq!(dead.occupancy(Direction::Out, 1), year);
    }

    #[test]
    fn copies_begin_where_the_last_one_ended_or_when_they_are_ready() {
        let now = Instant::now();
        let us = Duration::from_micros;
        let mut link = throttled();
        assert_eq!(link.begin(None, now), now);
        // It overslept by 300 us: the next copy makes up for it.
        link.busy_until = now.checked_sub(us(300));
        assert_eq!(Some(link.begin(None, now)), link.busy_until);
        // It had to wait, and was ready 100 us ago.
        assert_eq!(link.begin(now.checked_sub(us(100)), now), now - us(100));
        // It is behind by more than a sleep can explain.
        link.busy_until = now.checked_sub(Duration::from_secs(1));
        assert_eq!(link.begin(None, now), now - LAG_MAX);
        // It is still taken.
        link.busy_until = Some(now + us(50));
        assert_eq!(link.begin(Some(now), now), now + us(50));
    }
}
