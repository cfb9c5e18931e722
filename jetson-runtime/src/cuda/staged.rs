//! Copies that engines make, by way of a spill file.
//!
//! In: steps as they begin and end. Out: the engines of the host's backend, each with a
//! [`Bounce`]: ending a step records its event on the stream of steps, then releases the copies to
//! the engines, which wait for that event on the device before they touch a tensor (E2, E3).
//! Beginning a step waits on the host until the counters have come to what it needs (E1): a counter
//! stands for copies that the device has ended, and that lie in the file.
//!
//! Guarantees: nothing is allocated. The thread of the steps waits for a copy only where its step
//! needs it. A failed copy never advances its counter, and every wait sees it (E6); if it was the
//! driver that failed, its error is told.

use std::sync::{Arc, OnceLock};

use lgm::skeleton::Tensor;

use super::ahead::set;
use super::bounce::{Bounce, Releases, Trouble};
use super::device::Device;
use super::error::CudaError;
use super::stream::{EventUse, Events, Stream};
use crate::copier::Copier;
use crate::counters::Counters;
use crate::crew::Crew;
use crate::engine::Engines;
use crate::error::RuntimeError;
use crate::failure::Failure;
use crate::fault::{Fault, Faulty};
use crate::residency::Reached;
use crate::spill::Tier;
use crate::table::{Command, Table};

/// The engines of a program, with what releases their copies.
pub(super) struct Staged {
    // Ends before the events that it waits for.
    crew: Crew,
    /// Ends of steps that release copies: two sets, which iterations use in turn.
    events: Arc<Events>,
    /// The event of each step, and how many there are.
    ends: Vec<Option<usize>>,
    set: usize,
    /// Copies of an iteration.
    counts: [u64; 2],
    /// The iteration that runs, counted from 1.
    iteration: u64,
    /// What engines may do.
    released: [u64; 2],
    /// Pinned memory of all rings.
    pinned: u64,
    trouble: Trouble,
}

impl Staged {
    /// Starts the engines.
    pub(super) fn new(
        device: &Device,
        table: &Table,
        tier: &Arc<Tier>,
        duplex: bool,
        fault: Option<Fault>,
    ) -> Result<Self, RuntimeError> {
        let (ends, set) = ends(table);
        let events = Arc::new(Events::new(device, 2 * set, EventUse::Order)?);
        let trouble: Trouble = Arc::new(OnceLock::new());
        let [outs, ins] = table.counts();
        let counters = Arc::new(Counters::new(outs, ins));
        let mut pinned = 0;
        let copier = |queue: &[Command]| -> Result<Box<dyn Copier>, RuntimeError> {
            let end = |command: &Command| ends[command.released_by.index()];
            let of_copies = queue
                .iter()
                .map(|command| end(command).expect("a step that releases copies has an event"));
            let releases = Releases {
                events: Arc::clone(&events),
                set,
                of_copies: of_copies.collect(),
            };
            let bounce = Bounce::new(device, tier, queue, releases, &trouble)?;
            pinned += bounce.pinned() as u64;
            Ok(match fault {
                Some(fault) => Box::new(Faulty::new(bounce, fault)),
                None => Box::new(bounce),
            })
        };
        let engines = Engines::start(table, duplex, &counters, copier)?;
        Ok(Self {
            crew: Crew::new(engines, counters),
            events,
            ends,
            set,
            counts: [outs, ins],
            iteration: 0,
            // What the freeze brought counts as an iteration's.
            released: [outs, ins],
            pinned,
            trouble,
        })
    }

    /// Begins an iteration: engines wait no more for the events that it uses again, which were
    /// those of the last one but one. Answers whether that was so, or a copy has failed.
    pub(super) fn begin_iteration(&mut self, iteration: u64) -> bool {
        self.iteration = iteration;
        // The freeze counts as iteration 0.
        let over = self.counts.map(|count| count * (iteration - 1));
        self.wait(over)
    }

    /// Waits until so many copies are complete. Answers whether they are; not if one has failed.
    #[inline]
    pub(super) fn wait(&mut self, needed: [u64; 2]) -> bool {
        !self.crew.has_failed() && self.crew.wait(needed)
    }

    /// Releases the copies that wait for step `step`.
    pub(super) fn release(
        &mut self,
        step: usize,
        released: [u64; 2],
        compute: &Stream,
    ) -> Result<(), CudaError> {
        let end = self.ends[step].expect("a step that releases copies has an event");
        compute.record(self.events.get(set(self.iteration) * self.set + end))?;
        self.released = released;
        self.crew.release(released);
        Ok(())
    }

    /// Waits until everything that was released is complete. Answers whether it is.
    pub(super) fn drain(&mut self) -> bool {
        self.crew.wait(self.released)
    }

    /// Why a copy failed.
    #[cold]
    pub(super) fn error(&mut self, tensors: &[Tensor]) -> RuntimeError {
        match self.trouble.get() {
            Some(error) => error.clone().into(),
            None => self.crew.error(tensors),
        }
    }

    /// Lets what was released come to an end, ends the engines, and says how far they came: the
    /// copies that are complete, that may have begun, and that failed.
    pub(super) fn stop(&mut self, tensors: &[Tensor]) -> Reached {
        self.drain();
        self.crew.stop(tensors)
    }

    /// The copy that a disk failed.
    pub(super) fn failure(&mut self, tensors: &[Tensor]) -> Option<Failure> {
        match self.trouble.get() {
            Some(_) => None,
            None => self.crew.failure(tensors).cloned(),
        }
    }

    /// Whether an engine's call of the driver failed: then what the device did is not known.
    pub(super) fn in_doubt(&self) -> bool {
        self.trouble.get().is_some()
    }

    pub(super) const fn crew(&self) -> &Crew {
        &self.crew
    }

    pub(super) const fn pinned(&self) -> u64 {
        self.pinned
    }
}

/// Numbers the steps that release copies; with how many there are.
fn ends(table: &Table) -> (Vec<Option<usize>>, usize) {
    let mut ends = vec![None; table.steps.len()];
    for command in table.outs.iter().chain(&table.ins) {
        ends[command.released_by.index()] = Some(0);
    }
    let numbered = ends.iter_mut().flatten().zip(0..);
    let count = numbered.map(|(end, number)| *end = number).count();
    (ends, count)
}
