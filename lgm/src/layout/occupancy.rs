//! Occupancy: who has had which pages, while a colouring grows.
//!
//! Pages whose past is the same are one *extent*, so that work grows with the number of moves, not
//! of pages. Stays that are claimed together and leave together have consecutive numbers, so what
//! an extent has held is a list of first stays.
//!
//! Claims look at all free extents, and there are few splits for each look: so the order of the
//! pages is kept in sorted lists, and what looks compare stands in the extents themselves.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::stays::{KNOWN, Position, Stay, StayId};
use crate::count::to_u32;

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
    /// When the next of these claims it, and how many outs it knows of then; the ends of both if
    /// it is not reserved.
    next: (Position, i64),
}

impl Extent {
    /// Notes who it is reserved for next.
    fn note_next(&mut self, stays: &[Stay]) {
        let next = self.reserved.last().map(|&id| &stays[id as usize]);
        self.next = next.map_or(UNRESERVED, |next| (next.claim, next.known));
    }

    /// From when on it is reserved; the end of positions if it is not.
    pub(super) fn reserved_from(&self) -> Position {
        self.next.0
    }

    /// How many outs too many whom it is reserved for has to wait for if a stay leaves it with a
    /// label.
    pub(super) fn wait_of_reserved(&self, label: i64) -> i64 {
        wait_beyond(label, self.next.1)
    }
}

const UNRESERVED: (Position, i64) = (Position::MAX, i64::MAX);

/// Extents by their first pages: each with its place in the table of extents.
#[derive(Debug, Default)]
struct ByPage(Vec<(u32, u32)>);

impl ByPage {
    /// Where a page is, or would be.
    fn position(&self, page: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&page, |&(page, _)| page)
    }

    fn get(&self, page: u32) -> Option<u32> {
        let at = self.position(page).ok()?;
        Some(self.0[at].1)
    }

    fn insert(&mut self, page: u32, place: u32) {
        if let Err(at) = self.position(page) {
            self.0.insert(at, (page, place));
        }
    }

    fn remove(&mut self, page: u32) {
        if let Ok(at) = self.position(page) {
            self.0.remove(at);
        }
    }
}

/// The pages of an arena, and the stays that have been given one.
pub(super) struct Occupancy<'a> {
    pub(super) stays: &'a [Stay],
    extents: Vec<Extent>,
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
    pub(super) fn new(stays: &'a [Stay], pages: u32) -> Self {
        let all = Extent {
            count: pages,
            occupants: Vec::new(),
            freed: (0, KNOWN),
            reserved: Vec::new(),
            next: UNRESERVED,
        };
        Self {
            stays,
            extents: vec![all],
            all: ByPage(vec![(0, 0)]),
            free: ByPage(vec![(0, 0)]),
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
        let list = list.0.iter();
        list.map(|&(page, place)| (page, &self.extents[place as usize]))
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
        let Err(behind) = self.all.position(page) else {
            return;
        };
        let (first, place) = self.all.0[behind - 1];
        let extent = &mut self.extents[place as usize];
        let kept = page - first;
        if kept >= extent.count {
            return;
        }
        let rest = Extent {
            count: extent.count - kept,
            occupants: extent.occupants.iter().map(|&id| id + kept).collect(),
            reserved: extent.reserved.iter().map(|&id| id + kept).collect(),
            ..*extent
        };
        extent.count = kept;
        let new = to_u32(self.extents.len());
        if self.free.get(first).is_some() {
            self.free.insert(page, new);
        } else {
            self.ending.push(Reverse((rest.freed.0, page)));
        }
        self.all.0.insert(behind, (page, new));
        self.extents.push(rest);
    }

    /// Gives consecutive pages, at the ends of which extents begin and end, to consecutive stays.
    pub(super) fn take(&mut self, page: u32, count: u32, first: StayId) {
        let (mut page, mut id, end) = (page, first, page + count);
        while page < end {
            let (stays, stay) = (self.stays, self.stay(id));
            let extent = self.extent_mut(page);
            extent.occupants.push(id);
            if extent.reserved.pop_if(|next| *next == id).is_some() {
                extent.note_next(stays);
            }
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
        let first_at = self.all.0.partition_point(|&(at, _)| at < page);
        let within = self.all.0[first_at..].iter();
        for &(at, place) in within.take_while(|&&(at, _)| at < page + count) {
            let extent = &mut self.extents[place as usize];
            let id = first + (at - page);
            let claim = |id: StayId| stays[id as usize].claim;
            let later = extent
                .reserved
                .partition_point(|&other| claim(other) > claim(id));
            extent.reserved.insert(later, id);
            extent.note_next(stays);
        }
    }

    /// The extents that are free.
    pub(super) fn free(&self) -> impl Iterator<Item = (u32, &Extent)> {
        self.listed(&self.free)
    }

    pub(super) fn free_len(&self) -> usize {
        self.free.0.len()
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

/// How many outs more than are known must be complete for the one with a label to be.
pub(super) fn wait_beyond(label: i64, known: i64) -> i64 {
    label.saturating_add(1).saturating_sub(known).max(0)
}
