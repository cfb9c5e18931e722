//! Occupancy: who has had which pages, while a colouring grows.
//!
//! Pages whose past is the same are one *extent*, so that work grows with the number of moves, not
//! of pages. Stays that are claimed together and leave together have consecutive numbers, so what
//! an extent has held is a list of first stays.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::extent::{ByPage, Extent, wait_beyond};
use super::stays::{KNOWN, Position, Stay, StayId};
use super::times::{Table, Times};
use crate::count::to_u32;

/// The pages of an arena, and the stays that have been given one.
pub(super) struct Occupancy<'a> {
    pub(super) stays: &'a [Stay],
    extents: Vec<Extent>,
    /// For each extent, when it is taken or reserved by chains.
    chained: Table,
    all: ByPage,
    /// Those that nobody holds now.
    free: ByPage,
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
    pub(super) fn new(stays: &'a [Stay], pages: u32, end: Position) -> Self {
        Self {
            stays,
            extents: vec![Extent::new(pages)],
            chained: Table::new(end),
            all: ByPage::first(),
            free: ByPage::first(),
            ending: BinaryHeap::new(),
            now: 0,
        }
    }

    pub(super) fn stay(&self, id: StayId) -> &'a Stay {
        &self.stays[id as usize]
    }

    /// The extent that begins with a page.
    pub(super) fn extent(&self, page: u32) -> &Extent {
        &self.extents[self.place(page)]
    }

    fn extent_mut(&mut self, page: u32) -> &mut Extent {
        let place = self.place(page);
        &mut self.extents[place]
    }

    fn place(&self, page: u32) -> usize {
        self.all.get(page).expect("an extent begins here") as usize
    }

    /// All extents, with their first pages, in the order of these.
    pub(super) fn extents(&self) -> impl Iterator<Item = (u32, &Extent)> {
        self.listed(&self.all)
    }

    fn listed<'b>(&'b self, list: &'b ByPage) -> impl Iterator<Item = (u32, &'b Extent)> {
        let list = list.iter();
        list.map(|(page, place)| (page, &self.extents[place as usize]))
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
            let place = self.place(page);
            if self.extents[place].freed.0 <= now {
                self.free.insert(page, to_u32(place));
            }
        }
    }

    /// Makes some pages begin and end with extents.
    pub(super) fn isolate(&mut self, page: u32, count: u32) {
        self.split_at(page);
        self.split_at(page + count);
    }

    fn split_at(&mut self, page: u32) {
        let Some((first, place)) = self.all.last_before(page) else {
            return;
        };
        let extent = &mut self.extents[place as usize];
        let kept = page - first;
        if kept >= extent.count {
            return;
        }
        let rest = extent.split_off(kept);
        let new = to_u32(self.extents.len());
        if self.free.get(first).is_some() {
            self.free.insert(page, new);
        } else {
            self.ending.push(Reverse((rest.freed.0, page)));
        }
        self.all.insert(page, new);
        self.extents.push(rest);
        self.chained.push_same(place);
    }

    /// Gives consecutive pages, at the ends of which extents begin and end, to consecutive stays.
    pub(super) fn take(&mut self, page: u32, count: u32, first: StayId) {
        let (mut page, mut id, end) = (page, first, page + count);
        while page < end {
            let (stays, stay) = (self.stays, self.stay(id));
            let extent = self.extent_mut(page);
            extent.occupy(id, stays);
            let count = extent.count;
            self.set_freed(page, (stay.until, stay.label));
            (page, id) = (page + count, id + count);
        }
    }

    /// Takes an extent from all stays but the first `keep` that have had it; returns those.
    pub(super) fn take_back(&mut self, page: u32, keep: usize) -> Vec<StayId> {
        let extent = self.extent_mut(page);
        let recent = extent.occupants.split_off(keep);
        let last = extent.occupants.last().copied();
        let freed = last.map(|id| (self.stay(id).until, self.stay(id).label));
        self.set_freed(page, freed.unwrap_or((0, KNOWN)));
        recent
    }

    fn set_freed(&mut self, page: u32, freed: (Position, i64)) {
        let place = self.place(page);
        self.extents[place].freed = freed;
        if freed.0 <= self.now {
            self.free.insert(page, to_u32(place));
        } else {
            self.free.remove(page);
            self.ending.push(Reverse((freed.0, page)));
        }
    }

    /// Reserves consecutive pages, at the ends of which extents begin and end, for consecutive
    /// stays.
    pub(super) fn reserve(&mut self, page: u32, count: u32, first: StayId) {
        let stays = self.stays;
        for (at, place) in self.all.within(page..page + count) {
            let extent = &mut self.extents[place as usize];
            extent.reserve(first + (at - page), stays);
        }
    }

    /// Notes when consecutive pages, at the ends of which extents begin and end, are a chain's.
    pub(super) fn chain(&mut self, page: u32, count: u32, times: &Times) {
        for (_, place) in self.all.within(page..page + count) {
            self.chained.add(place, times);
        }
    }

    /// The extents that no chain has at some times.
    pub(super) fn unchained(&self, times: &Times) -> impl Iterator<Item = (u32, &Extent)> {
        let all = self.all.iter();
        let free = all.filter(|&(_, place)| self.chained.is_free_of(place, times));
        free.map(|(page, place)| (page, &self.extents[place as usize]))
    }

    /// The extents that are free.
    pub(super) fn free(&self) -> impl Iterator<Item = (u32, &Extent)> {
        self.listed(&self.free)
    }

    pub(super) fn free_len(&self) -> usize {
        self.free.len()
    }

    /// The extents that are free for as long as a stay lasts.
    pub(super) fn offers(&self, stay: &Stay) -> impl Iterator<Item = Offer> {
        let stay = *stay;
        self.free().filter_map(move |(page, extent)| {
            let reserved_from = extent.reserved_from();
            let own = wait_beyond(extent.freed.1, stay.known);
            (reserved_from >= stay.until).then(|| Offer {
                page,
                count: extent.count,
                label: extent.freed.1,
                reserved_from,
                wait: own.max(extent.wait_of_reserved(stay.label)),
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
