//! Symbolic memory: which bytes of which tensor, as whom wrote them, each address holds.
//!
//! The arena is one such memory and the spill tier another. Beside its content each cell knows
//! the last copy that wrote it and the last that reads it, by absolute number: whoever overwrites
//! the cell must know both to be complete.
//!
//! A memory is cut once, at every address where anything that the program does begins or ends.
//! Nothing happens to a part of a cell, and there are at most twice as many cells as the program
//! has places, commands, homes and runs, however large the memory is.

use core::ops::Range;

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
pub(super) struct Memory {
    /// Where cells begin and end, rising.
    cuts: Vec<u64>,
    /// What lies between two cuts; nothing where nothing was written.
    cells: Vec<Option<Cell>>,
    /// How many cells were looked at.
    pub(super) visits: u64,
}

impl Memory {
    /// An empty memory, cut at these addresses, in any order.
    pub(super) fn new(mut cuts: Vec<u64>) -> Self {
        cuts.sort_unstable();
        cuts.dedup();
        let cells = vec![None; cuts.len().saturating_sub(1)];
        Self {
            cuts,
            cells,
            visits: 0,
        }
    }

    /// The rows of the cells that make up a range, in order.
    ///
    /// # Panics
    /// If the memory is not cut at both ends of the range.
    pub(super) fn rows(&self, range: ArenaRange) -> Range<usize> {
        const CUT: &str = "memory is cut wherever a range of the program begins or ends";
        let first = self.cuts.binary_search(&range.start).expect(CUT);
        // Most ranges are one cell.
        if self.cuts.get(first + 1) == Some(&range.end) {
            return first..first + 1;
        }
        first..self.cuts.binary_search(&range.end).expect(CUT)
    }

    /// What is in a cell, if anything was written.
    pub(super) fn cell(&self, row: usize) -> Option<&Cell> {
        self.cells[row].as_ref()
    }

    /// Where a cell begins.
    pub(super) fn address(&self, row: usize) -> u64 {
        self.cuts[row]
    }

    fn range(&self, row: usize) -> ArenaRange {
        ArenaRange {
            start: self.cuts[row],
            end: self.cuts[row + 1],
        }
    }

    /// Whether a range holds `wanted`, written by a copy below `writers` or by none.
    pub(super) fn holds(
        &mut self,
        range: ArenaRange,
        wanted: Content,
        writers: i64,
    ) -> Result<(), Unfit> {
        let rows = self.rows(range);
        self.visits += rows.len() as u64;
        for row in rows {
            let address = self.cuts[row];
            let here = wanted.skip(address - range.start);
            match &self.cells[row] {
                Some(cell) if cell.content == here && cell.writer < writers => {}
                found => {
                    return Err(Unfit {
                        address,
                        found: *found,
                        pending: found.is_some_and(|cell| cell.content == here),
                    });
                }
            }
        }
        Ok(())
    }

    /// Replaces whatever these cells hold; `cell` says what their first byte becomes.
    pub(super) fn put(&mut self, rows: Range<usize>, cell: Cell) {
        self.visits += rows.len() as u64;
        let start = self.cuts[rows.start];
        for row in rows {
            let content = cell.content.skip(self.cuts[row] - start);
            self.cells[row] = Some(Cell { content, ..cell });
        }
    }

    /// Notes that a copy reads a range.
    pub(super) fn read_by(&mut self, range: ArenaRange, reader: i64) {
        let rows = self.rows(range);
        self.visits += rows.len() as u64;
        for cell in self.cells[rows].iter_mut().flatten() {
            cell.reader = cell.reader.max(reader);
        }
    }

    /// All cells that something was written to, in order of their addresses.
    pub(super) fn cells(&self) -> impl Iterator<Item = (ArenaRange, &Cell)> {
        let rows = self.cells.iter().enumerate();
        rows.filter_map(|(row, cell)| Some((self.range(row), cell.as_ref()?)))
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

    fn put(memory: &mut Memory, range: ArenaRange, cell: Cell) {
        memory.put(memory.rows(range), cell);
    }

    /// The tensor, offset and reader of each address at which a cell begins.
    fn seen(memory: &Memory) -> Vec<(u64, u32, u64, i64)> {
        let cells = memory.cells();
        cells
            .map(|(range, c)| (range.start, c.content.tensor.0, c.content.offset, c.reader))
            .collect()
    }

    #[test]
    fn cells_keep_their_offsets() {
        let mut memory = Memory::new(vec![30, 0, 10, 20, 15, 10, 35]);
        put(&mut memory, range(10, 30), cell(1, 0));
        put(&mut memory, range(15, 20), cell(2, 100));
        memory.read_by(range(10, 20), 7);
        memory.read_by(range(10, 15), 5);
        let expected = [(10, 1, 0, 7), (15, 2, 100, 7), (20, 1, 10, NONE)];
        assert_eq!(seen(&memory), expected);
        assert_eq!(memory.rows(range(0, 35)), 0..5);
        assert!(
            memory
                .holds(range(20, 30), cell(1, 10).content, NONE + 1)
                .is_ok()
        );
        let unfit = memory
            .holds(range(10, 30), cell(1, 0).content, 0)
            .expect_err("a hole");
        assert_eq!((unfit.address, unfit.pending), (15, false));
        put(&mut memory, range(0, 35), cell(4, 0));
        assert_eq!(seen(&memory).last(), Some(&(30, 4, 30, NONE)));
    }
}
