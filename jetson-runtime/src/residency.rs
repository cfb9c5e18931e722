//! Where every byte is in the middle of an iteration: a replay of the program on paper.
//!
//! In: a plan, and how far its execution came. Out: for each persistent tensor, and on demand for
//! each transient that was written, segments that hold its latest version, or say that there is
//! none.
//!
//! The replay runs one linear extension of the program's order (step s; outs released at s; ins
//! released at s; step s+1; …) over the commands that are complete. A verified program gives every
//! linear extension the same result, so the real order does not matter. It begins at HOME one
//! iteration before the present one: a step starts only when something of the iteration before is
//! complete, hence everything of those before that.
//!
//! Limits: a few maps as large as the program; for failures, not for the step path.

use lgm::plan::Plan;
use vtensor::{Bytes, Mode, OpIndex, Place, StepIndex, TensorId};

use crate::content::Segment;
use crate::ledger::{Held, Ledger};
use crate::places::{Places, Site};
use crate::scale::{Scale, to_usize};
use crate::table::{Command, Table};

/// How far copies came, by direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// Completed commands since the freeze.
    pub(crate) done: [u64; 2],
    /// Commands that may have begun: those that did not complete have torn what they were to write.
    pub(crate) begun: [u64; 2],
    /// Of those, the ones that failed, by number since the freeze: the slot of such an in cannot be
    /// trusted either.
    pub(crate) failed: [Option<u64>; 2],
}

/// How far an execution came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The iteration, counted from 1; 0 before the first.
    pub(crate) iteration: u64,
    /// The first iteration since everything was at HOME and was changed there: what still lies
    /// elsewhere from before counts for nothing.
    pub(crate) since: u64,
    /// Its complete steps.
    pub(crate) steps: usize,
    /// Whether the next step is open: what it writes is neither old nor new.
    pub(crate) open: bool,
    /// Its copies, and those before it.
    pub(crate) copies: Reached,
}

/// A range of the arena with the bytes of a tensor that lie on it.
struct Part {
    start: u64,
    end: u64,
    /// Bytes of the run before it.
    skip: u64,
    address: usize,
}

/// What became of a released command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Complete,
    Failed,
    Begun,
    NotBegun,
}

/// A program as it was frozen.
#[derive(Clone, Copy)]
pub(crate) struct Lowered<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) table: &'a Table,
    pub(crate) scale: Scale,
    pub(crate) places: &'a dyn Places,
}

struct Replay<'a> {
    plan: &'a Plan,
    table: &'a Table,
    scale: Scale,
    places: &'a dyn Places,
    device: Ledger,
    spill: Ledger,
    /// How often each tensor was written.
    versions: Vec<u64>,
    /// Whether it was in the last iteration.
    written: Vec<bool>,
}

/// Whose bytes are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Persistent tensors.
    Persistent,
    /// Those, and the transients that were written in this iteration, gone by plan or not.
    All,
}

/// Where every byte is.
pub(crate) fn residency(lowered: Lowered<'_>, progress: Progress, whose: Whose) -> Vec<Segment> {
    let Lowered {
        plan,
        table,
        scale,
        places,
    } = lowered;
    let mut replay = Replay {
        plan,
        table,
        scale,
        places,
        device: Ledger::default(),
        spill: Ledger::default(),
        versions: vec![0; plan.skeleton.tensors.len()],
        written: vec![false; plan.skeleton.tensors.len()],
    };
    replay.home();
    let first = progress.iteration.saturating_sub(1).max(progress.since);
    for iteration in first..=progress.iteration {
        let last = iteration == progress.iteration;
        let steps = if last {
            progress.steps
        } else {
            table.steps.len()
        };
        replay.iteration(iteration, steps, progress);
    }
    if progress.open {
        replay.tear(progress.steps);
    }
    replay.segments(progress, whose)
}

impl Replay<'_> {
    /// The arena's ranges under bytes of a tensor, the first of which is number `offset`.
    fn parts(&self, tensor: TensorId, offset: u64, place: Place, planned_bytes: u64) -> Vec<Part> {
        let site = Site {
            tensor,
            offset,
            place: self.scale.place(place),
            bytes: to_usize(self.scale.bytes(planned_bytes)),
        };
        let address = self.places.address(site).as_ptr().expose_provenance();
        let mut skip = 0;
        let ranges = self.plan.program.arena_ranges(place, Bytes(planned_bytes));
        ranges
            .map(|range| {
                let start = self.scale.offset(range.start);
                let end = self.scale.bytes(range.end);
                let part = Part {
                    start,
                    end,
                    skip,
                    address: address + to_usize(skip),
                };
                skip += end - start;
                part
            })
            .collect()
    }

    fn home(&mut self) {
        let homes = &self.plan.program.homes;
        for home in homes {
            let tensor = self.plan.skeleton.tensor(home.tensor).bytes;
            let pieces = self.plan.program.pieces(tensor);
            let bytes = pieces
                .bytes(home.pieces)
                .expect("HOME names pieces that exist")
                .0;
            let held = Held {
                end: 0,
                tensor: home.tensor,
                offset: self.scale.offset(pieces.offset(home.pieces).0),
                version: 0,
                address: 0,
            };
            if let Some(place) = home.place {
                self.occupy(place, bytes, held);
            }
            if let Some(slot) = home.slot {
                let slot = self.scale.offset(slot);
                let end = slot + self.scale.bytes(bytes);
                self.spill.put(slot, Held { end, ..held });
            }
        }
    }

    /// Puts a run of a tensor, which begins at `held.offset`, on the device.
    fn occupy(&mut self, place: Place, planned_bytes: u64, held: Held) {
        for part in self.parts(held.tensor, held.offset, place, planned_bytes) {
            let held = Held {
                end: part.end,
                offset: held.offset + part.skip,
                address: part.address,
                ..held
            };
            self.device.put(part.start, held);
        }
    }

    fn iteration(&mut self, iteration: u64, steps: usize, progress: Progress) {
        self.written.fill(false);
        let [outs, ins] = [&self.table.outs, &self.table.ins];
        let fate = |command: &Command| {
            let direction = command.transfer.direction.index();
            let count = [outs.len(), ins.len()][direction] as u64;
            let number = iteration * count + u64::from(command.index);
            let copies = progress.copies;
            match copies.failed[direction] {
                _ if number < copies.done[direction] => Fate::Complete,
                Some(failed) if failed == number => Fate::Failed,
                _ if number < copies.begun[direction] => Fate::Begun,
                _ => Fate::NotBegun,
            }
        };
        let (mut out, mut r#in) = (0, 0);
        for step in 0..steps {
            self.write(step, true);
            let released = |command: &Command| command.released_by <= StepIndex::from_index(step);
            while let Some(command) = outs.get(out).filter(|c| released(c)) {
                self.copy_out(command, fate(command));
                out += 1;
            }
            while let Some(command) = ins.get(r#in).filter(|c| released(c)) {
                self.copy_in(command, fate(command));
                r#in += 1;
            }
        }
    }

    /// What the open step may have written is nowhere.
    fn tear(&mut self, step: usize) {
        self.write(step, false);
    }

    /// A step writes its tensors; `whole` says whether it came to its end.
    fn write(&mut self, step: usize, whole: bool) {
        let op = OpIndex::from_index(step);
        let step = &self.plan.program.steps[step];
        let places = &self.plan.program.places[step.first_place as usize..];
        for (access, place) in self.plan.skeleton.accesses_of(op).iter().zip(places) {
            if !access.mode.writes() {
                continue;
            }
            let version = &mut self.versions[access.tensor.index()];
            *version += 1;
            self.written[access.tensor.index()] = true;
            let held = Held {
                end: 0,
                tensor: access.tensor,
                offset: 0,
                version: if whole { *version } else { 0 },
                address: 0,
            };
            self.occupy(
                *place,
                self.plan.skeleton.tensor(access.tensor).bytes.0,
                held,
            );
        }
    }

    /// The first byte of its tensor that a command moves.
    fn first(&self, command: &Command) -> u64 {
        let tensor = self.plan.skeleton.tensor(command.transfer.tensor).bytes;
        let pieces = self.plan.program.pieces(tensor);
        self.scale.offset(pieces.offset(command.transfer.pieces).0)
    }

    fn copy_out(&mut self, command: &Command, fate: Fate) {
        if fate == Fate::NotBegun {
            return;
        }
        let out = &self.plan.program.outs[command.index as usize];
        let slot = command.transfer.slot;
        self.spill.erase(slot, slot + command.transfer.bytes as u64);
        if fate != Fate::Complete {
            return;
        }
        for part in self.parts(out.tensor, self.first(command), out.source, out.bytes.0) {
            for (start, held) in self.device.over(part.start, part.end) {
                let to = slot + part.skip + (start - part.start);
                let end = to + (held.end - start);
                self.spill.put(
                    to,
                    Held {
                        end,
                        address: 0,
                        ..held
                    },
                );
            }
        }
    }

    fn copy_in(&mut self, command: &Command, fate: Fate) {
        if fate == Fate::NotBegun {
            return;
        }
        let r#in = &self.plan.program.ins[command.index as usize];
        let first = self.first(command);
        for part in self.parts(r#in.tensor, first, r#in.destination, r#in.bytes.0) {
            self.device.erase(part.start, part.end);
            let slot = command.transfer.slot + part.skip;
            let slot_end = slot + (part.end - part.start);
            if fate == Fate::Failed {
                self.spill.erase(slot, slot_end);
            }
            if fate != Fate::Complete {
                continue;
            }
            for (start, held) in self.spill.over(slot, slot_end) {
                let to = part.start + (start - slot);
                let end = to + (held.end - start);
                let address = part.address + to_usize(start - slot);
                self.device.put(
                    to,
                    Held {
                        end,
                        address,
                        ..held
                    },
                );
            }
        }
    }

    /// Every byte that is asked for, with the places that hold its latest version.
    fn segments(&self, progress: Progress, whose: Whose) -> Vec<Segment> {
        let tensors = &self.plan.skeleton.tensors;
        let mut copies: Vec<Vec<(Held, u64, bool)>> = vec![Vec::new(); tensors.len()];
        for (ledger, on_device) in [(&self.device, true), (&self.spill, false)] {
            for (start, held) in ledger.all() {
                if held.version == self.versions[held.tensor.index()] {
                    copies[held.tensor.index()].push((*held, start, on_device));
                }
            }
        }
        let mut segments = Vec::new();
        for (index, tensor) in tensors.iter().enumerate() {
            let written = whose == Whose::All && self.written[index];
            if !(tensor.persistent || written) {
                continue;
            }
            let copies = &copies[index];
            let size = self.scale.bytes(tensor.bytes.0);
            let ends = |(held, start, _): &(Held, u64, bool)| {
                [held.offset, held.offset + (held.end - start)]
            };
            let mut cuts: Vec<u64> = copies.iter().flat_map(ends).chain([0, size]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let (tensor, persistent) = (TensorId::from_index(index), tensor.persistent);
            let lost = !self.overwritten_next(tensor, persistent, progress);
            for cut in cuts.windows(2) {
                segments.push(segment(tensor, [cut[0], cut[1]], copies, lost));
            }
        }
        segments
    }

    /// Whether the next op that uses the tensor overwrites it, so that it holds nothing now. The
    /// next iteration counts for persistent tensors only.
    fn overwritten_next(&self, tensor: TensorId, persistent: bool, progress: Progress) -> bool {
        let modes_from = |first: usize, end: usize| {
            self.table.steps[first..end].iter().find_map(|row| {
                let rows = self.table.accesses_of(row).iter();
                rows.clone()
                    .find(|row| row.tensor == tensor)
                    .map(|row| row.mode)
            })
        };
        let steps = self.table.steps.len();
        if progress.open && modes_from(progress.steps, progress.steps + 1).is_some() {
            return false;
        }
        let next = modes_from(progress.steps, steps)
            .or_else(|| modes_from(0, progress.steps).filter(|_| persistent));
        next == Some(Mode::Write)
    }
}

/// Bytes `start .. end` of a tensor, which no copy covers in part.
fn segment(
    tensor: TensorId,
    [start, end]: [u64; 2],
    copies: &[(Held, u64, bool)],
    lost: bool,
) -> Segment {
    let holds =
        |held: &Held, first: u64| held.offset <= start && end <= held.offset + (held.end - first);
    let on_device = copies
        .iter()
        .find(|(held, first, device)| *device && holds(held, *first));
    let in_spill = copies
        .iter()
        .find(|(held, first, device)| !*device && holds(held, *first));
    let device = on_device.and_then(|(held, ..)| {
        let address = held.address + to_usize(start - held.offset);
        std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(address))
    });
    let slot = in_spill.map(|(held, first, _)| first + (start - held.offset));
    Segment {
        tensor,
        start,
        end,
        device,
        slot,
        lost: lost && device.is_none() && slot.is_none(),
    }
}
