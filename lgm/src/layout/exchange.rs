//! Exchanges: pages for stays that find too few that are free for long enough, or free without
//! another wait.
//!
//! Where pages were free at the same moment, what they have held since may change places. So a page
//! that would do, but is held now or was freed by too late an out, changes places with one that is
//! free but reserved too soon, if what it has held may go there.

use super::Effort;
use super::extent::{Extent, wait_beyond};
use super::lot::Lot;
use super::occupancy::Occupancy;
use super::stays::{Claimant, Position, Stay, StayId};

/// What trying an exchange is worth in extents looked at.
const LOOKS: usize = 4;

/// Tries of exchanges for one lot, if it may wait instead, and if not.
const TRIES_MAX: [usize; 2] = [1000, 10_000];

/// Finds pages for some stays and goes on behind those that got one. If `known`, nobody waits for
/// more because of it.
pub(super) fn make_room(
    pages: &mut Occupancy<'_>,
    lot: &mut Lot,
    known: bool,
    effort: &mut Effort,
) {
    let stay = *pages.stay(lot.first);
    if !effort.spend(2 * pages.len()) {
        return;
    }
    let suits = |extent: &Extent| {
        extent.reserved_from() >= stay.until && !(known && extent.wait_of_reserved(stay.label) > 0)
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
        .map(|(page, extent)| (extent.reserved_from(), page))
        .collect();
    given.sort_unstable();
    let mut tries = TRIES_MAX[usize::from(!known)];
    // What is reserved last takes the most.
    for (_, free) in given.into_iter().rev() {
        let (mut free, end) = (free, free + pages.extent(free).count);
        while free < end && lot.count > 0 {
            let mut candidates = wanted.iter().map(|&(_, page)| page);
            let found = candidates.find_map(|page| {
                let spent = tries == 0 || !effort.spend(LOOKS);
                tries = tries.saturating_sub(1);
                let keep = exchangeable(pages, (page, free), known).filter(|_| !spent)?;
                Some((page, keep))
            });
            let Some((page, keep)) = found else { break };
            let count = pages.extent(page).count.min(end - free).min(lot.count);
            pages.isolate(page, count);
            pages.isolate(free, count);
            exchange(pages, (page, free), keep);
            pages.take(page, count, lot.first);
            lot.skip(count);
            free += count;
        }
        if lot.count == 0 || tries == 0 {
            return;
        }
    }
}

/// How many occupants two extents keep.
type Keep = (usize, usize);

/// How many occupants a wanted and a free extent keep if they exchange what they have held since
/// the last moment at which both were free; `None` if there was no such moment, or what the former
/// has may not go to the latter.
fn exchangeable(pages: &Occupancy<'_>, (wanted, free): (u32, u32), known: bool) -> Option<Keep> {
    let (wanted, free) = (pages.extent(wanted), pages.extent(free));
    let holder = pages.movable(wanted)?;
    let too_late = known && free.wait_of_reserved(holder.label) > 0;
    if free.reserved_from() < holder.until || too_late {
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
    /// Who had an extent last, unless that is a head, a tail or kept, which cannot be moved.
    fn movable(&self, extent: &Extent) -> Option<&Stay> {
        let holder = self.stay(*extent.occupants.last()?);
        let stuck = holder.by == Claimant::Head || holder.head.is_some() || holder.kept;
        (!stuck).then_some(holder)
    }

    /// How many occupants two pages, the second of which is free, had had at the last moment at
    /// which both were free; if `known`, at which each could take over from the other without
    /// another wait. Heads have been there from the start and cannot be exchanged, nor can what is
    /// kept.
    fn both_free(&self, a: &[StayId], b: &[StayId], known: bool) -> Option<(usize, usize)> {
        let (mut in_a, mut in_b) = (a.len().checked_sub(1)?, b.len());
        // Free from the end of the occupant before to the claim of the one behind.
        let gap = |of: &[StayId], at: usize| {
            let behind = of.get(at).map(|&id| self.stay(id));
            if behind.is_some_and(|stay| stay.by == Claimant::Head || stay.kept) {
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
