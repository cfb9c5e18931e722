//! Search: packings in which no block can fall, one after the other, until one is low enough.
//!
//! In: blocks, a capacity, and work. Out: offsets, that there are none, or that the work did not
//! do. Every packing can be pressed down until each block stands on the floor or on another one.
//! Such a packing is found by placing its blocks in the order of their offsets, each on top of what
//! it meets; so only which block comes next is to be chosen. Cut off are choices
//!
//! - out of order: equal offsets in one order only;
//! - that leave room below for another block, which had better be placed there first;
//! - after which the blocks of some section cannot end below the capacity, even without holes.
//!
//! Blocks that fall apart into groups that never meet are searched group by group. There are
//! several orders in which candidates are tried; each gets a little work, then more in turns.
//!
//! Source: Moffitt, *MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
//! Learning*, ASPLOS 2023.

use core::cmp::Reverse;
use core::ops::Range;
use std::collections::HashMap;

use oorandom::Rand64;

use super::{Block, Sections};

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A packing: the offset of each block.
    Found(Vec<u64>),
    /// There is none.
    Impossible,
    /// The work did not do.
    GaveUp,
}

/// Blocks beyond which a search is not begun: it keeps the pairs that meet.
const BLOCKS_MAX: usize = 4096;
/// How many groups that were searched in vain are remembered.
const FAILED_MAX: usize = 1 << 20;
/// The work that each order gets first, and by how much that grows from turn to turn.
const FIRST_TURN: u64 = 1 << 16;
const GROWTH: u64 = 2;

/// Searches for a packing that ends below `capacity`.
pub(super) fn search(blocks: &[Block], capacity: u64, work: u64) -> Outcome {
    if blocks.len() > BLOCKS_MAX {
        return Outcome::GaveUp;
    }
    let mut search = Search::new(blocks, capacity);
    let mut orders = Orders::new(blocks, &search);
    let all: Vec<u32> = (0..).take(blocks.len()).collect();
    let (mut left, mut turn) = (work, FIRST_TURN);
    loop {
        for (key, blur) in KEYS.into_iter().flat_map(|key| [(key, 0.0), (key, BLUR)]) {
            let granted = turn.min(left);
            left -= granted;
            search.begin(orders.rank(key, blur), granted);
            if search.solve(&all, (0, 0)) {
                return Outcome::Found(search.at);
            }
            if search.work > 0 {
                return Outcome::Impossible;
            }
            if left == 0 {
                return Outcome::GaveUp;
            }
        }
        turn = turn.saturating_mul(GROWTH);
    }
}

/// What candidates at the same offset are ordered by, the most important first: by the columns of
/// [`Orders`].
const KEYS: [[usize; 3]; 5] = [[1, 2, 0], [0, 2, 1], [0, 3, 2], [0, 1, 2], [2, 0, 1]];
/// By how much of all places a block may move in an order, so that each try is another one.
const BLUR: f64 = 0.2;

/// Orders in which candidates at the same offset are tried.
struct Orders {
    /// For each block the most bytes that ever live together with it, its length, bytes times
    /// length, and its sections.
    facts: Vec<[u64; 4]>,
    random: Rand64,
}

impl Orders {
    fn new(blocks: &[Block], search: &Search<'_>) -> Self {
        let facts = blocks.iter().zip(&search.spans).map(|(block, spans)| {
            let sections = spans.iter().cloned().flatten();
            let most = sections.map(|section| search.loads[section]).max();
            let length = block.length();
            let count = spans.iter().map(|span| span.len() as u64).sum();
            let area = block.bytes.saturating_mul(length);
            [most.unwrap_or(0), length, area, count]
        });
        Self {
            facts: facts.collect(),
            random: Rand64::new(1),
        }
    }

    /// The place of each block in an order.
    fn rank(&mut self, key: [usize; 3], blur: f64) -> Vec<u32> {
        let facts = &self.facts;
        let mut order: Vec<usize> = (0..facts.len()).collect();
        order.sort_unstable_by_key(|&row| (Reverse(key.map(|fact| facts[row][fact])), row));
        if blur > 0.0 {
            let reach = blur * order.len() as f64;
            let mut moved: Vec<(f64, usize)> = (0_u32..)
                .zip(order)
                .map(|(place, row)| (f64::from(place) + reach * self.random.rand_float(), row))
                .collect();
            moved.sort_by(|a, b| a.0.total_cmp(&b.0));
            order = moved.into_iter().map(|(_, row)| row).collect();
        }
        let mut rank = vec![0; order.len()];
        (0..).zip(order).for_each(|(place, row)| rank[row] = place);
        rank
    }
}

/// What was placed last: its offset and its place in the order of candidates.
type Last = (u64, u32);

/// A search at work.
struct Search<'a> {
    blocks: &'a [Block],
    capacity: u64,
    spans: Vec<[Range<usize>; 2]>,
    /// The bytes of each section, placed or not.
    loads: Vec<u64>,
    /// For each block, those that it meets.
    meeting: Vec<Vec<u32>>,
    rank: Vec<u32>,
    work: u64,
    placed: Vec<bool>,
    /// Where a block is, or the lowest offset that is left to it.
    at: Vec<u64>,
    /// For each section, the bytes that are still to be placed there.
    left: Vec<u64>,
    /// What is placed, in order, and before that what each lowest offset was: to be taken back.
    order: Vec<u32>,
    /// Groups that were searched in vain, and from where on.
    failed: HashMap<(u64, u64), Last>,
    trail: Vec<(u32, u64)>,
    scratch: Scratch,
}

/// Tables that every node uses for itself.
#[derive(Default)]
struct Scratch {
    /// For each section, the next one at or behind it that nothing has covered yet.
    next: Vec<usize>,
    change: Vec<i32>,
    group: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(blocks: &'a [Block], capacity: u64) -> Self {
        let sections = Sections::of(blocks);
        let count = sections.count();
        let others = |block: &Block| {
            let all = (0..).zip(blocks);
            all.filter(|(_, other)| !core::ptr::eq(*other, block) && other.meets(block))
                .map(|(row, _)| row)
                .collect()
        };
        Self {
            blocks,
            capacity,
            spans: blocks.iter().map(|block| sections.spans(block)).collect(),
            loads: sections.loads(blocks),
            meeting: blocks.iter().map(others).collect(),
            rank: Vec::new(),
            work: 0,
            placed: Vec::new(),
            at: Vec::new(),
            left: Vec::new(),
            order: Vec::new(),
            failed: HashMap::new(),
            trail: Vec::new(),
            scratch: Scratch {
                next: vec![0; count + 1],
                change: vec![0; count + 1],
                group: vec![0; count + 1],
            },
        }
    }

    fn begin(&mut self, rank: Vec<u32>, work: u64) {
        self.rank = rank;
        self.work = work;
        self.placed = vec![false; self.blocks.len()];
        self.at = vec![0; self.blocks.len()];
        self.left.clone_from(&self.loads);
        self.order.clear();
        self.failed.clear();
        self.trail.clear();
    }

    /// Places a group of blocks on what is placed already, from an offset on. Without work left it
    /// fails.
    fn solve(&mut self, group: &[u32], last: Last) -> bool {
        if group.is_empty() {
            return true;
        }
        self.work = self.work.saturating_sub(group.len() as u64);
        if self.work == 0 {
            return false;
        }
        let mut by_offset: Vec<u32> = group.to_vec();
        by_offset.sort_unstable_by_key(|&row| (self.at[row as usize], self.rank[row as usize]));
        if !self.may_fit(&by_offset, last.0) {
            return false;
        }
        let state = self.state(group);
        if self.failed.get(&state).is_some_and(|&from| from <= last) {
            return false;
        }
        let end = |row: &u32| self.at[*row as usize] + self.blocks[*row as usize].bytes;
        let lowest_end = by_offset.iter().map(end).min().unwrap_or(0);
        for &row in &by_offset {
            let own = (self.at[row as usize], self.rank[row as usize]);
            if own.0 >= lowest_end {
                break;
            }
            if own < last {
                continue;
            }
            let mark = (self.order.len(), self.trail.len());
            if self.place(row) {
                let rest: Vec<u32> = group
                    .iter()
                    .copied()
                    .filter(|&other| other != row)
                    .collect();
                let mut groups = self.groups(&rest);
                groups.sort_by_key(Vec::len);
                if groups.iter().all(|group| self.solve(group, own)) {
                    return true;
                }
            }
            self.take_back(mark);
            if self.work == 0 {
                return false;
            }
        }
        if self.failed.len() >= FAILED_MAX {
            self.failed.clear();
        }
        let from = self.failed.entry(state).or_insert(last);
        *from = last.min(*from);
        false
    }

    /// What tells groups apart: which blocks are to be placed, and how low each can be. Two sums of
    /// mixed bits, so that different states are all but never equal; if they were, a packing could
    /// be missed, but not a wrong one found.
    fn state(&self, group: &[u32]) -> (u64, u64) {
        let mix = |bits: u64, by: u64| {
            let bits = (bits ^ (bits >> 31)).wrapping_mul(by);
            (bits ^ (bits >> 29)).wrapping_mul(by)
        };
        group.iter().fold((0, 0), |(a, b), &row| {
            let at = self.at[row as usize].wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bits = at.wrapping_add(u64::from(row).wrapping_mul(0xd1b5_4a32_d192_ed03));
            (
                a.wrapping_add(mix(bits, 0xbf58_476d_1ce4_e5b9)),
                b.wrapping_add(mix(bits, 0x94d0_49bb_1331_11eb)),
            )
        })
    }

    /// Puts a block where it is lowest, and lifts those that it meets; says whether they still end
    /// below the capacity.
    fn place(&mut self, row: u32) -> bool {
        let block = &self.blocks[row as usize];
        self.placed[row as usize] = true;
        self.order.push(row);
        for span in &self.spans[row as usize] {
            self.left[span.clone()]
                .iter_mut()
                .for_each(|left| *left -= block.bytes);
        }
        let end = self.at[row as usize] + block.bytes;
        let mut fits = end <= self.capacity;
        for &other in &self.meeting[row as usize] {
            let at = &mut self.at[other as usize];
            if !self.placed[other as usize] && *at < end {
                self.trail.push((other, *at));
                *at = end;
                fits &= end + self.blocks[other as usize].bytes <= self.capacity;
            }
        }
        fits
    }

    /// Undoes what was placed since a mark.
    fn take_back(&mut self, (order, trail): (usize, usize)) {
        for (other, at) in self.trail.drain(trail..).rev() {
            self.at[other as usize] = at;
        }
        for row in self.order.drain(order..) {
            self.placed[row as usize] = false;
            let bytes = self.blocks[row as usize].bytes;
            for span in &self.spans[row as usize] {
                self.left[span.clone()]
                    .iter_mut()
                    .for_each(|left| *left += bytes);
            }
        }
    }

    /// Whether the blocks of a group could end below the capacity if no section had a hole. A
    /// section begins where the lowest of its blocks can be, and not below `from`.
    fn may_fit(&mut self, by_offset: &[u32], from: u64) -> bool {
        let Some((first, end)) = self.range(by_offset) else {
            return true;
        };
        let next = &mut self.scratch.next;
        (first..=end).for_each(|section| next[section] = section);
        for &row in by_offset {
            let floor = self.at[row as usize].max(from);
            for span in &self.spans[row as usize] {
                let mut section = uncovered(next, span.start);
                while section < span.end {
                    if floor + self.left[section] > self.capacity {
                        return false;
                    }
                    next[section] = section + 1;
                    section = uncovered(next, section + 1);
                }
            }
        }
        true
    }

    /// The first section of some blocks, and the end of their last.
    fn range(&self, rows: &[u32]) -> Option<(usize, usize)> {
        let spans = rows.iter().flat_map(|&row| &self.spans[row as usize]);
        let spans = spans.filter(|span| !span.is_empty());
        let ranges = spans.map(|span| (span.start, span.end));
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Groups of blocks such that blocks of different groups never meet.
    fn groups(&mut self, rows: &[u32]) -> Vec<Vec<u32>> {
        let Some((first, end)) = self.range(rows) else {
            return Vec::new();
        };
        let Scratch { change, group, .. } = &mut self.scratch;
        change[first..=end].fill(0);
        for span in rows.iter().flat_map(|&row| self.spans[row as usize].iter()) {
            // Between two sections of one block there is no boundary.
            if !span.is_empty() {
                change[span.start + 1] += 1;
                change[span.end] -= 1;
            }
        }
        let (mut crossing, mut number) = (0, 0_u32);
        for section in first..end {
            crossing += change[section];
            number += u32::from(section > first && crossing == 0);
            group[section] = number;
        }
        // A block with two lives joins the groups of both.
        let mut joined: Vec<u32> = (0..=number).collect();
        for [one, two] in rows.iter().map(|&row| &self.spans[row as usize]) {
            if !one.is_empty() && !two.is_empty() {
                let (a, b) = (
                    joined[group[one.start] as usize],
                    joined[group[two.start] as usize],
                );
                let (low, high) = (a.min(b), a.max(b));
                joined
                    .iter_mut()
                    .filter(|of| **of == high)
                    .for_each(|of| *of = low);
            }
        }
        let mut groups = vec![Vec::new(); joined.len()];
        for &row in rows {
            let some = self.spans[row as usize]
                .iter()
                .find(|span| !span.is_empty());
            let of = some.map_or(0, |span| joined[group[span.start] as usize]);
            groups[of as usize].push(row);
        }
        groups.retain(|group: &Vec<u32>| !group.is_empty());
        groups
    }
}

/// The first section at or behind one that is not covered; shortens the way for the next question.
fn uncovered(next: &mut [usize], section: usize) -> usize {
    let mut end = section;
    while next[end] != end {
        end = next[end];
    }
    let mut at = section;
    while next[at] != end {
        at = core::mem::replace(&mut next[at], end);
    }
    end
}
