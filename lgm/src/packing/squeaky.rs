//! Squeaky wheel: first fit in several orders, and in better ones: whoever ended too high comes
//! sooner the next time.
//!
//! Source: Joslin and Clements, *Squeaky Wheel Optimization*, J. Artificial Intelligence Research
//! 10, 1999, for the idea.

use core::cmp::Reverse;

use super::first_fit::first_fit;
use super::{Block, Packing, Sections};

/// How many rounds one order is improved for without a gain.
const PATIENCE: usize = 30;

/// The best packing of several orders, and of what they are improved to; the first order only if
/// there is no work left.
pub(super) fn pack(blocks: &[Block], goal: u64, work: u64) -> Packing {
    let Orders { always, orders } = Orders::of(blocks);
    let mut packer = Packer {
        blocks,
        goal,
        always,
        work,
        best: first_fit(blocks, &orders[0], always),
    };
    let mut packed = vec![(packer.best.height, 0)];
    for (row, order) in orders.iter().enumerate().skip(1) {
        match packer.try_order(order) {
            Some(packing) => packed.push((packing.height, row)),
            None => break,
        }
    }
    packed.sort_unstable();
    for (_, row) in packed {
        packer.improve(orders[row].clone());
    }
    packer.best
}

struct Packer<'a> {
    blocks: &'a [Block],
    goal: u64,
    always: usize,
    work: u64,
    best: Packing,
}

impl Packer<'_> {
    /// Packs in an order, unless the goal is met or the work is spent.
    fn try_order(&mut self, order: &[usize]) -> Option<Packing> {
        // Half of all pairs are looked at, or fewer.
        let sometimes = (self.blocks.len() - self.always) as u64;
        let left = self.work.checked_sub(sometimes * sometimes / 4 + 1);
        self.work = left.filter(|_| self.best.height > self.goal)?;
        let packing = first_fit(self.blocks, order, self.always);
        if packing.height < self.best.height {
            self.best = packing.clone();
        }
        Some(packing)
    }

    /// Improves one order for as long as that helps.
    fn improve(&mut self, mut order: Vec<usize>) {
        let (mut own_best, mut patience) = (u64::MAX, PATIENCE);
        while patience > 0 {
            let Some(packing) = self.try_order(&order) else {
                return;
            };
            patience -= 1;
            if packing.height < own_best {
                (own_best, patience) = (packing.height, PATIENCE);
            }
            // What ends above the line moves up by a third of the way to the front, so that it
            // still comes after what is hard too.
            let line = self.goal.max(packing.height - packing.height / 64);
            let sometimes = &mut order[self.always..];
            let mut places: Vec<(usize, usize)> = (0_usize..)
                .zip(sometimes.iter())
                .map(
                    |(at, &row)| match packing.offsets[row] + self.blocks[row].bytes > line {
                        true => ((2 * at).saturating_sub(4), row),
                        false => (3 * at, row),
                    },
                )
                .collect();
            places.sort_unstable();
            for (place, (_, row)) in sometimes.iter_mut().zip(places) {
                *place = row;
            }
        }
    }
}

/// Orders that do well, the best for most first.
struct Orders {
    /// How many blocks live throughout. They meet everything, and come first in all orders.
    always: usize,
    orders: Vec<Vec<usize>>,
}

impl Orders {
    fn of(blocks: &[Block]) -> Self {
        let sections = Sections::of(blocks);
        let loads = sections.loads(blocks);
        let facts: Vec<(bool, [u64; 3])> = blocks
            .iter()
            .map(|block| {
                let spans = sections.spans(block);
                let count: usize = spans.iter().map(ExactSizeIterator::len).sum();
                let crowd = spans.into_iter().flat_map(|span| &loads[span]).max();
                let facts = [block.bytes, block.length(), crowd.copied().unwrap_or(0)];
                (count < sections.count(), facts)
            })
            .collect();
        let sorted = |key: fn([u64; 3]) -> [u64; 3]| {
            let mut order: Vec<usize> = (0..blocks.len()).collect();
            order.sort_unstable_by_key(|&row| (facts[row].0, Reverse(key(facts[row].1)), row));
            order
        };
        Self {
            always: facts.iter().filter(|(sometimes, _)| !sometimes).count(),
            orders: vec![
                sorted(|[bytes, length, _]| [bytes, length, 0]),
                sorted(|[bytes, length, _]| [length, bytes, 0]),
                sorted(|[bytes, length, _]| [bytes.saturating_mul(length), bytes, 0]),
                sorted(|[bytes, length, crowd]| [crowd, length, bytes]),
                sorted(|[bytes, length, crowd]| [crowd, bytes, length]),
            ],
        }
    }
}
