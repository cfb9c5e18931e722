//! Losses: which bytes of a tensor cannot be used, and why.
//!
//! In: ranges that were lost, torn or written. Out: what is left of them, in order. Guarantees:
//! ranges do not overlap, none is empty, and neighbours of one kind are one range. What is not
//! among them is intact. A tensor that has lost nothing takes no memory here.

use vtensor::Bytes;

/// Why bytes cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// They are gone: a copy failed, the spill file does not hold what was written, or a program
    /// had given them up because a later op was to overwrite them.
    Lost,
    /// An op that was given up was writing them: they would be old in part, new in part.
    Torn,
}

impl Loss {
    /// What became of the bytes, and what to do, for people.
    pub(crate) const fn said(self) -> &'static str {
        match self {
            Self::Lost => "lost; write them again, from a checkpoint",
            Self::Torn => {
                "torn by an op that was given up while it wrote them; write them again, from a \
                 checkpoint"
            }
        }
    }
}

/// Bytes of a tensor that cannot be used until they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub bytes: Bytes,
    /// Why.
    pub loss: Loss,
}

impl LostRange {
    /// One past the last byte.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.bytes.0
    }
}

/// The lost bytes of one tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses(Vec<LostRange>);

impl Losses {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// All bytes of a tensor of that size.
    pub(super) fn all(bytes: u64, loss: Loss) -> Self {
        let mut losses = Self::none();
        losses.add(0, bytes, loss);
        losses
    }

    /// By offset.
    pub(super) fn ranges(&self) -> &[LostRange] {
        &self.0
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nothing of a tensor of that size is left.
    pub(super) fn is_all_of(&self, bytes: u64) -> bool {
        self.0.iter().map(|range| range.bytes.0).sum::<u64>() == bytes
    }

    /// The first range that has a byte of `start .. end`, cut to it.
    pub(super) fn within(&self, start: u64, end: u64) -> Option<LostRange> {
        let touches = |range: &&LostRange| range.offset < end && start < range.end();
        let range = self.0.iter().find(touches)?;
        let (from, to) = (range.offset.max(start), range.end().min(end));
        (from < to).then_some(LostRange {
            offset: from,
            bytes: Bytes(to - from),
            loss: range.loss,
        })
    }

    /// Bytes `start .. end` cannot be used.
    pub(super) fn add(&mut self, start: u64, end: u64, loss: Loss) {
        if start >= end {
            return;
        }
        self.heal(start, end);
        let at = self.0.partition_point(|range| range.offset < start);
        let bytes = Bytes(end - start);
        self.0.insert(
            at,
            LostRange {
                offset: start,
                bytes,
                loss,
            },
        );
        self.0.dedup_by(|next, range| {
            let joins = range.end() == next.offset && range.loss == next.loss;
            if joins {
                range.bytes.0 += next.bytes.0;
            }
            joins
        });
    }

    /// Bytes `start .. end` were written.
    pub(super) fn heal(&mut self, start: u64, end: u64) {
        if self.within(start, end).is_none() {
            return;
        }
        let outside = |range: LostRange| {
            let before = (range.offset, range.end().min(start));
            let after = (range.offset.max(end), range.end());
            let sides = [before, after].into_iter().filter(|(from, to)| from < to);
            sides.map(move |(from, to)| LostRange {
                offset: from,
                bytes: Bytes(to - from),
                loss: range.loss,
            })
        };
        self.0 = self.0.drain(..).flat_map(outside).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, bytes: u64, loss: Loss) -> LostRange {
        let bytes = Bytes(bytes);
        LostRange {
            offset,
            bytes,
            loss,
        }
    }

    #[test]
    fn neighbours_of_one_kind_are_one_range_and_the_last_word_counts() {
        let mut losses = Losses::none();
        losses.add(20, 30, Loss::Lost);
        losses.add(0, 10, Loss::Lost);
        losses.add(5, 5, Loss::Torn);
        assert_eq!(
            losses.ranges(),
            [range(0, 10, Loss::Lost), range(20, 10, Loss::Lost)]
        );
        losses.add(10, 20, Loss::Lost);
        assert_eq!(losses, Losses::all(30, Loss::Lost));
        assert!(losses.is_all_of(30) && !losses.is_all_of(31));
        losses.add(10, 20, Loss::Torn);
        let torn = range(10, 10, Loss::Torn);
        assert_eq!(
            losses.ranges(),
            [range(0, 10, Loss::Lost), torn, range(20, 10, Loss::Lost)]
        );
        assert_eq!(losses.within(12, 100), Some(range(12, 8, Loss::Torn)));
        assert_eq!(losses.within(3, 4), Some(range(3, 1, Loss::Lost)));
        assert_eq!([losses.within(30, 40), losses.within(7, 7)], [None, None]);
    }

    #[test]
    fn what_is_written_is_healed_and_nothing_else() {
        for (start, end) in [(0, 3), (3, 7), (0, 10), (4, 4), (8, 20), (20, 30)] {
            let mut losses = Losses::all(10, Loss::Torn);
            losses.heal(start, end);
            for byte in 0..10 {
                let healed = (start..end).contains(&byte);
                let found = losses.within(byte, byte + 1);
                assert_eq!(found.is_none(), healed, "{start}..{end}: {byte}");
            }
            assert_eq!(losses.is_empty(), (start, end) == (0, 10));
        }
    }
}
