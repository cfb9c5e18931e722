//! Exchanges: pages for stays that find only pages that are reserved too soon.
//!
//! Where two pages were free at the same moment, what they have held since may change places. So a
//! page that is reserved late but held now becomes free, if its holder may go to a page that is
//! free but reserved soon. Where no free page will do for the holder, one is made free in the same
//! way.

use super::occupancy::Occupancy;
use super::stays::{Claimant, Position, Stay, StayId};
use crate::count::to_u32;

/// How many exchanges may stand one on the other.
const DEPTH_MAX: u32 = 1;
/// How many pages are looked at for exchanges in one colouring: what cannot be coloured should fail
/// soon.
const LOOKS_MAX: usize = 1 << 20;
/// How many kinds of holders are tried at each depth.
const HOLDERS_MAX: usize = 8;

/// Finds exchanges, with bounded work.
pub(super) struct Exchanges {
    /// How many more pages may be looked at.
    looks_left: usize,
}

impl Exchanges {
    pub(super) fn new() -> Self {
        Self {
            looks_left: LOOKS_MAX,
        }
    }

    /// Finds a page for each of some stays that are claimed together and leave together.
    pub(super) fn make_room(&mut self, pages: &mut Occupancy<'_>, ids: &[StayId]) -> bool {
        let stay = *pages.stay(ids[0]);
        let mut left = ids.iter();
        self.exchange(
            pages,
            &stay,
            (ids.len(), DEPTH_MAX),
            &mut |_, pages, page| {
                if let Some(&id) = left.next() {
                    pages.take(page, id);
                }
            },
        );
        left.next().is_none()
    }

    /// Makes up to `wanted` pages free for a stay, and hands each to `found` at once.
    fn exchange(
        &mut self,
        pages: &mut Occupancy<'_>,
        stay: &Stay,
        (wanted, depth): (usize, u32),
        found: &mut dyn FnMut(&mut Self, &mut Occupancy<'_>, u32),
    ) {
        let Some(left) = self.looks_left.checked_sub(pages.occupants.len()) else {
            return;
        };
        self.looks_left = left;
        let mut held: Vec<(Position, usize)> = (0..pages.occupants.len())
            .filter(|&page| pages.reserved_from[page] >= stay.until)
            .filter_map(|page| {
                pages
                    .holder(page, stay.claim)
                    .map(|holder| (holder.until, page))
            })
            .collect();
        held.sort_unstable();
        let mut free: Vec<usize> = (0..pages.occupants.len())
            .filter(|&page| pages.freed[page].0 <= stay.claim)
            .collect();
        free.sort_by_key(|&page| (pages.reserved_from[page], page));
        let mut wanted = wanted;
        let mut failed = None;
        held.retain(|&(_, page)| {
            // Pages with the same past fare the same.
            let past = pages.past(page);
            if wanted == 0 || failed == Some(past) {
                return true;
            }
            match free
                .iter()
                .position(|&other| self.try_exchange(pages, page, other))
            {
                Some(at) => {
                    free.remove(at);
                    found(self, pages, to_u32(page));
                    wanted -= 1;
                    false
                }
                None => {
                    failed = Some(past);
                    true
                }
            }
        });
        if depth == 0 || wanted == 0 {
            return;
        }
        // Only holders that leave sooner than the claimant make the question easier.
        held.retain(|&(leaves, _)| leaves < stay.until);
        let groups: Vec<&[(Position, usize)]> = held.chunk_by(|a, b| a.0 == b.0).collect();
        for group in groups.into_iter().take(HOLDERS_MAX) {
            let mut holders = group.iter().map(|&(_, page)| page);
            let goal = Stay {
                until: group[0].0,
                ..*stay
            };
            self.exchange(
                pages,
                &goal,
                (wanted.min(group.len()), depth - 1),
                &mut |exchanges, pages, other| {
                    let exchanged = holders.find(|&page| {
                        let holder = pages.holder(page, goal.claim);
                        holder.is_some_and(|holder| holder.until == goal.until)
                            && exchanges.try_exchange(pages, page, other as usize)
                    });
                    if let Some(page) = exchanged {
                        found(exchanges, pages, to_u32(page));
                        wanted -= 1;
                    }
                },
            );
            if wanted == 0 {
                return;
            }
        }
    }

    /// Exchanges what a held and a free page have held since the last moment at which both were
    /// free, if there was one and the holder may go to the free page.
    fn try_exchange(&mut self, pages: &mut Occupancy<'_>, held: usize, free: usize) -> bool {
        let Some(&holder) = pages.occupants[held].last() else {
            return false;
        };
        self.looks_left = self.looks_left.saturating_sub(1);
        if pages.reserved_from[free] < pages.stay(holder).until {
            return false;
        }
        let Some((keep_held, keep_free)) = pages.both_free(held, free) else {
            return false;
        };
        let from_held = pages.take_back(held, keep_held);
        let from_free = pages.take_back(free, keep_free);
        from_free
            .into_iter()
            .for_each(|id| pages.take(to_u32(held), id));
        from_held
            .into_iter()
            .for_each(|id| pages.take(to_u32(free), id));
        true
    }
}

impl Occupancy<'_> {
    /// What decides whether a page's holder can go elsewhere.
    fn past(&self, page: usize) -> (Position, Position, Position) {
        let occupants = &self.occupants[page];
        let holder = occupants.last().map(|&id| self.stay(id));
        let before = occupants.iter().nth_back(1).map(|&id| self.stay(id));
        (
            holder.map_or(0, |stay| stay.claim),
            holder.map_or(0, |stay| stay.until),
            before.map_or(0, |stay| stay.until),
        )
    }

    /// Who holds a page at a position, unless that is a head or a tail, which cannot be moved.
    fn holder(&self, page: usize, at: Position) -> Option<&Stay> {
        let holder = self.stay(*self.occupants[page].last()?);
        let movable = holder.by != Claimant::Head && holder.head.is_none();
        (holder.until > at && movable).then_some(holder)
    }

    /// How many occupants a held and a free page had had at the last moment at which both were
    /// free. Heads have been there from the start and cannot be exchanged.
    fn both_free(&self, held: usize, free: usize) -> Option<(usize, usize)> {
        let (a, b) = (&self.occupants[held], &self.occupants[free]);
        let (mut in_a, mut in_b) = (a.len().checked_sub(1)?, b.len());
        // Free from the end of the occupant before to the claim of the one behind.
        let gap = |of: &[StayId], at: usize| {
            let behind = of.get(at).map(|&id| self.stay(id));
            if behind.is_some_and(|stay| stay.by == Claimant::Head) {
                return None;
            }
            let since = of[..at].last().map_or(0, |&id| self.stay(id).until);
            Some((since, behind.map_or(Position::MAX, |stay| stay.claim)))
        };
        loop {
            let ((from_a, to_a), (from_b, to_b)) = (gap(a, in_a)?, gap(b, in_b)?);
            if from_a.max(from_b) <= to_a.min(to_b) {
                return Some((in_a, in_b));
            }
            // Go back on the page whose gap begins later: nothing before it meets the other's.
            let back = if from_a > from_b {
                &mut in_a
            } else {
                &mut in_b
            };
            *back = back.checked_sub(1)?;
        }
    }
}
