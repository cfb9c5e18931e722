//! Squeaky wheel: first fit in several orders, and in better ones: whoever ended too high comes
//! sooner the next time.
//!
//! Source: Joslin and Clements, *Squeaky Wheel Optimization*, J. Artificial Intelligence Research
//! 10, 1999, for the idea.

use core::cmp::Reverse;

use super::first_fit::first_fit;
use super::{Block, Packing, Sections, height};

/// How many rounds one order is improved for without a gain.
const PATIENCE: usize = 30;

/// The best packing of several orders, and of what they are improved to; the first order only if
/// there is no work left.
pub(super) fn pack(blocks: &[Block], goal: u64, work: &mut u64) -> Packing {
    let cost = (blocks.len() as u64).pow(2) / 4 + 1;
    let orders = orders(blocks);
    let mut best = first_fit(blocks, &orders[0]);
    let mut packed = vec![(best.height, 0)];
    for (row, order) in orders.iter().enumerate().skip(1) {
        if best.height <= goal || *work < cost {
            break;
        }
        *work -= cost;
        let packing = first_fit(blocks, order);
        packed.push((packing.height, row));
        if packing.height < best.height {
            best = packing;
        }
    }
    packed.sort_unstable();
    for (_, row) in packed {
        improve(blocks, goal, &orders[row], (&mut best, work));
    }
    best
}

/// Improves one order for as long as that helps.
fn improve(blocks: &[Block], goal: u64, order: &[usize], (best, work): (&mut Packing, &mut u64)) {
    let cost = (blocks.len() as u64).pow(2) / 4 + 1;
    let mut order = order.to_vec();
    let mut packing = first_fit(blocks, &order);
    let (mut own_best, mut patience) = (packing.height, PATIENCE);
    while best.height > goal && patience > 0 && *work >= cost {
        *work -= cost;
        // What ends above the line moves up by a third of the way to the front, so that it still
        // comes after what is hard too.
        let line = goal.max(packing.height - packing.height / 64);
        let mut key: Vec<(usize, usize)> =
            (0..).zip(&order).map(|(at, &row)| (3 * at, row)).collect();
        for (at, row) in &mut key {
            if packing.offsets[*row] + blocks[*row].bytes > line {
                *at = (*at * 2 / 3).saturating_sub(4);
            }
        }
        key.sort_unstable();
        order = key.into_iter().map(|(_, row)| row).collect();
        packing = first_fit(blocks, &order);
        debug_assert_eq!(packing.height, height(blocks, &packing.offsets));
        patience -= 1;
        if packing.height < own_best {
            (own_best, patience) = (packing.height, PATIENCE);
        }
        if packing.height < best.height {
            *best = packing.clone();
        }
    }
}

/// Orders that do well, the best for most first. What lives throughout meets everything and is at
/// the bottom in all of them.
fn orders(blocks: &[Block]) -> Vec<Vec<usize>> {
    let sections = Sections::of(blocks);
    let loads = sections.loads(blocks);
    let always = |block: &Block| {
        let spans = sections.spans(block);
        spans.iter().map(ExactSizeIterator::len).sum::<usize>() == sections.count()
    };
    let crowd = |block: &Block| {
        let spans = sections.spans(block).into_iter();
        spans
            .flat_map(|span| &loads[span])
            .copied()
            .max()
            .unwrap_or(0)
    };
    let facts: Vec<(bool, u64, u64, u64)> = blocks
        .iter()
        .map(|block| (!always(block), block.bytes, block.length(), crowd(block)))
        .collect();
    let sorted = |key: fn((u64, u64, u64)) -> [u64; 3]| {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&row| {
            let (sometimes, bytes, length, crowd) = facts[row];
            (sometimes, Reverse(key((bytes, length, crowd))), row)
        });
        order
    };
    vec![
        sorted(|(bytes, length, _)| [bytes, length, 0]),
        sorted(|(bytes, length, _)| [length, bytes, 0]),
        sorted(|(bytes, length, _)| [bytes.saturating_mul(length), bytes, 0]),
        sorted(|(bytes, length, crowd)| [crowd, length, bytes]),
        sorted(|(bytes, length, crowd)| [crowd, bytes, length]),
    ]
}
