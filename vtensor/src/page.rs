//! Pages: the equal physical pieces of the arena, and ranges of them.

use serde::{Deserialize, Serialize};

/// Consecutive pages of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PageRun {
    /// The first page.
    pub first: u32,
    /// How many, at least one.
    pub count: u32,
}

impl PageRun {
    /// One past the last page.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.first as u64 + self.count as u64
    }
}

/// Bytes of the arena, `start .. end`, both counted from the arena's first byte. Ownership is of
/// such ranges, not of whole pages: tails and small tensors share pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArenaRange {
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ArenaRange {
    /// Whether two ranges have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}
