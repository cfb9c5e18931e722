//! Occupancy: who has had which page, while a colouring grows.

use super::stays::{KNOWN, Position, Stay, StayId};

/// The pages of an arena, and the stays that have been given one.
pub(super) struct Occupancy<'a> {
    pub(super) stays: &'a [Stay],
    /// For each page, who has had it, in order.
    pub(super) occupants: Vec<Vec<StayId>>,
    /// For each page, since when it is free, and the label that it was freed with.
    pub(super) freed: Vec<(Position, i64)>,
    /// For each page, from when on it is reserved for a tail.
    pub(super) reserved_from: Vec<Position>,
    /// For each stay, its page.
    pub(super) page_of: Vec<u32>,
}

impl<'a> Occupancy<'a> {
    pub(super) fn new(stays: &'a [Stay], pages: u32) -> Self {
        Self {
            stays,
            occupants: vec![Vec::new(); pages as usize],
            freed: vec![(0, KNOWN); pages as usize],
            reserved_from: vec![Position::MAX; pages as usize],
            page_of: vec![u32::MAX; stays.len()],
        }
    }

    pub(super) fn stay(&self, id: StayId) -> &'a Stay {
        &self.stays[id as usize]
    }

    /// Gives a page to a stay.
    pub(super) fn take(&mut self, page: u32, id: StayId) {
        let stay = self.stay(id);
        self.occupants[page as usize].push(id);
        self.freed[page as usize] = (stay.until, stay.label);
        self.page_of[id as usize] = page;
    }

    /// Takes a page from all stays but the first `keep` that have had it; returns those.
    pub(super) fn take_back(&mut self, page: usize, keep: usize) -> Vec<StayId> {
        let recent = self.occupants[page].split_off(keep);
        let last = self.occupants[page].last().map(|&id| self.stay(id));
        self.freed[page] = last.map_or((0, KNOWN), |stay| (stay.until, stay.label));
        recent
    }

    /// The pages that are free for a stay, and the labels that they were freed with.
    pub(super) fn fitting(&self, stay: &Stay) -> impl Iterator<Item = (u32, i64)> {
        let (claim, until) = (stay.claim, stay.until);
        let pages = self.freed.iter().zip(&self.reserved_from).zip(0..);
        pages.filter_map(move |((&(since, label), &reserved), page)| {
            (since <= claim && reserved >= until).then_some((page, label))
        })
    }
}
