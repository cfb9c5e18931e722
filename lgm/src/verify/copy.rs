//! V6–V9 for copies: what outs and ins must find, and what they overwrite.

use core::ops::Range;

use vtensor::{ArenaRange, PieceRun};

use super::machine::{Machine, row};
use super::memory::{Cell, NONE};
use super::violation::{At, Rule, Verdict, refuse};

impl Machine<'_> {
    /// An out, when the step that releases it has just run.
    pub(super) fn copy_out(&mut self, index: usize) -> Verdict {
        let at = At::Out(index);
        let out = self.program.outs[index];
        let number = self.base().outs + super::order::length(index);
        let first = self.offset(out.pieces);
        for part in self.atlas.parts(out.source, out.bytes) {
            let wanted = self.content(out.tensor, first + part.skip);
            if let Err(unfit) = self.arena.holds(part.range, wanted, self.known().ins) {
                let name = self.name(out.tensor, wanted.offset);
                let page = self.page(unfit.address);
                let found = self.describe(unfit.found);
                return if unfit.pending {
                    let message = format!("{name} in page {page} is {found}, not yet complete");
                    refuse(Rule::V6, at, message)
                } else {
                    let message = format!("{name} was wanted in page {page}, there is {found}");
                    refuse(Rule::V7, at, message)
                };
            }
            self.arena.read_by(part.range, number);
        }
        let slot = ArenaRange {
            start: out.slot,
            end: out.slot + out.bytes.0,
        };
        let rows = self.spill.rows(slot);
        self.free_slot(at, rows.clone())?;
        let cell = Cell {
            content: self.content(out.tensor, first),
            by: at,
            writer: number,
            reader: NONE,
        };
        self.spill.put(rows, cell);
        self.tensors[out.tensor.index()].shared = true;
        self.spend(at)
    }

    /// V8: all copies that touch the slot are known to be complete. That outs are *started* in
    /// order is not enough: two that are under way may finish in either order.
    fn free_slot(&self, at: At, rows: Range<usize>) -> Verdict {
        let known = self.known();
        for cell_row in rows {
            let Some(old) = self.spill.cell(cell_row) else {
                continue;
            };
            let other = if old.reader >= known.ins {
                At::In(row(old.reader, self.program.ins.len()))
            } else if old.writer >= known.outs {
                At::Out(row(old.writer, self.program.outs.len()))
            } else {
                continue;
            };
            let message = format!(
                "it overwrites slot {} with tensor {} while {other}, which uses it, is not known \
                 to be complete",
                self.spill.address(cell_row),
                old.content.tensor
            );
            return refuse(Rule::V8, at, message);
        }
        Ok(())
    }

    /// An in, when the step that releases it and the outs of that step have been run.
    pub(super) fn copy_in(&mut self, index: usize) -> Verdict {
        let at = At::In(index);
        let copy = self.program.ins[index];
        let number = self.base().ins + super::order::length(index);
        let known = self.known_to_next_in(copy.after_out);
        let first = self.offset(copy.pieces);
        let wanted = self.content(copy.tensor, first);
        let slot = ArenaRange {
            start: copy.slot,
            end: copy.slot + copy.bytes.0,
        };
        if let Err(unfit) = self.spill.holds(slot, wanted, known.outs) {
            let skip = first + (unfit.address - slot.start);
            return Err(self.blame_in(index, skip, unfit));
        }
        self.spill.read_by(slot, number);
        for part in self.atlas.parts(copy.destination, copy.bytes) {
            let cell = Cell {
                content: self.content(copy.tensor, first + part.skip),
                by: at,
                writer: number,
                reader: NONE,
            };
            self.claim(part.range, cell, known)?;
        }
        self.tensors[copy.tensor.index()].shared = true;
        self.spend(at)
    }

    /// Where a run of pieces begins in its tensor.
    pub(super) fn offset(&self, pieces: PieceRun) -> u64 {
        u64::from(pieces.first) * self.program.piece_bytes.get()
    }
}
