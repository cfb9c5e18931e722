//! V5–V10: runs a program on symbolic memory, in one order that stands for all.
//!
//! The order is (step s; outs released at s; ins released at s; step s + 1; …), which V2 and V3
//! make a legal one. Two things are proven on the way:
//!
//! - *In this order* every step and copy finds the content that it must find.
//! - *In every order* the outcome is the same: of two events that touch the same bytes, one of
//!   them writing, the earlier is known to be complete when the later starts. Steps always are:
//!   whatever follows a step in this order waits for it. So only copies need to be looked at, and
//!   what is known of them is two numbers, since both queues complete in order.
//!
//! What is known complete:
//!
//! - at a step, the outs below `out_needed` and the ins below `in_needed`, those of earlier steps
//!   included, and for each known in the outs that it waited for;
//! - at an out, what its releasing step knew, since that step is complete;
//! - at an in, the same, and the outs that it or an in before it waits for, since ins start in
//!   order (they need not *complete* in order: an in does not know the in before it).
//!
//! A content is not evicted: it lies where it lies until something else is put there. A program
//! that needs it again finds out when it looks.
//!
//! Limits: a program is refused once more than [`VISITS_MAX`] ranges had to be looked at. A tensor
//! that is used again in the same place, with no copy in between, costs nothing, so programs far
//! larger than a real one stay well below.

use vtensor::{ArenaRange, Bytes, Place, StepIndex, TensorId};

use crate::program::Program;
use crate::skeleton::{Access, Skeleton};

use super::atlas::Atlas;
use super::facts::Facts;
use super::memory::{Cell, Content, Known, Memory, NONE};
use super::order::length;
use super::violation::{At, Rule, Verdict, refuse};

/// How many ranges a proof looks at before it gives up: seconds, not hours, on hostile tables.
const VISITS_MAX: u64 = 1 << 26;

/// What is known of a tensor.
#[derive(Clone, Copy, Default)]
pub(super) struct State {
    /// The version of its content; 0 is none.
    pub(super) stamp: u64,
    /// The place that is known to hold all of it, since nothing was put there after looking.
    pub(super) sealed: Option<Place>,
    /// Whether a second copy with this stamp may exist. Without one, a write need not change the
    /// stamp: there is nothing to tell the content from.
    pub(super) shared: bool,
}

/// A program at work.
pub(super) struct Machine<'a> {
    pub(super) skeleton: &'a Skeleton,
    pub(super) program: &'a Program,
    pub(super) atlas: &'a Atlas<'a>,
    pub(super) arena: Memory,
    pub(super) spill: Memory,
    pub(super) tensors: Vec<State>,
    /// What the step that runs, or the last one, knows.
    known: Known,
    /// The numbers of the iteration's first commands.
    base: Known,
    /// For each in so far, how many outs are complete when it starts.
    after_out: Vec<i64>,
    stamps: u64,
    facts: Facts,
}

impl<'a> Machine<'a> {
    /// A machine whose memory is empty.
    pub(super) fn new(skeleton: &'a Skeleton, program: &'a Program, atlas: &'a Atlas<'a>) -> Self {
        Self {
            skeleton,
            program,
            atlas,
            arena: Memory::new(atlas.arena_cuts(skeleton)),
            spill: Memory::new(atlas.spill_cuts(skeleton)),
            tensors: vec![State::default(); skeleton.tensors.len()],
            known: Known::default(),
            base: Known::default(),
            after_out: Vec::new(),
            stamps: 0,
            facts: Facts::default(),
        }
    }

    /// A stamp that nothing has.
    pub(super) fn new_stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    /// Runs one iteration, and says what is known at its end, relative to the next one.
    pub(super) fn iteration(&mut self) -> Verdict<Known> {
        let (mut outs, mut ins) = (0, 0);
        for (index, step) in self.program.steps.iter().enumerate() {
            self.start(index);
            self.step(index)?;
            while length(outs) < step.counts.out_released {
                self.copy_out(outs)?;
                outs += 1;
            }
            while length(ins) < step.counts.in_released {
                self.copy_in(ins)?;
                ins += 1;
            }
        }
        self.base.outs += length(self.program.outs.len());
        self.base.ins += length(self.program.ins.len());
        Ok(Known {
            outs: self.known.outs - self.base.outs,
            ins: self.known.ins - self.base.ins,
        })
    }

    /// What the proof found out. Pages are counted where cells are: nothing removes those.
    pub(super) fn facts(&self) -> Facts {
        let page = self.program.page_bytes.get();
        let mut facts = self.facts;
        let mut next = 0;
        for (range, _) in self.arena.cells() {
            let first = (range.start / page).max(next);
            let end = range.end.div_ceil(page);
            facts.pages_used += end.saturating_sub(first);
            next = next.max(end);
        }
        let last = self.spill.cells().last();
        facts.spill_used = Bytes(last.map_or(0, |(range, _)| range.end));
        facts.ranges_visited = self.arena.visits + self.spill.visits;
        facts
    }

    /// Learns what a step waits for.
    fn start(&mut self, index: usize) {
        let counts = &self.program.steps[index].counts;
        self.known.outs = self.known.outs.max(self.base.outs + counts.out_needed);
        self.known.ins = self.known.ins.max(self.base.ins + counts.in_needed);
        let last_in = usize::try_from(self.known.ins - 1).ok();
        if let Some(&outs) = last_in.and_then(|last| self.after_out.get(last)) {
            self.known.outs = self.known.outs.max(outs);
        }
        let before = index.checked_sub(1).map(|i| &self.program.steps[i].counts);
        let released = before.map_or((0, 0), |c| (c.out_released, c.in_released));
        let pending = |base: i64, released: i64, known: i64| {
            u64::try_from(base + released - known).unwrap_or(0)
        };
        let outs = pending(self.base.outs, released.0, self.known.outs);
        let ins = pending(self.base.ins, released.1, self.known.ins);
        self.facts.outs_pending_max = self.facts.outs_pending_max.max(outs);
        self.facts.ins_pending_max = self.facts.ins_pending_max.max(ins);
    }

    fn step(&mut self, index: usize) -> Verdict {
        let op = &self.skeleton.ops[index];
        let first = op.first_access as usize;
        let rows = first..first + op.access_count as usize;
        let at = At::Step(StepIndex::from_index(index));
        let mut bytes = 0_u64;
        for row in rows.clone() {
            let access = self.skeleton.accesses[row];
            self.access(at, access, self.program.places[row])?;
            bytes = bytes.saturating_add(self.skeleton.tensor(access.tensor).bytes.0);
        }
        // An access may have been put over one before it.
        for row in rows {
            let tensor = self.skeleton.accesses[row].tensor;
            if self.tensors[tensor.index()].sealed.is_none() {
                self.still_there(at, tensor, self.program.places[row])?;
            }
        }
        self.facts.step_bytes_max = self.facts.step_bytes_max.max(Bytes(bytes));
        self.spend(at)
    }

    fn access(&mut self, at: At, access: Access, place: Place) -> Verdict {
        let Access { tensor, mode } = access;
        let state = self.tensors[tensor.index()];
        if state.sealed == Some(place) && !(mode.writes() && state.shared) {
            return Ok(());
        }
        if mode.reads() {
            self.read(at, tensor, place)?;
        }
        if mode.writes() {
            self.write(at, tensor, place)?;
        }
        self.tensors[tensor.index()].sealed = Some(place);
        Ok(())
    }

    /// V6 and V7 for a tensor that a step reads.
    fn read(&mut self, at: At, tensor: TensorId, place: Place) -> Verdict {
        let bytes = self.skeleton.tensor(tensor).bytes;
        for part in self.atlas.parts(place, bytes) {
            let wanted = self.content(tensor, part.skip);
            if let Err(unfit) = self.arena.holds(part.range, wanted, self.known.ins) {
                let skip = part.skip + (unfit.address - part.range.start);
                return Err(self.blame_step(at, tensor, skip, unfit));
            }
        }
        Ok(())
    }

    /// V5 to V7 for a tensor that a step writes. Where the tensor is not there, the step claims.
    fn write(&mut self, at: At, tensor: TensorId, place: Place) -> Verdict {
        let stamp = self.new_stamp();
        let bytes = self.skeleton.tensor(tensor).bytes;
        for part in self.atlas.parts(place, bytes) {
            let content = Content {
                tensor,
                offset: part.skip,
                stamp,
            };
            let cell = Cell {
                content,
                by: at,
                writer: NONE,
                reader: NONE,
            };
            self.claim(part.range, cell, self.known)?;
        }
        let state = &mut self.tensors[tensor.index()];
        state.stamp = stamp;
        state.shared = false;
        Ok(())
    }

    /// Puts a content somewhere, if all copies that touch what is there are `known`.
    pub(super) fn claim(&mut self, range: ArenaRange, cell: Cell, known: Known) -> Verdict {
        let new = cell.content.tensor;
        let rows = self.arena.rows(range);
        for cell_row in rows.clone() {
            let Some(old) = self.arena.cell(cell_row) else {
                continue;
            };
            let page = self.page(self.arena.address(cell_row));
            let own = old.content.tensor == new;
            if own && old.content.stamp == cell.content.stamp && old.writer == cell.writer {
                let message = format!("tensor {new} takes page {page} twice");
                return refuse(Rule::V10, cell.by, message);
            }
            let (rule, what) = if old.reader >= known.outs {
                let row = At::Out(row(old.reader, self.program.outs.len()));
                let rule = if own { Rule::V7 } else { Rule::V5 };
                (rule, format!("{row} reads tensor {}", old.content.tensor))
            } else if old.writer >= known.ins {
                let row = At::In(row(old.writer, self.program.ins.len()));
                let rule = if own { Rule::V6 } else { Rule::V5 };
                (rule, format!("{row} writes tensor {}", old.content.tensor))
            } else {
                self.tensors[old.content.tensor.index()].sealed = None;
                continue;
            };
            let message = format!(
                "tensor {new} is written to page {page}, where {what}; that copy is not known to \
                 be complete"
            );
            return refuse(rule, cell.by, message);
        }
        self.arena.put(rows, cell);
        Ok(())
    }

    /// V10 inside a step: no access was put over another.
    fn still_there(&mut self, at: At, tensor: TensorId, place: Place) -> Verdict {
        let bytes = self.skeleton.tensor(tensor).bytes;
        for part in self.atlas.parts(place, bytes) {
            let wanted = self.content(tensor, part.skip);
            if let Err(unfit) = self.arena.holds(part.range, wanted, i64::MAX) {
                let skip = part.skip + (unfit.address - part.range.start);
                let message = format!(
                    "{} and {} are both accessed in page {}",
                    self.name(tensor, skip),
                    self.describe(unfit.found),
                    self.page(unfit.address)
                );
                return refuse(Rule::V10, at, message);
            }
        }
        self.tensors[tensor.index()].sealed = Some(place);
        Ok(())
    }

    /// The content that a tensor has from an offset on.
    pub(super) fn content(&self, tensor: TensorId, offset: u64) -> Content {
        Content {
            tensor,
            offset,
            stamp: self.tensors[tensor.index()].stamp,
        }
    }

    /// The numbers of the iteration's commands begin here.
    pub(super) fn base(&self) -> Known {
        self.base
    }

    /// What the running step knows.
    pub(super) fn known(&self) -> Known {
        self.known
    }

    /// Learns what the next in waits for; says what is known when it starts.
    pub(super) fn known_to_next_in(&mut self, after_out: i64) -> Known {
        let before = self.after_out.last().copied().unwrap_or(i64::MIN);
        let outs = before.max(self.base.outs + after_out);
        self.after_out.push(outs);
        Known {
            outs: outs.max(self.known.outs),
            ins: self.known.ins,
        }
    }

    /// Refuses a program that is too much work.
    pub(super) fn spend(&self, at: At) -> Verdict {
        if self.arena.visits + self.spill.visits > VISITS_MAX {
            let message = format!("up to here {VISITS_MAX} byte ranges had to be looked at");
            return refuse(Rule::V12, at, message);
        }
        Ok(())
    }
}

/// The row of a command in its table, by its number.
pub(super) fn row(number: i64, length: usize) -> usize {
    usize::try_from(number).map_or(0, |number| number % length.max(1))
}
