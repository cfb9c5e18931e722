//! Which bytes of managed memory are on the device.
//!
//! In: prefetches, touches and discards, in the order in which they are enqueued. Out: how many
//! bytes are there, how many at most, and how many were touched before they were.
//!
//! Limits: nothing is evicted. A driver that runs out of memory would; here the highest amount
//! tells. Bytes count, not pages.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::space::AllocationId;

/// Ranges of bytes, disjoint and apart, by start.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Takes a range out; how many bytes of it were there.
    fn remove(&mut self, range: &Range<u64>) -> u64 {
        let touched: Vec<(u64, u64)> = self
            .0
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        let mut bytes = 0;
        for (start, end) in touched {
            self.0.remove(&start);
            bytes += end.min(range.end) - start.max(range.start);
            if start < range.start {
                self.0.insert(start, range.start);
            }
            if end > range.end {
                self.0.insert(range.end, end);
            }
        }
        bytes
    }

    /// Adds a range; how many bytes of it were missing.
    fn add(&mut self, range: &Range<u64>) -> u64 {
        let present = self.remove(range);
        let before = self.0.range(..range.start).next_back();
        let start = before
            .filter(|(_, end)| **end == range.start)
            .map(|(start, _)| *start);
        let end = self.0.remove(&range.end).unwrap_or(range.end);
        self.0.insert(start.unwrap_or(range.start), end);
        range.end - range.start - present
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) resident: u64,
    pub(crate) resident_max: u64,
    /// Bytes that kernels touched while they were not on the device.
    pub(crate) faulted: u64,
    /// Bytes that prefetches brought.
    pub(crate) prefetched: u64,
}

/// All managed memory.
#[derive(Debug, Default)]
pub(crate) struct Residency {
    allocations: HashMap<AllocationId, Ranges>,
    counts: Counts,
}

impl Residency {
    /// Managed memory that nobody has touched yet.
    pub(crate) fn allocate(&mut self, id: AllocationId) {
        self.allocations.insert(id, Ranges::default());
    }

    /// It is gone.
    pub(crate) fn free(&mut self, id: AllocationId) {
        self.leave(id, &(0..u64::MAX));
        self.allocations.remove(&id);
    }

    /// A prefetch to the device; how many bytes it moves.
    pub(crate) fn prefetch(&mut self, id: AllocationId, range: &Range<u64>) -> u64 {
        let moved = self.arrive(id, range);
        self.counts.prefetched += moved;
        moved
    }

    /// A kernel touches bytes; of memory that is not managed nothing is counted.
    pub(crate) fn touch(&mut self, id: AllocationId, range: &Range<u64>) {
        self.counts.faulted += self.arrive(id, range);
    }

    /// Bytes go to the host, or nowhere; how many were on the device.
    pub(crate) fn leave(&mut self, id: AllocationId, range: &Range<u64>) -> u64 {
        let ranges = self.allocations.get_mut(&id);
        let moved = ranges.map_or(0, |ranges| ranges.remove(range));
        self.counts.resident -= moved;
        moved
    }

    /// What was counted so far.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    fn arrive(&mut self, id: AllocationId, range: &Range<u64>) -> u64 {
        let Some(ranges) = self.allocations.get_mut(&id).filter(|_| !range.is_empty()) else {
            return 0;
        };
        let new = ranges.add(range);
        self.counts.resident += new;
        self.counts.resident_max = self.counts.resident_max.max(self.counts.resident);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_once() {
        let mut residency = Residency::default();
        let id = AllocationId(3);
        residency.touch(id, &(0..10));
        assert_eq!(residency.counts(), Counts::default(), "it is not managed");
        residency.allocate(id);
        residency.prefetch(id, &(0..10));
        residency.prefetch(id, &(20..30));
        residency.touch(id, &(5..25));
        residency.leave(id, &(8..9));
        residency.touch(id, &(8..8));
        let wanted = Counts {
            resident: 29,
            resident_max: 30,
            faulted: 10,
            prefetched: 20,
        };
        assert_eq!(residency.counts(), wanted);
        residency.free(id);
        assert_eq!(residency.counts().resident, 0);
    }

    #[test]
    fn ranges_agree_with_a_list_of_bytes() {
        for seed in 0..300 {
            let mut random = oorandom::Rand64::new(seed);
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 40]);
            for _ in 0..60 {
                let start = random.rand_range(0..40);
                let range = start..random.rand_range(start + 1..41);
                let adds = random.rand_range(0..2) == 0;
                let slice = usize::try_from(start).unwrap()..usize::try_from(range.end).unwrap();
                let changed = bytes[slice.clone()]
                    .iter()
                    .filter(|is| **is != adds)
                    .count() as u64;
                let found = if adds {
                    ranges.add(&range)
                } else {
                    ranges.remove(&range)
                };
                assert_eq!(found, changed, "seed {seed}");
                bytes[slice].fill(adds);
                let apart = ranges.0.iter().zip(ranges.0.keys().skip(1));
                assert!(
                    apart.into_iter().all(|((_, end), next)| end < next),
                    "seed {seed}"
                );
            }
        }
    }
}
