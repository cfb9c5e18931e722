//! Packing: offsets for blocks that live for some time, such that no two overlap.
//!
//! In: blocks, each of some bytes with one life or two (what lives across the boundary of an
//! iteration has two on the straight line of its steps), a goal, and an effort. Out: an offset for
//! each block, and the height. *Dynamic storage allocation* is NP-hard, so there are three ways, in
//! turn, until one meets the goal:
//!
//! | module | way |
//! |---|---|
//! | `first_fit` | blocks in some order, each into the lowest hole that it fits into |
//! | `squeaky` | the same again and again, what ended too high sooner each time |
//! | `search` | all packings in which nothing can fall, with pruning |
//!
//! Guarantees: deterministic; blocks that live at the same time never overlap; the height is the
//! best that was found. Work is counted in blocks looked at, never in time.

mod first_fit;
mod search;
mod squeaky;

use vtensor::StepRange;

use self::search::Outcome;

/// Something of some size that lives for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its size.
    pub bytes: u64,
    /// When it lives, on a straight line; the two do not overlap. The second is `0..0` for most.
    pub lives: [StepRange; 2],
}

impl Block {
    /// A block with one life, `start .. end`.
    #[must_use]
    pub const fn once(bytes: u64, start: u32, end: u32) -> Self {
        let none = StepRange { start: 0, end: 0 };
        Self {
            bytes,
            lives: [StepRange { start, end }, none],
        }
    }

    /// Whether both live at the same time.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.meets_lives(other.lives)
    }

    fn meets_lives(&self, other: [StepRange; 2]) -> bool {
        // An empty one begins and ends at 0, and so meets nothing.
        let meet = |a: StepRange, b: StepRange| a.start < b.end && b.start < a.end;
        let ([a, b], [c, d]) = (self.lives, other);
        meet(a, c) || meet(a, d) || meet(b, c) || meet(b, d)
    }

    /// How long it lives.
    fn length(&self) -> u64 {
        self.lives.iter().map(|life| u64::from(life.len())).sum()
    }
}

/// Offsets for blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The offset of each block, in bytes.
    pub offsets: Vec<u64>,
    /// Where the highest block ends.
    pub height: u64,
}

/// Work that may be spent on a packing, in blocks looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// On better orders; some 10^8 take a second.
    pub orders: u64,
    /// On the search; some 10^7 take a second.
    pub search: u64,
}

impl Effort {
    /// The first order only.
    pub const NONE: Self = Self {
        orders: 0,
        search: 0,
    };
}

/// The most bytes that live at once: no packing is lower.
#[must_use]
pub fn load(blocks: &[Block]) -> u64 {
    let sections = Sections::of(blocks);
    sections.loads(blocks).into_iter().max().unwrap_or(0)
}

/// Packs blocks: ends at the first packing that is no higher than `goal`, or with the best one once
/// the effort is spent.
#[must_use]
pub fn pack(blocks: &[Block], goal: u64, effort: Effort) -> Packing {
    let goal = goal.max(load(blocks));
    let mut best = squeaky::pack(blocks, goal, effort.orders);
    if best.height <= goal || effort.search == 0 {
        return best;
    }
    // Half of the work on the goal, the rest on coming closer to it.
    let (mut low, mut capacity, mut work) = (goal, goal, effort.search / 2);
    loop {
        match search::search(blocks, capacity, work) {
            Outcome::Found(offsets) => {
                let height = height(blocks, &offsets);
                best = Packing { offsets, height };
            }
            Outcome::Impossible | Outcome::GaveUp => low = capacity,
        }
        work = effort.search / 2 / HALVINGS;
        capacity = low.midpoint(best.height);
        if best.height <= goal || capacity - low < goal / 200 || work == 0 {
            return best;
        }
    }
}

/// How often the way between what was found and what was not is halved: until half of a percent is
/// left of half of the goal.
const HALVINGS: u64 = 7;

fn height(blocks: &[Block], offsets: &[u64]) -> u64 {
    let ends = blocks.iter().zip(offsets).map(|(b, at)| at + b.bytes);
    ends.max().unwrap_or(0)
}

/// Time, cut wherever a life begins or ends; nothing changes inside a section.
#[derive(Clone, Debug)]
struct Sections {
    cuts: Vec<u32>,
}

impl Sections {
    fn of(blocks: &[Block]) -> Self {
        let lives = blocks.iter().flat_map(|block| block.lives);
        let lives = lives.filter(|life| !life.is_empty());
        let mut cuts: Vec<u32> = lives.flat_map(|life| [life.start, life.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        Self { cuts }
    }

    fn count(&self) -> usize {
        self.cuts.len().saturating_sub(1)
    }

    /// The sections of a block.
    fn spans(&self, block: &Block) -> [core::ops::Range<usize>; 2] {
        let row = |cut: u32| self.cuts.partition_point(|&other| other < cut);
        block.lives.map(|life| match life.is_empty() {
            true => 0..0,
            false => row(life.start)..row(life.end),
        })
    }

    /// The bytes that live in each section.
    fn loads(&self, blocks: &[Block]) -> Vec<u64> {
        let mut change = vec![0_i128; self.count() + 1];
        for block in blocks {
            for span in self.spans(block) {
                change[span.start] += i128::from(block.bytes);
                change[span.end] -= i128::from(block.bytes);
            }
        }
        let mut sum = 0;
        let sums = change[..self.count()].iter().map(|change| {
            sum += change;
            u64::try_from(sum).expect("what ends has begun, and sizes are bounded")
        });
        sums.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Effort = Effort {
        orders: 200_000,
        search: 200_000,
    };

    /// Checks a packing block by block.
    fn check(blocks: &[Block], packing: &Packing) {
        for (i, (a, at_a)) in blocks.iter().zip(&packing.offsets).enumerate() {
            assert!(at_a + a.bytes <= packing.height);
            for (b, at_b) in blocks.iter().zip(&packing.offsets).skip(i + 1) {
                let apart = at_a + a.bytes <= *at_b || at_b + b.bytes <= *at_a;
                assert!(!a.meets(b) || apart, "{a:?} at {at_a} and {b:?} at {at_b}");
            }
        }
    }

    fn random(rng: &mut fastrand::Rng, count: usize) -> Vec<Block> {
        let mut blocks = Vec::new();
        for _ in 0..count {
            let start = rng.u32(0..40);
            let mut block = Block::once(rng.u64(1..12) * 512, start, start + 1 + rng.u32(0..12));
            if rng.u32(0..8) == 0 && start > 4 {
                let end = rng.u32(1..start);
                block.lives[1] = StepRange { start: 0, end };
            }
            blocks.push(block);
        }
        blocks
    }

    #[test]
    fn blocks_that_never_meet_share_an_offset() {
        let blocks = [
            Block::once(512, 0, 2),
            Block::once(512, 2, 4),
            Block::once(1024, 0, 4),
        ];
        let packing = pack(&blocks, 0, Effort::NONE);
        assert_eq!(
            (packing.offsets, packing.height),
            (vec![1024, 1024, 0], 1536)
        );
    }

    #[test]
    fn every_way_keeps_blocks_apart() {
        for seed in 0..60 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let blocks = random(&mut rng, 5 + usize::try_from(seed).expect("few"));
            let mut last = u64::MAX;
            for effort in [Effort::NONE, Effort { search: 0, ..SOME }, SOME] {
                let packing = pack(&blocks, 0, effort);
                check(&blocks, &packing);
                assert!(load(&blocks) <= packing.height, "seed {seed}");
                assert!(
                    packing.height <= last,
                    "seed {seed}: more effort is no worse"
                );
                last = packing.height;
            }
        }
    }

    /// The lowest height of all, by trying every order: in one of them first fit is optimal.
    fn lowest(blocks: &[Block], order: &mut Vec<usize>) -> u64 {
        if order.len() == blocks.len() {
            return first_fit::first_fit(blocks, order, 0).height;
        }
        let mut best = u64::MAX;
        for row in 0..blocks.len() {
            if !order.contains(&row) {
                order.push(row);
                best = best.min(lowest(blocks, order));
                order.pop();
            }
        }
        best
    }

    #[test]
    fn the_search_finds_the_lowest_and_proves_it() {
        for seed in 0..120 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let blocks = random(&mut rng, 6);
            let best = lowest(&blocks, &mut Vec::new());
            let search = |goal| search::search(&blocks, goal, 1 << 20);
            let Outcome::Found(offsets) = search(best) else {
                panic!("seed {seed}: there is one of {best}");
            };
            let height = height(&blocks, &offsets);
            check(&blocks, &Packing { offsets, height });
            assert_eq!(height, best, "seed {seed}");
            if best > load(&blocks) {
                assert!(
                    matches!(search(best - 1), Outcome::Impossible),
                    "seed {seed}: nothing is below {best}"
                );
            }
        }
    }

    #[test]
    fn nothing_takes_no_room() {
        let packing = pack(&[], 0, SOME);
        assert_eq!((packing.offsets.len(), packing.height), (0, 0));
    }
}
