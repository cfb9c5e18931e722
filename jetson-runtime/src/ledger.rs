//! What each range of a memory holds: arena or spill tier, on paper.
//!
//! In: contents put over ranges, and ranges erased, in any order and overlap. Out: what lies in a
//! range now, cut to it. Not here: which program does so (see `residency`).

use std::collections::BTreeMap;

use vtensor::TensorId;

use crate::scale::to_usize;

/// Bytes of a tensor that some memory holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) end: u64,
    pub(crate) tensor: TensorId,
    /// The offset of the first byte in its tensor.
    pub(crate) offset: u64,
    pub(crate) version: u64,
    /// The address of the first byte; 0 in the spill tier.
    pub(crate) address: usize,
}

/// What each range of a memory holds, by its first byte. Ranges do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Ledger(BTreeMap<u64, Held>);

impl Ledger {
    /// What lies in a range, cut to it.
    pub(crate) fn over(&self, start: u64, end: u64) -> Vec<(u64, Held)> {
        let first = self
            .0
            .range(..start)
            .next_back()
            .map_or(start, |(&first, _)| first);
        let under = self
            .0
            .range(first..end)
            .filter(|(_, held)| held.end > start);
        under
            .map(|(&first, held)| held.cut(first, start, end))
            .collect()
    }

    /// Forgets what lies in a range.
    pub(crate) fn erase(&mut self, start: u64, end: u64) {
        for (first, part) in self.over(start, end) {
            let whole = self
                .0
                .range(..=first)
                .next_back()
                .map(|(&key, &held)| (key, held));
            let (key, held) = whole.expect("a part is part of an entry");
            self.0.remove(&key);
            for (from, to) in [(key, first), (part.end, held.end)] {
                if from < to {
                    let (from, rest) = held.cut(key, from, to);
                    self.0.insert(from, rest);
                }
            }
        }
    }

    /// Everything, with its first byte.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Held)> {
        self.0.iter().map(|(&start, held)| (start, held))
    }

    /// Puts a content over what was there.
    pub(crate) fn put(&mut self, start: u64, held: Held) {
        self.erase(start, held.end);
        self.0.insert(start, held);
    }
}

impl Held {
    /// The part inside `start .. end` of what begins at `first`.
    fn cut(&self, first: u64, start: u64, end: u64) -> (u64, Self) {
        let skip = start.saturating_sub(first);
        let part = Self {
            end: self.end.min(end),
            offset: self.offset + skip,
            address: if self.address == 0 {
                0
            } else {
                self.address + to_usize(skip)
            },
            ..*self
        };
        (first + skip, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 48;

    /// A memory byte by byte: tensor, offset, address.
    type Naive = [Option<(u32, u64, usize)>; to_usize(SIZE)];

    fn spread(ledger: &Ledger, start: u64, end: u64) -> Naive {
        let mut naive = [None; to_usize(SIZE)];
        for (first, held) in ledger.over(start, end) {
            assert!(start <= first && first < held.end && held.end <= end);
            for byte in first..held.end {
                let at = to_usize(byte - first);
                let address = if held.address == 0 {
                    0
                } else {
                    held.address + at
                };
                let cell = &mut naive[to_usize(byte)];
                assert_eq!(*cell, None, "ranges do not overlap");
                *cell = Some((held.tensor.0, held.offset + at as u64, address));
            }
        }
        naive
    }

    #[test]
    fn a_ledger_agrees_with_a_byte_by_byte_memory() {
        let (mut ledger, mut naive): (Ledger, Naive) = (Ledger::default(), [None; to_usize(SIZE)]);
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for turn in 0..4000_u32 {
            let start = random(SIZE);
            let end = start + 1 + random(SIZE - start);
            let address = to_usize(random(2) * 1000);
            let offset = random(100);
            let held = Held {
                end,
                tensor: TensorId(turn),
                offset,
                version: 0,
                address,
            };
            let erased = random(3) == 0;
            if erased {
                ledger.erase(start, end);
            } else {
                ledger.put(start, held);
            }
            for byte in start..end {
                let at = byte - start;
                let shown = if address == 0 {
                    0
                } else {
                    address + to_usize(at)
                };
                naive[to_usize(byte)] = (!erased).then_some((turn, offset + at, shown));
            }
            assert_eq!(spread(&ledger, 0, SIZE), naive, "turn {turn}");
            let (start, end) = (random(SIZE / 2), SIZE / 2 + random(SIZE / 2));
            let part = spread(&ledger, start, end);
            for byte in 0..SIZE {
                let inside = (start..end).contains(&byte);
                let expected = naive[to_usize(byte)].filter(|_| inside);
                assert_eq!(
                    part[to_usize(byte)],
                    expected,
                    "turn {turn}, {start}..{end}"
                );
            }
        }
    }
}
