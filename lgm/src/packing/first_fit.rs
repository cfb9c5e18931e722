//! First fit: blocks in a given order, each at the lowest offset that is free throughout its life.
//!
//! Quadratic in the number of blocks that do not live throughout.

use vtensor::StepRange;

use super::{Block, Packing};

/// A block that is placed.
#[derive(Clone, Copy)]
struct Placed {
    start: u64,
    end: u64,
    lives: [StepRange; 2],
}

/// Packs blocks in an order, which names each once. The first `always` of them live throughout.
pub(super) fn first_fit(blocks: &[Block], order: &[usize], always: usize) -> Packing {
    let mut offsets = vec![0; blocks.len()];
    let mut floor = 0;
    for &row in &order[..always] {
        offsets[row] = floor;
        floor += blocks[row].bytes;
    }
    let mut height = floor;
    // What is placed, by offset.
    let mut placed: Vec<Placed> = Vec::with_capacity(blocks.len() - always);
    for &row in &order[always..] {
        let block = &blocks[row];
        let mut offset = floor;
        for other in &placed {
            if other.start >= offset + block.bytes {
                break;
            }
            if other.end > offset && block.meets_lives(other.lives) {
                offset = other.end;
            }
        }
        let at = placed.partition_point(|other| other.start <= offset);
        let end = offset + block.bytes;
        let lives = block.lives;
        placed.insert(
            at,
            Placed {
                start: offset,
                end,
                lives,
            },
        );
        offsets[row] = offset;
        height = height.max(end);
    }
    Packing { offsets, height }
}
