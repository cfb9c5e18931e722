//! Symbolic memory: which bytes of which tensor, as whom wrote them, each address holds.
//!
//! The arena is one such memory and the spill tier another. Beside its content each cell knows
//! the last copy that wrote it and the last that reads it, by absolute number: whoever overwrites
//! the cell must know both to be complete.
//!
//! Cells are cut where requests begin and end, so there are at most as many as the program has
//! places, commands and runs, times a small number, however large the memory is.

use std::collections::BTreeMap;

use vtensor::{ArenaRange, TensorId};

use super::violation::At;

/// The number of no command.
pub(super) const NONE: i64 = i64::MIN;

/// Which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Of which tensor.
    pub(super) tensor: TensorId,
    /// The offset in the tensor of the first byte.
    pub(super) offset: u64,
    /// Which version: equal stamps of one tensor are equal contents.
    pub(super) stamp: u64,
}

impl Content {
    fn skip(self, bytes: u64) -> Self {
        Self {
            offset: self.offset + bytes,
            ..self
        }
    }
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// What they hold.
    pub(super) content: Content,
    /// Who put it there.
    pub(super) by: At,
    /// The number of the copy that wrote them, or [`NONE`].
    pub(super) writer: i64,
    /// The number of the last copy that reads them, or [`NONE`].
    pub(super) reader: i64,
}

impl Cell {
    fn skip(self, bytes: u64) -> Self {
        Self {
            content: self.content.skip(bytes),
            ..self
        }
    }
}

/// A stretch of memory: a cell, or bytes that nothing was written to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Its bytes.
    pub(super) range: ArenaRange,
    /// What is there.
    pub(super) cell: Option<Cell>,
}

/// Why a range does not serve a reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfit {
    /// From which address on.
    pub(super) address: u64,
    /// What is there; if it is what is wanted, the copy that wrote it is not known to be complete.
    pub(super) found: Option<Cell>,
    /// Whether it is what is wanted.
    pub(super) pending: bool,
}

/// How far the two queues are known to be complete: copies of lower numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Outs.
    pub(super) outs: i64,
    /// Ins.
    pub(super) ins: i64,
}

/// A memory. Addresses count from 0.
#[derive(Default)]
pub(super) struct Memory {
    /// By first address; the number is one past the last address.
    cells: BTreeMap<u64, (u64, Cell)>,
    /// How many stretches were looked at.
    pub(super) visits: u64,
}

impl Memory {
    /// Whether a range holds `wanted`, written by a copy below `writers` or by none.
    pub(super) fn holds(
        &mut self,
        range: ArenaRange,
        wanted: Content,
        writers: i64,
    ) -> Result<(), Unfit> {
        let mut visits = 0;
        let mut unfit = None;
        for stretch in self.stretches(range) {
            visits += 1;
            let at = stretch.range.start;
            let here = wanted.skip(at - range.start);
            match stretch.cell {
                Some(cell) if cell.content == here && cell.writer < writers => {}
                found => {
                    unfit = Some(Unfit {
                        address: at,
                        found,
                        pending: found.is_some_and(|cell| cell.content == here),
                    });
                    break;
                }
            }
        }
        self.visits += visits;
        unfit.map_or(Ok(()), Err)
    }

    /// What a range holds, in order and without holes, cut at its ends.
    pub(super) fn stretches(&self, range: ArenaRange) -> impl Iterator<Item = Stretch> {
        let before = self.cells.range(..=range.start).next_back();
        let first = before.map_or(range.start, |(&start, _)| start);
        let mut cells = self.cells.range(first..range.end).peekable();
        let mut at = range.start;
        std::iter::from_fn(move || {
            while cells.peek().is_some_and(|(_, (end, _))| *end <= at) {
                cells.next();
            }
            if at >= range.end {
                return None;
            }
            let start = at;
            let cell = match cells.peek() {
                Some(&(&from, &(end, cell))) if from <= at => {
                    at = end.min(range.end);
                    Some(cell.skip(start - from))
                }
                Some(&(&from, _)) => {
                    at = from;
                    None
                }
                None => {
                    at = range.end;
                    None
                }
            };
            Some(Stretch {
                range: ArenaRange { start, end: at },
                cell,
            })
        })
    }

    /// Replaces whatever a range holds.
    pub(super) fn put(&mut self, range: ArenaRange, cell: Cell) {
        if range.start >= range.end {
            return;
        }
        if let Some(same) = self.cells.get_mut(&range.start)
            && same.0 == range.end
        {
            same.1 = cell;
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        while let Some((&start, _)) = self.cells.range(range.start..range.end).next() {
            self.cells.remove(&start);
        }
        self.cells.insert(range.start, (range.end, cell));
    }

    /// Notes that a copy reads a range.
    pub(super) fn read_by(&mut self, range: ArenaRange, reader: i64) {
        self.cut(range.start);
        self.cut(range.end);
        for (_, (_, cell)) in self.cells.range_mut(range.start..range.end) {
            cell.reader = cell.reader.max(reader);
        }
    }

    /// All cells, in order of their addresses.
    pub(super) fn cells(&self) -> impl Iterator<Item = (ArenaRange, &Cell)> {
        let range = |start, end| ArenaRange { start, end };
        self.cells.iter().map(move |(&s, (e, c))| (range(s, *e), c))
    }

    /// Lets a cell begin at `at`, if one reaches over it.
    fn cut(&mut self, at: u64) {
        let Some((&start, reach)) = self.cells.range_mut(..at).next_back() else {
            return;
        };
        let (end, cell) = *reach;
        if at < end {
            reach.0 = at;
            self.cells.insert(at, (end, cell.skip(at - start)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(tensor: u32, offset: u64) -> Cell {
        Cell {
            content: Content {
                tensor: TensorId(tensor),
                offset,
                stamp: 1,
            },
            by: At::Table,
            writer: NONE,
            reader: NONE,
        }
    }

    fn range(start: u64, end: u64) -> ArenaRange {
        ArenaRange { start, end }
    }

    fn seen(memory: &Memory, start: u64, end: u64) -> Vec<(u64, u64, Option<(u32, u64, i64)>)> {
        let what = |c: Cell| (c.content.tensor.0, c.content.offset, c.reader);
        let stretches = memory.stretches(range(start, end));
        stretches
            .map(|s| (s.range.start, s.range.end, s.cell.map(what)))
            .collect()
    }

    #[test]
    fn cells_are_cut_and_keep_their_offsets() {
        let mut memory = Memory::default();
        memory.put(range(10, 30), cell(1, 0));
        memory.put(range(15, 20), cell(2, 100));
        assert_eq!(
            seen(&memory, 5, 40),
            [
                (5, 10, None),
                (10, 15, Some((1, 0, NONE))),
                (15, 20, Some((2, 100, NONE))),
                (20, 30, Some((1, 10, NONE))),
                (30, 40, None),
            ]
        );
        assert_eq!(seen(&memory, 22, 24), [(22, 24, Some((1, 12, NONE)))]);
        memory.read_by(range(12, 18), 7);
        memory.put(range(20, 35), cell(3, 0));
        assert_eq!(
            seen(&memory, 11, 35),
            [
                (11, 12, Some((1, 1, NONE))),
                (12, 15, Some((1, 2, 7))),
                (15, 18, Some((2, 100, 7))),
                (18, 20, Some((2, 103, NONE))),
                (20, 35, Some((3, 0, NONE))),
            ]
        );
        memory.put(range(0, 50), cell(4, 0));
        assert_eq!(memory.cells().count(), 1);
    }
}
