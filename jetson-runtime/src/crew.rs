//! A crew: the engines of a frozen program, as the application sees them.
//!
//! In: released counts. Out: waits until so many copies are complete, and which copy failed.
//! Guarantees: releasing and waiting allocate nothing and take no lock; a failure is seen by every
//! wait. *Not here*: which counts those are (see `course`), and what an engine does (see `engine`).

use std::sync::Arc;
use std::time::Instant;

use lgm::skeleton::Tensor;

use crate::counters::Counters;
use crate::engine::Engines;
use crate::error::RuntimeError;
use crate::failure::{Direction, Failure};
use crate::residency::Reached;
use crate::stats::elapsed_ns;

/// The queues, in the order of pairs.
const QUEUES: [Direction; 2] = [Direction::Out, Direction::In];

/// The engines of a program. Dropping it ends them.
pub(crate) struct Crew {
    engines: Engines,
    counters: Arc<Counters>,
    /// Commands of an iteration, by direction.
    counts: [u64; 2],
    /// Completed commands as last seen: saves a look at a cache line that an engine writes.
    seen: [u64; 2],
    stall_ns: u64,
    stalls: u64,
    failure: Option<Failure>,
}

impl Crew {
    /// Engines at their start, with their counters.
    pub(crate) fn new(engines: Engines, counters: Arc<Counters>) -> Self {
        let counts = done(&counters);
        Self {
            engines,
            counters,
            counts,
            seen: counts,
            stall_ns: 0,
            stalls: 0,
            failure: None,
        }
    }

    /// Lets the engines start so many outs and ins.
    #[inline]
    pub(crate) fn release(&self, released: [u64; 2]) {
        self.counters.queue(Direction::Out).release(released[0]);
        self.counters.queue(Direction::In).release(released[1]);
        self.counters.wake_engines();
    }

    /// Waits until so many outs and ins are complete. Answers whether they are: not if a copy has
    /// failed before.
    #[inline]
    pub(crate) fn wait(&mut self, wanted: [u64; 2]) -> bool {
        (self.seen[0] >= wanted[0] && self.seen[1] >= wanted[1]) || self.wait_longer(wanted)
    }

    fn wait_longer(&mut self, wanted: [u64; 2]) -> bool {
        let counters = &*self.counters;
        let mut seen = self.seen;
        let mut arrived = || {
            seen = done(counters);
            seen[0] >= wanted[0] && seen[1] >= wanted[1]
        };
        let mut complete = arrived();
        if !complete {
            let start = Instant::now();
            counters.application.wait_until(|| {
                complete = arrived();
                complete || counters.failed()
            });
            self.stall_ns = self.stall_ns.saturating_add(elapsed_ns(start));
            self.stalls += 1;
        }
        self.seen = seen;
        complete
    }

    /// Whether a copy failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.counters.failed()
    }

    /// The copy that failed; its engine has reported it, unless it panicked.
    pub(crate) fn failure(&mut self, tensors: &[Tensor]) -> Option<&Failure> {
        if self.failure.is_none() {
            self.failure = self.engines.failure(tensors);
        }
        self.failure.as_ref()
    }

    /// The same as an error.
    #[cold]
    pub(crate) fn error(&mut self, tensors: &[Tensor]) -> RuntimeError {
        match self.failure(tensors) {
            Some(failure) => RuntimeError::CopyFailed(failure.clone()),
            None => RuntimeError::EngineDied,
        }
    }

    /// Completed commands.
    pub(crate) fn done(&self) -> [u64; 2] {
        done(&self.counters)
    }

    /// Ends the engines after the copy that each is at, and says how far they came.
    pub(crate) fn stop(&mut self, tensors: &[Tensor]) -> Reached {
        self.engines.stop();
        // Fetches the engine's report, if the application has not seen it yet.
        self.failure(tensors);
        Reached {
            done: self.done(),
            begun: QUEUES.map(|queue| self.counters.queue(queue).begun()),
            failed: self.failed(),
        }
    }

    /// The commands that failed. Without a failure there is none: engines that are told to end
    /// complete the copy that they are at. An engine that panicked left no report: then either next
    /// command may have failed.
    fn failed(&self) -> [Option<u64>; 2] {
        let Some(failure) = &self.failure else {
            let panicked = self.has_failed();
            return self.done().map(|next| panicked.then_some(next));
        };
        let mut failed = [None; 2];
        let row = failure.direction.index();
        failed[row] = Some(failure.iteration * self.counts[row] + u64::from(failure.command));
        failed
    }

    /// Bytes that were moved.
    pub(crate) fn moved(&self) -> [u64; 2] {
        QUEUES.map(|queue| self.counters.queue(queue).moved_bytes())
    }

    /// Nanoseconds of copying.
    pub(crate) fn busy_ns(&self) -> [u64; 2] {
        QUEUES.map(|queue| self.counters.queue(queue).busy_ns())
    }

    /// How often the application waited for a copy.
    pub(crate) const fn stalls(&self) -> u64 {
        self.stalls
    }

    /// How long, in nanoseconds.
    pub(crate) const fn stall_ns(&self) -> u64 {
        self.stall_ns
    }
}

fn done(counters: &Counters) -> [u64; 2] {
    QUEUES.map(|queue| counters.queue(queue).done())
}
