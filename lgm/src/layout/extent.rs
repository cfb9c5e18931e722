//! Extents: consecutive pages with the same past, and where they begin.
//!
//! Claims look at all free extents, and there are few splits for each look: so the order of the
//! pages is a sorted list, and what looks compare stands in the extents themselves.

use core::ops::Range;

use super::stays::{KNOWN, Position, Stay, StayId};

/// The next claim of an extent that is not reserved, and what is known then.
const UNRESERVED: (Position, i64) = (Position::MAX, i64::MAX);

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
    /// When the next of these claims it, and how many outs it knows of then.
    next: (Position, i64),
}

impl Extent {
    /// So many pages without a past.
    pub(super) fn new(count: u32) -> Self {
        Self {
            count,
            occupants: Vec::new(),
            freed: (0, KNOWN),
            reserved: Vec::new(),
            next: UNRESERVED,
        }
    }

    /// Keeps so many pages; returns the others.
    pub(super) fn split_off(&mut self, kept: u32) -> Self {
        let behind = |ids: &[StayId]| ids.iter().map(|&id| id + kept).collect();
        let rest = Self {
            count: self.count - kept,
            occupants: behind(&self.occupants),
            reserved: behind(&self.reserved),
            ..*self
        };
        self.count = kept;
        rest
    }

    /// Reserves it for one more.
    pub(super) fn reserve(&mut self, id: StayId, stays: &[Stay]) {
        let claim = |id: StayId| stays[id as usize].claim;
        let later = self
            .reserved
            .partition_point(|&other| claim(other) > claim(id));
        self.reserved.insert(later, id);
        self.note_next(stays);
    }

    /// Adds an occupant, for whom it may have been reserved.
    pub(super) fn occupy(&mut self, id: StayId, stays: &[Stay]) {
        self.occupants.push(id);
        if self.reserved.pop_if(|next| *next == id).is_some() {
            self.note_next(stays);
        }
    }

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

/// How many outs more than are known must be complete for the one with a label to be.
pub(super) fn wait_beyond(label: i64, known: i64) -> i64 {
    label.saturating_add(1).saturating_sub(known).max(0)
}

/// Extents by their first pages: each with its place in a table.
#[derive(Debug)]
pub(super) struct ByPage(Vec<(u32, u32)>);

impl ByPage {
    /// The first extent of all, at the first place.
    pub(super) fn first() -> Self {
        Self(vec![(0, 0)])
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn position(&self, page: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&page, |&(page, _)| page)
    }

    pub(super) fn get(&self, page: u32) -> Option<u32> {
        let at = self.position(page).ok()?;
        Some(self.0[at].1)
    }

    /// The last extent that begins before a page.
    pub(super) fn last_before(&self, page: u32) -> Option<(u32, u32)> {
        let behind = self.0.partition_point(|&(at, _)| at < page);
        behind.checked_sub(1).map(|last| self.0[last])
    }

    /// Those that begin in a range.
    pub(super) fn within(&self, pages: Range<u32>) -> impl Iterator<Item = (u32, u32)> {
        let first = self.0.partition_point(|&(at, _)| at < pages.start);
        let listed = self.0[first..].iter().copied();
        listed.take_while(move |&(at, _)| at < pages.end)
    }

    /// All, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().copied()
    }

    /// Adds one, unless it is there.
    pub(super) fn insert(&mut self, page: u32, place: u32) {
        if let Err(at) = self.position(page) {
            self.0.insert(at, (page, place));
        }
    }

    /// Takes one away, if it is there.
    pub(super) fn remove(&mut self, page: u32) {
        if let Ok(at) = self.position(page) {
            self.0.remove(at);
        }
    }
}
