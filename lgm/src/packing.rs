//! Packing: offsets for blocks that live for some steps, such that no two overlap.
//!
//! Blocks of whole life first, end to end; then the others by size, descending, each at the lowest
//! offset that is free throughout its life. Near-optimal for many small blocks; quadratic in the
//! number of blocks that overlap.

use vtensor::{StepRange, TensorId};

/// Something of some size that lives for some steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) tensor: TensorId,
    pub(crate) life: StepRange,
    pub(crate) bytes: u64,
    /// Lives in every step and beyond: stacked first, end to end.
    pub(crate) whole_life: bool,
}

/// Gives each block an offset; blocks whose lives have a step in common do not overlap.
pub(crate) fn pack(mut blocks: Vec<Block>) -> Vec<(Block, u64)> {
    blocks.sort_by_key(|b| {
        (
            !b.whole_life,
            core::cmp::Reverse(b.bytes),
            b.life.start,
            b.life.end,
            b.tensor,
        )
    });
    let mut floor = 0;
    let mut placed: Vec<(Block, u64)> = Vec::with_capacity(blocks.len());
    // Those that can overlap something new, by offset.
    let mut by_offset: Vec<(u64, u64, StepRange)> = Vec::new();
    for block in blocks {
        if block.whole_life {
            placed.push((block, floor));
            floor += block.bytes;
            continue;
        }
        let mut offset = floor;
        for &(start, end, life) in &by_offset {
            if life.start >= block.life.end || block.life.start >= life.end {
                continue;
            }
            if start >= offset + block.bytes {
                break;
            }
            offset = offset.max(end);
        }
        let at = by_offset.partition_point(|&(start, _, _)| start <= offset);
        by_offset.insert(at, (offset, offset + block.bytes, block.life));
        placed.push((block, offset));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(tensor: u32, start: u32, end: u32, bytes: u64) -> Block {
        let life = StepRange { start, end };
        Block {
            tensor: TensorId(tensor),
            life,
            bytes,
            whole_life: false,
        }
    }

    #[test]
    fn blocks_that_never_meet_share_an_offset() {
        let placed = pack(vec![
            block(0, 0, 2, 512),
            block(1, 2, 4, 512),
            block(2, 0, 4, 1024),
        ]);
        let offset = |t: u32| placed.iter().find(|(b, _)| b.tensor.0 == t).map(|p| p.1);
        assert_eq!(offset(2), Some(0));
        assert_eq!((offset(0), offset(1)), (Some(1024), Some(1024)));
    }

    #[test]
    fn blocks_that_meet_do_not_overlap() {
        let mut blocks = Vec::new();
        for i in 0..200_u32 {
            let start = i * 7919 % 50;
            let bytes = u64::from(1 + i * 31 % 9) * 512;
            blocks.push(block(i, start, start + 1 + i % 13, bytes));
        }
        blocks[3].whole_life = true;
        blocks[3].life = StepRange { start: 0, end: 70 };
        let placed = pack(blocks);
        for (i, (a, at_a)) in placed.iter().enumerate() {
            for (b, at_b) in &placed[i + 1..] {
                let meet = a.life.start < b.life.end && b.life.start < a.life.end;
                let apart = at_a + a.bytes <= *at_b || at_b + b.bytes <= *at_a;
                assert!(!meet || apart, "{a:?} at {at_a} and {b:?} at {at_b}");
            }
        }
    }
}
