//! Which waits a program needs on streams, and which event each of them is.
//!
//! In: the tables of a proven program. Out: for each step and each in what its stream waits for,
//! and which copies and steps an event must stand for. An iteration is walked through once on
//! paper with what each stream knows to be complete; a wait for something known is left out.
//!
//! What is known: a stream runs in order, so a wait for a copy is a wait for all before it in its
//! queue. Waiting for an event brings all that its stream knew when it was recorded: the outs
//! before an in, what the step had waited for. Before an iteration the host has seen the last but
//! one come to its end.
//!
//! Guarantees: the walk takes steps, outs and ins in the order in which they are enqueued, so a
//! wait is always for something recorded before (V2, V3). The second iteration, with what the
//! first one left, is the one that is kept; a third one is the same, by rule V11.

use crate::table::{Command, Table};

/// An event of this iteration or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Its number in an iteration's set.
    pub(crate) event: u32,
    /// How many iterations ago it was recorded: 0 or 1.
    pub(crate) back: u32,
}

/// A step's waits, and what its end is waited for by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepWaits {
    /// The step waits for outs.
    pub(crate) outs: Option<Awaited>,
    /// The step waits for ins.
    pub(crate) ins: Option<Awaited>,
    /// Its end is recorded as this event, because copies wait for it.
    pub(crate) end: Option<u32>,
    /// The stream of outs waits for the end.
    pub(crate) outs_wait: bool,
    /// The stream of ins waits for the end: not where it waits for an out that does.
    pub(crate) ins_wait: bool,
}

/// A copy's wait, and the event that stands for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyWaits {
    /// An in waits for outs.
    pub(crate) after: Option<Awaited>,
    /// The copy is recorded as this event.
    pub(crate) done: Option<u32>,
}

/// All waits of an iteration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) steps: Vec<StepWaits>,
    pub(crate) outs: Vec<CopyWaits>,
    pub(crate) ins: Vec<CopyWaits>,
    /// Events of one iteration.
    pub(crate) events: u32,
}

/// What streams know, as counts relative to the iteration's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Outs and ins that the stream of steps knows.
    compute: [i64; 2],
    /// Outs that the stream of ins knows.
    ins: i64,
}

impl Waits {
    /// The waits of a program, with a stream for each direction or one for both.
    pub(crate) fn new(table: &Table, duplex: bool) -> Self {
        let [outs, ins] = table
            .counts()
            .map(|count| i64::try_from(count).expect("counts"));
        // The host has seen all of the last iteration but one.
        let least = Known {
            compute: [-outs, -ins],
            ins: -outs,
        };
        let carried = |known: Known| Known {
            compute: [known.compute[0] - outs, known.compute[1] - ins],
            ins: known.ins - outs,
        };
        let mut known = least;
        let mut walked = Walk::new(table, duplex, known);
        for _ in 0..2 {
            walked = Walk::new(table, duplex, known);
            walked.iteration();
            let next = carried(walked.known);
            known = Known {
                compute: [
                    next.compute[0].max(least.compute[0]),
                    next.compute[1].max(least.compute[1]),
                ],
                ins: next.ins.max(least.ins),
            };
        }
        walked.waits
    }
}

/// One iteration, on paper.
struct Walk<'a> {
    table: &'a Table,
    duplex: bool,
    known: Known,
    waits: Waits,
}

impl<'a> Walk<'a> {
    fn new(table: &'a Table, duplex: bool, known: Known) -> Self {
        let copies = |commands: &[Command]| vec![CopyWaits::default(); commands.len()];
        Self {
            table,
            duplex,
            known,
            waits: Waits {
                steps: vec![StepWaits::default(); table.steps.len()],
                outs: copies(&table.outs),
                ins: copies(&table.ins),
                events: 0,
            },
        }
    }

    fn iteration(&mut self) {
        let mut released = [0, 0];
        for step in 0..self.table.steps.len() {
            let counts = self.table.steps[step].counts;
            // Ins first: they may bring the outs with them.
            if counts.in_needed > self.known.compute[1] {
                let brings = self.outs_before_in(counts.in_needed - 1);
                self.waits.steps[step].ins = Some(self.in_done(counts.in_needed - 1));
                self.known.compute[1] = counts.in_needed;
                self.known.compute[0] = self.known.compute[0].max(brings);
            }
            if counts.out_needed > self.known.compute[0] {
                let brings = self.ins_before_out(counts.out_needed - 1);
                self.waits.steps[step].outs = Some(self.out_done(counts.out_needed - 1));
                self.known.compute[0] = counts.out_needed;
                self.known.compute[1] = self.known.compute[1].max(brings);
            }
            let next = [counts.out_released, counts.in_released];
            self.release(step, released, next);
            released = next;
        }
    }

    /// Step `step` releases outs and ins `from .. to`.
    fn release(&mut self, step: usize, from: [i64; 2], to: [i64; 2]) {
        if from == to {
            return;
        }
        self.waits.steps[step].end = Some(self.event());
        let outs = to[0] > from[0];
        if !self.duplex {
            self.waits.steps[step].outs_wait = true;
            return;
        }
        self.waits.steps[step].outs_wait = outs;
        if to[1] == from[1] {
            return;
        }
        // The first in, where it waits for an out of this step, waits for the step with it.
        let first = &self.table.ins[row(from[1])];
        let with_out = first.after_out > from[0];
        self.waits.steps[step].ins_wait = !with_out;
        if !with_out {
            self.known.ins = self.known.ins.max(self.known.compute[0]);
        }
        for index in from[1]..to[1] {
            let after = self.table.ins[row(index)].after_out;
            if after > self.known.ins {
                self.waits.ins[row(index)].after = Some(self.out_done(after - 1));
                self.known.ins = after.max(self.known.compute[0]);
            }
        }
    }

    /// Outs that are complete whenever in `index` is.
    fn outs_before_in(&self, index: i64) -> i64 {
        let [outs, ins] = self
            .table
            .counts()
            .map(|count| i64::try_from(count).expect("counts"));
        let command = &self.table.ins[row(index.rem_euclid(ins))];
        let relative = match self.duplex {
            true => command.after_out,
            // The one queue has them in order of release.
            false => {
                self.table.steps[command.released_by.index()]
                    .counts
                    .out_released
            }
        };
        relative + index.div_euclid(ins) * outs
    }

    /// Ins that are complete whenever out `index` is.
    fn ins_before_out(&self, index: i64) -> i64 {
        let [outs, ins] = self
            .table
            .counts()
            .map(|count| i64::try_from(count).expect("counts"));
        if self.duplex {
            return i64::MIN;
        }
        let command = &self.table.outs[row(index.rem_euclid(outs))];
        let relative = match command.released_by.index() {
            0 => 0,
            step => self.table.steps[step - 1].counts.in_released,
        };
        relative + index.div_euclid(outs) * ins
    }

    fn out_done(&mut self, index: i64) -> Awaited {
        let count = i64::try_from(self.table.outs.len()).expect("counts");
        let slot = row(index.rem_euclid(count));
        let event = match self.waits.outs[slot].done {
            Some(event) => event,
            None => self.event(),
        };
        self.waits.outs[slot].done = Some(event);
        awaited(event, index.div_euclid(count))
    }

    fn in_done(&mut self, index: i64) -> Awaited {
        let count = i64::try_from(self.table.ins.len()).expect("counts");
        let slot = row(index.rem_euclid(count));
        let event = match self.waits.ins[slot].done {
            Some(event) => event,
            None => self.event(),
        };
        self.waits.ins[slot].done = Some(event);
        awaited(event, index.div_euclid(count))
    }

    fn event(&mut self) -> u32 {
        let event = self.waits.events;
        self.waits.events += 1;
        event
    }
}

fn awaited(event: u32, iteration: i64) -> Awaited {
    let back = u32::try_from(-iteration).expect("waits are for what was released before");
    assert!(back <= 1, "waits reach back one iteration");
    Awaited { event, back }
}

fn row(index: i64) -> usize {
    usize::try_from(index).expect("commands are counted from 0")
}
