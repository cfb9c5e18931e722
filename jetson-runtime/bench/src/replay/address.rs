//! From the runtime's pointers back to pages of the arena.
//!
//! In: the mappings of this process, as the kernel lists them. Out: for an address, the bytes of
//! the arena behind it. So a digest speaks of the memory that an op was really given, wherever the
//! windows lie in this run.

use std::fs;
use std::io;

use vtensor::ArenaRange;

use crate::error::BenchError;

/// The name of the arena's memory file, as the kernel shows it.
const ARENA: &str = "/memfd:vtensor-arena";

/// A mapping of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    /// Where in the arena it begins.
    offset: u64,
}

/// The mappings of arenas, by address.
#[derive(Clone, Debug)]
pub(super) struct AddressMap {
    mappings: Vec<Mapping>,
}

impl AddressMap {
    /// The map of this process now.
    pub(super) fn read() -> Result<Self, BenchError> {
        let text = fs::read_to_string("/proc/self/maps").map_err(BenchError::Maps)?;
        Self::parse(&text).ok_or_else(|| BenchError::Maps(io::ErrorKind::InvalidData.into()))
    }

    fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().filter(|line| line.contains(ARENA));
        // start-end rights offset device inode name; the kernel lists them by address.
        let mappings = lines.map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let offset = fields.nth(1)?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(Mapping {
                start: number(start)?,
                end: number(end)?,
                offset: number(offset)?,
            })
        });
        Some(Self {
            mappings: mappings.collect::<Option<_>>()?,
        })
    }

    /// The bytes of the arena behind `bytes` bytes from `address` on, neighbours as one range;
    /// `None` if any of them is not the arena's.
    pub(super) fn ranges(&self, address: u64, bytes: u64) -> Option<Vec<ArenaRange>> {
        let mut at = address;
        let end = address.checked_add(bytes)?;
        let mut next = self.mappings.partition_point(|m| m.end <= address);
        let mut ranges = Vec::new();
        while at < end {
            let mapping = self.mappings.get(next).filter(|m| m.start <= at)?;
            let start = mapping.offset + (at - mapping.start);
            let taken = end.min(mapping.end) - at;
            push(
                &mut ranges,
                ArenaRange {
                    start,
                    end: start + taken,
                },
            );
            at += taken;
            next += 1;
        }
        Some(ranges)
    }
}

/// Adds a range, to the one before it if it goes on there.
pub(super) fn push(ranges: &mut Vec<ArenaRange>, range: ArenaRange) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-3000 rw-s 00005000 00:01 7   /memfd:vtensor-arena (deleted)
3000-4000 rw-s 00001000 00:01 7   /memfd:vtensor-arena (deleted)
4000-6000 rw-s 00002000 00:01 7   /memfd:vtensor-arena (deleted)
8000-9000 rw-p 00000000 00:00 0   [heap]
9000-a000 rw-s 00000000 00:01 7   /memfd:vtensor-arena (deleted)
";

    #[test]
    fn addresses_lead_to_the_arena() {
        let map = AddressMap::parse(MAPS).expect("as the kernel writes");
        let range = |start, end| ArenaRange { start, end };
        assert_eq!(
            map.ranges(0x1800, 0x1000),
            Some(vec![range(0x5800, 0x6800)])
        );
        assert_eq!(
            map.ranges(0x2000, 0x3000),
            Some(vec![range(0x6000, 0x7000), range(0x1000, 0x3000)]),
            "two mappings, of which the second goes on in a third"
        );
        assert_eq!(map.ranges(0x9000, 0x1000), Some(vec![range(0, 0x1000)]));
        for (address, bytes) in [(0x800, 0x10), (0x5000, 0x2000), (0x8000, 1), (0x9fff, 2)] {
            assert_eq!(map.ranges(address, bytes), None, "{address:x}");
        }
        assert!(AddressMap::parse("1000-x rw-s 0 00:01 7 /memfd:vtensor-arena").is_none());
    }
}
