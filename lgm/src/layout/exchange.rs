//! Exchanges: pages for stays that find too few that are free for long enough, or free without
//! another wait.
//!
//! Where pages were free at the same moment, what they have held since may change places. So a page
//! that would do, but is held now or was freed by too late an out, changes places with one that is
//! free but reserved too soon, if what it has held may go there.

use super::Effort;
use super::colouring::Lot;
use super::occupancy::{Extent, Occupancy, wait_beyond};
use super::stays::{Claimant, Position, Stay, StayId};

/// What trying an exchange is worth in extents looked at.
const LOOKS: usize = 4;

/// Tries of exchanges for one lot, directly and by way of a third page, if it may wait instead, and
/// if not.
const TRIES_MAX: [[usize; 2]; 2] = [[1000, 300], [10_000, 3000]];

/// What exchanges may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Nobody waits for more because of them.
    pub(super) known: bool,
    /// They may go by way of a third page.
    pub(super) detours: bool,
}

/// Finds pages for some stays and goes on behind those that got one.
pub(super) fn make_room(
    pages: &mut Occupancy<'_>,
    lot: &mut Lot,
    How { known, detours }: How,
    effort: &mut Effort,
) {
    let stay = *pages.stay(lot.first);
    if !effort.spend(2 * pages.len()) {
        return;
    }
    let suits = |extent: &Extent| {
        pages.reserved_from(extent) >= stay.until
            && !(known && pages.wait_of_tail(extent, stay.label) > 0)
    };
    let mut wanted: Vec<(Position, u32)> = pages
        .extents()
        .filter(|(_, extent)| suits(extent))
        .filter_map(|(page, extent)| Some((pages.movable(extent)?.until, page)))
        .collect();
    wanted.sort_unstable();
    let known_free = |extent: &Extent| wait_beyond(extent.freed.1, stay.known) == 0;
    let mut given: Vec<(Position, u32)> = pages
        .free()
        .filter(|(_, extent)| !suits(extent) && (!known || known_free(extent)))
        .map(|(page, extent)| (pages.reserved_from(extent), page))
        .collect();
    given.sort_unstable();
    let mut search = Search {
        known,
        effort,
        tries: 0,
    };
    for detour in [false, true] {
        if detour && !detours {
            return;
        }
        search.tries = TRIES_MAX[usize::from(!known)][usize::from(detour)];
        for at in (0..given.len()).rev() {
            let mut free = given[at].1;
            let end = free + pages.extent(free).count;
            while free < end && lot.count > 0 {
                let Some((page, count)) = search.free_up(pages, free, lot.count, &wanted, detour)
                else {
                    break;
                };
                pages.take(page, count, lot.first);
                lot.skip(count);
                free += count;
            }
            if lot.count == 0 {
                return;
            }
            if free == end {
                given.remove(at);
            } else {
                given[at].1 = free;
            }
        }
    }
}

/// Looks for exchanges.
struct Search<'e> {
    known: bool,
    effort: &'e mut Effort,
    tries: usize,
}

impl Search<'_> {
    /// Makes up to `most` pages of a wanted extent free instead of as many of a free one, by way of
    /// a third if that is allowed.
    fn free_up(
        &mut self,
        pages: &mut Occupancy<'_>,
        free: u32,
        most: u32,
        wanted: &[(Position, u32)],
        detour: bool,
    ) -> Option<(u32, u32)> {
        if !detour {
            let (page, count, _) = self.exchange_any(pages, free, most, wanted)?;
            return Some((page, count));
        }
        let others: Vec<u32> = pages.extents().map(|(page, _)| page).collect();
        for other in others {
            if self.tries == 0 {
                return None;
            }
            let Some((count, keep)) = self.try_exchange(pages, (other, free), most) else {
                continue;
            };
            if let Some((page, fewer, _)) = self.exchange_any(pages, other, count, wanted) {
                if fewer < count {
                    // What was not needed goes back.
                    pages.isolate(free + fewer, count - fewer);
                    pages.isolate(other + fewer, count - fewer);
                    exchange(pages, (other + fewer, free + fewer), keep);
                }
                return Some((page, fewer));
            }
            exchange(pages, (other, free), keep);
        }
        None
    }

    /// Exchanges a free extent with the first of the wanted ones that is possible.
    fn exchange_any(
        &mut self,
        pages: &mut Occupancy<'_>,
        free: u32,
        most: u32,
        wanted: &[(Position, u32)],
    ) -> Option<(u32, u32, Keep)> {
        for &(_, page) in wanted {
            if let Some((count, keep)) = self.try_exchange(pages, (page, free), most) {
                return Some((page, count, keep));
            }
        }
        None
    }

    /// Exchanges the beginnings of a held and of a free extent, if possible; what both keep.
    fn try_exchange(
        &mut self,
        pages: &mut Occupancy<'_>,
        (held, free): (u32, u32),
        most: u32,
    ) -> Option<(u32, Keep)> {
        if held == free || self.tries == 0 || !self.effort.spend(LOOKS) {
            return None;
        }
        self.tries -= 1;
        let keep = exchangeable(pages, (held, free), self.known)?;
        let count = pages
            .extent(held)
            .count
            .min(pages.extent(free).count)
            .min(most);
        pages.isolate(held, count);
        pages.isolate(free, count);
        exchange(pages, (held, free), keep);
        Some((count, keep))
    }
}

/// How many occupants two extents keep.
type Keep = (usize, usize);

/// How many occupants a wanted and a free extent keep if they exchange what they have held since
/// the last moment at which both were free; `None` if there was no such moment, or what the former
/// has may not go to the latter.
fn exchangeable(
    pages: &Occupancy<'_>,
    (wanted, free): (u32, u32),
    known: bool,
) -> Option<(usize, usize)> {
    let (wanted, free) = (pages.extent(wanted), pages.extent(free));
    let holder = pages.movable(wanted)?;
    let too_late = known && pages.wait_of_tail(free, holder.label) > 0;
    if pages.reserved_from(free) < holder.until || too_late {
        return None;
    }
    pages.both_free(&wanted.occupants, &free.occupants, known)
}

fn exchange(pages: &mut Occupancy<'_>, (a, b): (u32, u32), (keep_a, keep_b): (usize, usize)) {
    let count = pages.extent(a).count;
    let from_a = pages.take_back(a, keep_a);
    let from_b = pages.take_back(b, keep_b);
    from_b.into_iter().for_each(|id| pages.take(a, count, id));
    from_a.into_iter().for_each(|id| pages.take(b, count, id));
}

impl Occupancy<'_> {
    /// Who had an extent last, unless that is a head or a tail, which cannot be moved.
    fn movable(&self, extent: &Extent) -> Option<&Stay> {
        let holder = self.stay(*extent.occupants.last()?);
        (holder.by != Claimant::Head && holder.head.is_none()).then_some(holder)
    }

    /// How many occupants two pages, the second of which is free, had had at the last moment at
    /// which both were free; if `known`, at which each could take over from the other without
    /// another wait. Heads have been there from the start and cannot be exchanged.
    fn both_free(&self, a: &[StayId], b: &[StayId], known: bool) -> Option<(usize, usize)> {
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
        let follows = |before: &[StayId], behind: Option<&StayId>| match (before.last(), behind) {
            (Some(&before), Some(&behind)) => {
                wait_beyond(self.stay(before).label, self.stay(behind).known) == 0
            }
            _ => true,
        };
        loop {
            let ((from_a, to_a), (from_b, to_b)) = (gap(a, in_a)?, gap(b, in_b)?);
            let meet = from_a.max(from_b) <= to_a.min(to_b);
            if meet
                && (!known || follows(&b[..in_b], a.get(in_a)) && follows(&a[..in_a], b.get(in_b)))
            {
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
