//! The last accesses to each byte of one allocation, as ranges.
//!
//! Kept of a range: the last write, and the reads and the atomic updates since, each as far as no
//! later one of them is known to come after it. That is enough to find, for every access, whether
//! some earlier one conflicts with it, up to the first conflict of a byte; what comes after a
//! conflict on the same bytes is compared with the later of the two only.
//!
//! Source: FastTrack (Flanagan, Freund, PLDI 2009), on ranges instead of words.

use std::collections::BTreeMap;
use std::ops::Range;

use super::clock::{Clock, Mark};

/// How bytes are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    /// A read and a write that no other atomic update comes between.
    Atomic,
    /// The content is given up; until the next write it may be anything.
    Discard,
}

/// An earlier access that a new one is not ordered after, or whose result it may not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) earlier: Mark,
    pub(crate) mode: Mode,
    /// The first bytes in question.
    pub(crate) range: Range<u64>,
}

/// What is known of the bytes from where a cell begins to `end`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cell {
    end: u64,
    written: Option<(Mark, Mode)>,
    reads: Vec<Mark>,
    atomics: Vec<Mark>,
}

/// The bytes of an allocation, as far as they were touched.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    cells: BTreeMap<u64, Cell>,
    /// The last access of each line.
    latest: Vec<Mark>,
}

impl Shadow {
    /// Adds an access, and finds what it conflicts with. `clock` is what the access is ordered
    /// after; it covers the access itself.
    pub(crate) fn touch(
        &mut self,
        range: Range<u64>,
        mode: Mode,
        mark: Mark,
        clock: &Clock,
    ) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        if range.is_empty() {
            return conflicts;
        }
        self.note(mark);
        self.cut(range.start);
        self.cut(range.end);
        for (start, cell) in self.cells.range(range.clone()) {
            cell.conflicts(*start, mode, clock, &mut conflicts);
        }
        match mode {
            Mode::Write | Mode::Discard => self.overwrite(&range, mode, mark),
            Mode::Read | Mode::Atomic => self.add(&range, mode, mark, clock),
        }
        self.merge(&range);
        conflicts
    }

    /// An access that `clock` does not know to be complete.
    pub(crate) fn pending(&self, clock: &Clock) -> Option<Mark> {
        let pending = |mark: &&Mark| !clock.covers(mark);
        self.latest.iter().find(pending).copied()
    }

    fn note(&mut self, mark: Mark) {
        match self.latest.iter_mut().find(|last| last.line == mark.line) {
            Some(last) => *last = mark,
            None => self.latest.push(mark),
        }
    }

    /// Makes `at` a border between cells.
    fn cut(&mut self, at: u64) {
        if let Some((_, cell)) = self.cells.range_mut(..at).next_back()
            && cell.end > at
        {
            let behind = cell.clone();
            cell.end = at;
            self.cells.insert(at, behind);
        }
    }

    fn overwrite(&mut self, range: &Range<u64>, mode: Mode, mark: Mark) {
        let gone: Vec<u64> = self.cells.range(range.clone()).map(|(at, _)| *at).collect();
        for at in gone {
            self.cells.remove(&at);
        }
        let cell = Cell {
            end: range.end,
            written: Some((mark, mode)),
            ..Cell::default()
        };
        self.cells.insert(range.start, cell);
    }

    fn add(&mut self, range: &Range<u64>, mode: Mode, mark: Mark, clock: &Clock) {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (start, cell) in self.cells.range_mut(range.clone()) {
            if *start > at {
                gaps.push(at..*start);
            }
            cell.add(mode, mark, clock);
            at = cell.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            let mut cell = Cell {
                end: gap.end,
                ..Cell::default()
            };
            cell.add(mode, mark, clock);
            self.cells.insert(gap.start, cell);
        }
    }

    /// Joins equal neighbours around and in a range.
    fn merge(&mut self, range: &Range<u64>) {
        let before = self.cells.range(..range.start).next_back();
        let first = before.map_or(range.start, |(at, _)| *at);
        let starts: Vec<u64> = self
            .cells
            .range(first..=range.end)
            .map(|(at, _)| *at)
            .collect();
        let mut kept = None;
        for start in starts {
            if let Some(last) = kept
                && self.joined(last, start)
            {
                continue;
            }
            kept = Some(start);
        }
    }

    /// Joins the cell at `start` to the one at `last`, if they touch and are equal.
    fn joined(&mut self, last: u64, start: u64) -> bool {
        let (left, right) = (&self.cells[&last], &self.cells[&start]);
        let end = right.end;
        let same = left.end == start && left.same(right);
        if same {
            self.cells.remove(&start);
            let left = self.cells.get_mut(&last).expect("it was just read");
            left.end = end;
        }
        same
    }
}

impl Cell {
    fn same(&self, other: &Self) -> bool {
        (self.written, &self.reads, &self.atomics) == (other.written, &other.reads, &other.atomics)
    }

    /// Adds an access that does not replace what was there, and forgets those it comes after.
    fn add(&mut self, mode: Mode, mark: Mark, clock: &Clock) {
        // Whoever is ordered after the new one is ordered after those that it covers.
        let list = match mode {
            Mode::Atomic => &mut self.atomics,
            _ => &mut self.reads,
        };
        list.retain(|earlier| !clock.covers(earlier));
        list.push(mark);
    }

    fn conflicts(&self, start: u64, mode: Mode, clock: &Clock, found: &mut Vec<Conflict>) {
        let mut add = |earlier: Mark, with: Mode| {
            let known = |c: &Conflict| c.earlier == earlier && c.mode == with;
            if !found.iter().any(known) {
                found.push(Conflict {
                    earlier,
                    mode: with,
                    range: start..self.end,
                });
            }
        };
        if let Some((written, how)) = self.written {
            let indeterminate = how == Mode::Discard
                && matches!(mode, Mode::Read | Mode::Atomic)
                && self.atomics.is_empty();
            if indeterminate || !clock.covers(&written) {
                add(written, how);
            }
        }
        let replaces = matches!(mode, Mode::Write | Mode::Discard);
        if replaces || mode == Mode::Atomic {
            let late = self.reads.iter().filter(|mark| !clock.covers(mark));
            late.for_each(|mark| add(*mark, Mode::Read));
        }
        if replaces || mode == Mode::Read {
            let late = self.atomics.iter().filter(|mark| !clock.covers(mark));
            late.for_each(|mark| add(*mark, Mode::Atomic));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Line;

    fn mark(line: u32, number: u64) -> Mark {
        Mark {
            line: Line(line),
            number,
            what: "x",
        }
    }

    /// A line whose work knows only itself.
    fn touch(shadow: &mut Shadow, line: u32, clock: &mut Clock, range: Range<u64>, mode: Mode) {
        let number = clock.next(Line(line));
        let found = shadow.touch(range, mode, mark(line, number), clock);
        assert_eq!(found, []);
    }

    #[test]
    fn what_is_equal_is_one_cell() {
        let (mut shadow, mut clock) = (Shadow::default(), Clock::default());
        for part in 0..100 {
            touch(
                &mut shadow,
                1,
                &mut clock,
                part * 10..part * 10 + 10,
                Mode::Write,
            );
        }
        assert_eq!(shadow.cells.len(), 100, "each part has its own last write");
        touch(&mut shadow, 1, &mut clock, 0..1000, Mode::Read);
        assert_eq!(shadow.cells.len(), 100);
        touch(&mut shadow, 1, &mut clock, 0..1000, Mode::Write);
        assert_eq!(shadow.cells.len(), 1);
        touch(&mut shadow, 1, &mut clock, 500..600, Mode::Read);
        assert_eq!(shadow.cells.len(), 3);
        touch(&mut shadow, 1, &mut clock, 0..1000, Mode::Read);
        assert_eq!(shadow.cells.len(), 1, "one read covers the other");
    }

    #[test]
    fn a_gap_is_touched_too() {
        let (mut shadow, mut clock) = (Shadow::default(), Clock::default());
        touch(&mut shadow, 1, &mut clock, 10..20, Mode::Write);
        touch(&mut shadow, 1, &mut clock, 0..30, Mode::Read);
        let mut other = Clock::default();
        let number = other.next(Line(2));
        for range in [0..1, 29..30, 15..16] {
            let found = shadow.touch(range.clone(), Mode::Write, mark(2, number), &other);
            assert!(
                found.iter().any(|c| c.mode == Mode::Read),
                "{range:?}: {found:?}"
            );
        }
        assert!(
            shadow
                .touch(30..40, Mode::Write, mark(2, number), &other)
                .is_empty()
        );
        assert!(
            shadow
                .touch(5..5, Mode::Write, mark(2, number), &other)
                .is_empty()
        );
    }

    #[test]
    fn discarded_bytes_are_read_after_a_write_only() {
        let (mut shadow, mut clock) = (Shadow::default(), Clock::default());
        touch(&mut shadow, 1, &mut clock, 0..10, Mode::Write);
        touch(&mut shadow, 1, &mut clock, 0..10, Mode::Discard);
        touch(&mut shadow, 1, &mut clock, 0..4, Mode::Write);
        touch(&mut shadow, 1, &mut clock, 0..4, Mode::Read);
        let number = clock.next(Line(1));
        let found = shadow.touch(0..5, Mode::Read, mark(1, number), &clock);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].mode, found[0].range.start), (Mode::Discard, 4));
    }
}
