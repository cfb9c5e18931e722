//! Copies that streams make: enqueued as steps end, with their waits.
//!
//! In: steps as they begin and end. Out: work on streams, in the words of the contract: beginning a
//! step puts its waits on the stream of steps (E1); ending it records its event, then enqueues the
//! outs that it releases (E2), then the ins (E3), with their waits; one copy stream takes both in
//! that order (E4). A wait is always for an event that was recorded before (V2), which is asserted:
//! a wait for another one would silently do nothing.
//!
//! Guarantees: nothing is allocated, and the host waits for nothing.

use super::ahead::set;
use super::device::Device;
use super::error::CudaError;
use super::mechanism::Backing;
use super::stream::{EventUse, Events, Stream};
use super::waits::{Awaited, CopyWaits, Waits};
use crate::failure::Direction;
use crate::residency::Reached;
use crate::scale::to_usize;
use crate::table::{Command, Table};

/// What copies and waits are made with.
#[derive(Clone, Copy)]
pub(super) struct With<'a> {
    pub(super) table: &'a Table,
    pub(super) backing: &'a dyn Backing,
    pub(super) compute: &'a Stream,
}

/// The copy streams of a program.
pub(super) struct Queued {
    out: Stream,
    /// `None` where one stream takes both directions.
    r#in: Option<Stream>,
    /// Two sets, for order between streams.
    events: Events,
    waits: Waits,
    /// In which iteration each event was recorded last, by set and number.
    recorded: Vec<u64>,
    /// The iteration that runs, counted from 1.
    iteration: u64,
    /// Copies that were enqueued, by direction; absolute, as released counts are.
    enqueued: [u64; 2],
    /// The copy whose enqueuing failed, by direction.
    failed: [Option<u64>; 2],
    /// Bytes of the copies that were enqueued.
    moved: [u64; 2],
    /// Waits that were put on streams.
    waited: u64,
}

impl Queued {
    /// Makes streams and events.
    pub(super) fn new(device: &Device, table: &Table, duplex: bool) -> Result<Self, CudaError> {
        let waits = Waits::new(table, duplex);
        let events = 2 * waits.events as usize;
        Ok(Self {
            out: Stream::new(device)?,
            r#in: match duplex {
                true => Some(Stream::new(device)?),
                false => None,
            },
            events: Events::new(device, events, EventUse::Order)?,
            waits,
            recorded: vec![0; events],
            iteration: 0,
            // What the freeze brought counts as an iteration's.
            enqueued: table.counts(),
            failed: [None; 2],
            moved: [0; 2],
            waited: 0,
        })
    }

    /// The copy streams.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Stream> {
        std::iter::once(&self.out).chain(&self.r#in)
    }

    /// Begins an iteration, two after one whose end the host has seen.
    pub(super) const fn begin_iteration(&mut self, iteration: u64) {
        self.iteration = iteration;
    }

    /// Lets the stream of steps wait until the tensors of a step are in place.
    #[inline]
    pub(super) fn begin_step(&mut self, step: usize, compute: &Stream) -> Result<(), CudaError> {
        let waits = self.waits.steps[step];
        for awaited in [waits.ins, waits.outs].into_iter().flatten() {
            self.wait(compute, awaited)?;
            self.waited += 1;
        }
        Ok(())
    }

    /// Enqueues the copies that step `step` releases.
    pub(super) fn release(
        &mut self,
        step: usize,
        released: [u64; 2],
        with: With<'_>,
    ) -> Result<(), CudaError> {
        let waits = self.waits.steps[step];
        let end = waits.end.expect("a step that releases copies has an event");
        let recorded = self.event(self.iteration, end);
        with.compute.record(self.events.get(recorded))?;
        self.recorded[recorded] = self.iteration;
        let event = Awaited {
            event: end,
            back: 0,
        };
        if waits.outs_wait {
            self.wait(&self.out, event)?;
            self.waited += 1;
        }
        for direction in [Direction::Out, Direction::In] {
            if direction == Direction::In && waits.ins_wait {
                self.wait(self.stream(Direction::In), event)?;
                self.waited += 1;
            }
            while self.enqueued[direction.index()] < released[direction.index()] {
                self.copy(direction, with)?;
            }
        }
        Ok(())
    }

    /// Enqueues the next copy of a queue.
    fn copy(&mut self, direction: Direction, with: With<'_>) -> Result<(), CudaError> {
        let (commands, waits): (&[Command], &[CopyWaits]) = match direction {
            Direction::Out => (&with.table.outs, &self.waits.outs),
            Direction::In => (&with.table.ins, &self.waits.ins),
        };
        let number = self.enqueued[direction.index()];
        let row = to_usize(number % commands.len() as u64);
        let (transfer, waits) = (commands[row].transfer, waits[row]);
        if let Some(awaited) = waits.after {
            self.wait(self.stream(direction), awaited)?;
            self.waited += 1;
        }
        // SAFETY: the memory lives as long as the streams. The stream waits for all that the rules
        // ask for: its release step, the copies before it, and for an in the outs it names.
        if let Err(error) = unsafe { with.backing.copy(&transfer, self.stream(direction)) } {
            self.failed[direction.index()] = Some(number);
            return Err(error);
        }
        self.enqueued[direction.index()] += 1;
        self.moved[direction.index()] += transfer.bytes as u64;
        if let Some(event) = waits.done {
            let event = self.event(self.iteration, event);
            self.stream(direction).record(self.events.get(event))?;
            self.recorded[event] = self.iteration;
        }
        Ok(())
    }

    /// Lets a stream wait for an event of this iteration or the one before.
    fn wait(&self, stream: &Stream, awaited: Awaited) -> Result<(), CudaError> {
        let iteration = self.iteration - u64::from(awaited.back);
        // What the freeze brought is complete.
        if iteration == 0 {
            return Ok(());
        }
        let event = self.event(iteration, awaited.event);
        assert_eq!(
            self.recorded[event], iteration,
            "a wait is for an event that was recorded before (V2)"
        );
        stream.wait(self.events.get(event))
    }

    fn stream(&self, direction: Direction) -> &Stream {
        match (direction, &self.r#in) {
            (Direction::In, Some(stream)) => stream,
            _ => &self.out,
        }
    }

    fn event(&self, iteration: u64, event: u32) -> usize {
        set(iteration) * self.waits.events as usize + event as usize
    }

    /// Copies that were enqueued, and the ones whose enqueuing failed.
    pub(super) const fn reached(&self) -> Reached {
        Reached {
            done: self.enqueued,
            begun: self.enqueued,
            failed: self.failed,
        }
    }

    /// Bytes of the copies that were enqueued.
    pub(super) const fn moved(&self) -> [u64; 2] {
        self.moved
    }

    /// Waits that were put on streams.
    pub(super) const fn waited(&self) -> u64 {
        self.waited
    }
}
