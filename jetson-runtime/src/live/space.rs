//! A range of memory on paper: which blocks of it are taken.
//!
//! In: sizes. Out: offsets, the lowest that fit. Limit: looking for a fit passes every block before
//! it; for the recording phase, not for the step path.

use std::collections::BTreeMap;

/// The blocks of a range.
#[derive(Debug)]
pub(super) struct Space {
    size: u64,
    align: u64,
    /// The end of each block, by its start.
    blocks: BTreeMap<u64, u64>,
    used: u64,
}

impl Space {
    /// A free range whose blocks start at multiples of `align`.
    pub(super) fn new(size: u64, align: u64) -> Self {
        Self {
            size,
            align,
            blocks: BTreeMap::new(),
            used: 0,
        }
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// What blocks start at multiples of.
    pub(super) const fn align(&self) -> u64 {
        self.align
    }

    /// Another one, for a range without blocks.
    pub(super) fn align_to(&mut self, align: u64) {
        assert!(self.blocks.is_empty(), "blocks lie in the range");
        self.align = align;
    }

    /// Bytes that no block has.
    pub(super) const fn free_bytes(&self) -> u64 {
        self.size - self.used
    }

    pub(super) const fn used_bytes(&self) -> u64 {
        self.used
    }

    /// What a block of `bytes` bytes takes.
    pub(super) const fn taken_by(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.align)
    }

    /// Takes a block at the lowest offset where it fits.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let bytes = self.taken_by(bytes);
        let mut start = 0;
        for (&block, &end) in &self.blocks {
            if block - start >= bytes {
                break;
            }
            start = end;
        }
        if self.size - start < bytes {
            return None;
        }
        self.blocks.insert(start, start + bytes);
        self.used += bytes;
        Some(start)
    }

    /// Gives the block at `start` back.
    pub(super) fn give(&mut self, start: u64) {
        let end = self.blocks.remove(&start).expect("a block is given once");
        self.used -= end - start;
    }

    /// Another size, for a range without blocks.
    pub(super) fn resize(&mut self, size: u64) {
        assert!(self.blocks.is_empty(), "blocks lie in the range");
        self.size = size;
    }

    /// Gives all blocks back.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.used = 0;
    }

    /// The ranges that no block has.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let starts = std::iter::once(0).chain(self.blocks.values().copied());
        let ends = self.blocks.keys().copied().chain([self.size]);
        starts.zip(ends).filter(|(start, end)| start < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_as_low_as_they_fit() {
        let mut space = Space::new(4096, 512);
        let blocks = [1, 513, 512].map(|bytes| space.take(bytes).unwrap());
        assert_eq!(blocks, [0, 512, 1536]);
        space.give(512);
        assert_eq!(space.take(1025), Some(2048), "the hole is too small");
        assert_eq!(space.take(1024), Some(512));
        assert_eq!(space.take(513), None);
        assert_eq!((space.free_bytes(), space.used_bytes()), (512, 3584));
        assert_eq!(space.gaps().collect::<Vec<_>>(), [(3584, 4096)]);
        space.give(0);
        assert_eq!(space.gaps().collect::<Vec<_>>(), [(0, 512), (3584, 4096)]);
        assert_eq!(space.take(u64::MAX - 4096), None);
        space.clear();
        assert_eq!(space.take(4096), Some(0));
        assert_eq!(space.gaps().count(), 0);
    }
}
