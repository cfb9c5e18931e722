//! Occupancy: who has had which pages, while a colouring grows.
//!
//! Pages whose past is the same are one *extent*, so that work grows with the number of moves, not
//! of pages. Stays that are claimed together and leave together have consecutive numbers, so what
//! an extent has held is a list of first stays.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::stays::{KNOWN, Position, Stay, StayId};

/// Consecutive pages with the same past.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) count: u32,
    /// Who has had the first page, in order; the next stay has had the next page.
    pub(super) occupants: Vec<StayId>,
    /// Since when it is free, and the label that it was freed with.
    pub(super) freed: (Position, i64),
    /// Who the first page is reserved for, the last to claim it first, and the next page for the
    /// next ones.
    pub(super) reserved: Vec<StayId>,
}

/// The pages of an arena, and the stays that have been given one.
pub(super) struct Occupancy<'a> {
    pub(super) stays: &'a [Stay],
    /// All extents, by their first pages.
    extents: BTreeMap<u32, Extent>,
    /// Those that nobody holds now.
    free: BTreeSet<u32>,
    /// When extents will be free; some entries are out of date.
    ending: BinaryHeap<Reverse<(Position, u32)>>,
    now: Position,
}

/// A free extent, seen by a stay that would take a page of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) page: u32,
    pub(super) count: u32,
    /// The label that it was freed with.
    pub(super) label: i64,
    /// From when on it is reserved.
    pub(super) reserved_from: Position,
    /// How many more outs have to be waited for than the schedule says, here or by whom it is
    /// reserved for.
    pub(super) wait: i64,
}

impl<'a> Occupancy<'a> {
    pub(super) fn new(stays: &'a [Stay], pages: u32) -> Self {
        let all = Extent {
            count: pages,
            occupants: Vec::new(),
            freed: (0, KNOWN),
            reserved: Vec::new(),
        };
        Self {
            stays,
            extents: BTreeMap::from([(0, all)]),
            free: BTreeSet::from([0]),
            ending: BinaryHeap::new(),
            now: 0,
        }
    }

    pub(super) fn stay(&self, id: StayId) -> &'a Stay {
        &self.stays[id as usize]
    }

    pub(super) fn extent(&self, page: u32) -> &Extent {
        &self.extents[&page]
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = (u32, &Extent)> {
        self.extents.iter().map(|(&page, extent)| (page, extent))
    }

    pub(super) fn len(&self) -> usize {
        self.extents.len()
    }

    /// Goes on to a position.
    pub(super) fn advance(&mut self, now: Position) {
        self.now = now;
        while let Some(&Reverse((until, page))) = self.ending.peek() {
            if until > now {
                break;
            }
            self.ending.pop();
            if self.extents.get(&page).is_some_and(|e| e.freed.0 <= now) {
                self.free.insert(page);
            }
        }
    }

    /// Makes some pages begin and end with extents.
    pub(super) fn isolate(&mut self, page: u32, count: u32) {
        self.split_at(page);
        self.split_at(page + count);
    }

    fn split_at(&mut self, page: u32) {
        let Some((&first, extent)) = self.extents.range_mut(..page).next_back() else {
            return;
        };
        let kept = page - first;
        if kept >= extent.count {
            return;
        }
        let rest = Extent {
            count: extent.count - kept,
            occupants: extent.occupants.iter().map(|&id| id + kept).collect(),
            freed: extent.freed,
            reserved: extent.reserved.iter().map(|&id| id + kept).collect(),
        };
        extent.count = kept;
        if self.free.contains(&first) {
            self.free.insert(page);
        } else {
            self.ending.push(Reverse((rest.freed.0, page)));
        }
        self.extents.insert(page, rest);
    }

    /// Gives consecutive pages, at the ends of which extents begin and end, to consecutive stays.
    pub(super) fn take(&mut self, page: u32, count: u32, first: StayId) {
        let (mut page, mut id, end) = (page, first, page + count);
        while page < end {
            let stay = self.stay(id);
            let extent = self.extents.get_mut(&page).expect("an extent begins here");
            extent.occupants.push(id);
            extent.reserved.pop_if(|next| *next == id);
            let count = extent.count;
            self.set_freed(page, (stay.until, stay.label));
            (page, id) = (page + count, id + count);
        }
    }

    /// Takes an extent from all stays but the first `keep` that have had it; returns those.
    pub(super) fn take_back(&mut self, page: u32, keep: usize) -> Vec<StayId> {
        let extent = self.extents.get_mut(&page).expect("an extent begins here");
        let recent = extent.occupants.split_off(keep);
        let last = extent.occupants.last().copied();
        let freed = last.map(|id| (self.stay(id).until, self.stay(id).label));
        self.set_freed(page, freed.unwrap_or((0, KNOWN)));
        recent
    }

    fn set_freed(&mut self, page: u32, freed: (Position, i64)) {
        let extent = self.extents.get_mut(&page).expect("an extent begins here");
        extent.freed = freed;
        if freed.0 <= self.now {
            self.free.insert(page);
        } else {
            self.free.remove(&page);
            self.ending.push(Reverse((freed.0, page)));
        }
    }

    /// Reserves consecutive pages, at the ends of which extents begin and end, for consecutive
    /// stays.
    pub(super) fn reserve(&mut self, page: u32, count: u32, first: StayId) {
        let stays = self.stays;
        for (&at, extent) in self.extents.range_mut(page..page + count) {
            let id = first + (at - page);
            let claim = |id: StayId| stays[id as usize].claim;
            let later = extent
                .reserved
                .partition_point(|&other| claim(other) > claim(id));
            extent.reserved.insert(later, id);
        }
    }

    /// From when on an extent is reserved; the end of positions if it is not.
    pub(super) fn reserved_from(&self, extent: &Extent) -> Position {
        let next = extent.reserved.last();
        next.map_or(Position::MAX, |&next| self.stay(next).claim)
    }

    /// How many outs too many whom a page is reserved for has to wait for if a stay leaves it with
    /// a label.
    pub(super) fn wait_of_reserved(&self, extent: &Extent, label: i64) -> i64 {
        let next = extent.reserved.last();
        next.map_or(0, |&next| wait_beyond(label, self.stay(next).known))
    }

    /// The extents that are free.
    pub(super) fn free(&self) -> impl Iterator<Item = (u32, &Extent)> {
        self.free.iter().map(|page| (*page, &self.extents[page]))
    }

    /// The extents that are free for as long as a stay lasts.
    pub(super) fn offers(&self, stay: &Stay) -> impl Iterator<Item = Offer> {
        let stay = *stay;
        self.free().filter_map(move |(page, extent)| {
            let reserved_from = self.reserved_from(extent);
            let own = wait_beyond(extent.freed.1, stay.known);
            (reserved_from >= stay.until).then(|| Offer {
                page,
                count: extent.count,
                label: extent.freed.1,
                reserved_from,
                wait: own.max(self.wait_of_reserved(extent, stay.label)),
            })
        })
    }

    /// For each stay, its page.
    pub(super) fn pages(&self) -> Vec<u32> {
        let mut page_of = vec![u32::MAX; self.stays.len()];
        for (page, extent) in self.extents() {
            for &first in &extent.occupants {
                for at in 0..extent.count {
                    page_of[(first + at) as usize] = page + at;
                }
            }
        }
        page_of
    }
}

/// How many outs more than are known must be complete for the one with a label to be.
pub(super) fn wait_beyond(label: i64, known: i64) -> i64 {
    label.saturating_add(1).saturating_sub(known).max(0)
}
