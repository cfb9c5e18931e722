//! Times: sets of positions on the opened circle, and whether two of them meet.
//!
//! Whoever looks for a page that is free at several times looks at all pages, and most of them are
//! taken at one of those times. To find that out costs a few words: those in which the times lie.

use core::ops::Range;

use super::stays::Position;

/// A set of positions: the words that are not zero, with their rows.
#[derive(Clone, Debug)]
pub(super) struct Times(Vec<(usize, u64)>);

/// Sets of positions, by number.
#[derive(Clone, Debug)]
pub(super) struct Table {
    words_each: usize,
    words: Vec<u64>,
}

impl Times {
    /// Positions of the ranges, of those below `end`.
    pub(super) fn of(ranges: impl Iterator<Item = Range<Position>>, end: Position) -> Self {
        let mut words = vec![0; words(end)];
        for range in ranges {
            let mut at = range.start;
            while at < range.end.min(end) {
                let (word, bit) = (at / u64::BITS, at % u64::BITS);
                let count = (u64::BITS - bit).min(range.end.min(end) - at);
                words[word as usize] |= (u64::MAX >> (u64::BITS - count)) << bit;
                at += count;
            }
        }
        let words = words.into_iter().enumerate();
        Self(words.filter(|&(_, word)| word != 0).collect())
    }
}

impl Table {
    /// One empty set of positions below `end`.
    pub(super) fn new(end: Position) -> Self {
        let words_each = words(end);
        Self {
            words_each,
            words: vec![0; words_each],
        }
    }

    /// Adds a set that is the same as another.
    pub(super) fn push_same(&mut self, number: u32) {
        let start = number as usize * self.words_each;
        self.words
            .extend_from_within(start..start + self.words_each);
    }

    /// Adds positions to a set.
    pub(super) fn add(&mut self, number: u32, times: &Times) {
        let own = &mut self.words[number as usize * self.words_each..][..self.words_each];
        times.0.iter().for_each(|&(row, word)| own[row] |= word);
    }

    /// Whether a set has none of some positions.
    pub(super) fn is_free_of(&self, number: u32, times: &Times) -> bool {
        let own = &self.words[number as usize * self.words_each..][..self.words_each];
        times.0.iter().all(|&(row, word)| own[row] & word == 0)
    }
}

fn words(end: Position) -> usize {
    end.div_ceil(u64::BITS) as usize
}

#[cfg(test)]
mod tests {
    use core::iter::once;

    use super::*;

    #[test]
    fn sets_meet_where_both_have_a_position() {
        let end = 200;
        let mut table = Table::new(end);
        table.add(0, &Times::of([0..3, 60..130].into_iter(), end));
        table.push_same(0);
        table.add(1, &Times::of(once(150..Position::MAX), end));
        let taken: Vec<Position> = (0..end)
            .filter(|&at| !table.is_free_of(1, &Times::of(once(at..at + 1), end)))
            .collect();
        let expected = (0..3).chain(60..130).chain(150..end);
        assert_eq!(taken, expected.collect::<Vec<_>>());
        let between = Times::of([3..60, 130..200].into_iter(), end);
        assert!(table.is_free_of(0, &between) && !table.is_free_of(1, &between));
    }
}
