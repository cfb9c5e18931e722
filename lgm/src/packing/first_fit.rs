//! First fit: blocks in a given order, each at the lowest offset that is free throughout its life.
//!
//! Quadratic in the number of blocks.

use super::{Block, Packing};

/// Packs blocks in an order, which names each once.
pub(super) fn first_fit(blocks: &[Block], order: &[usize]) -> Packing {
    let mut offsets = vec![0; blocks.len()];
    // What is placed, by offset.
    let mut placed: Vec<(u64, usize)> = Vec::with_capacity(blocks.len());
    let mut height = 0;
    for &row in order {
        let block = &blocks[row];
        let mut offset = 0;
        for &(start, other) in &placed {
            if start >= offset + block.bytes {
                break;
            }
            let end = start + blocks[other].bytes;
            if end > offset && block.meets(&blocks[other]) {
                offset = end;
            }
        }
        let at = placed.partition_point(|&(start, _)| start <= offset);
        placed.insert(at, (offset, row));
        offsets[row] = offset;
        height = height.max(offset + block.bytes);
    }
    Packing { offsets, height }
}
