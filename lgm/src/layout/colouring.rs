//! Colouring: which page each stay gets.
//!
//! In: stays in the order of their claims, and a number of pages. Out: a page for each, such that
//! stays that meet have different pages, and tails have the pages of their heads. Any such colouring
//! is sound: who waits for whom is worked out from it afterwards.
//!
//! Method: claims in order, each among the pages that are free and not reserved for a tail too soon.
//! Without tails this is interval colouring and needs no more pages than meet at once. A claim that
//! finds only pages reserved too soon exchanges what two pages have held since a moment at which both
//! were free. Runs are preferred: they need no window of their own.

use super::stays::{Claimant, KNOWN, Position, Stay, StayId, Stays};

/// How many exchanges may stand one on the other.
const DEPTH_MAX: u32 = 1;
/// How many holders are tried at each depth.
const EXCHANGES_MAX: usize = 8;

/// How a claimant chooses among the pages that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// Runs first.
    Runs,
    /// Pages that are reserved soonest first, so that long stays find the others; then runs.
    Tight,
}

struct Colouring<'a> {
    stays: &'a [Stay],
    preference: Preference,
    /// For each page, who has had it, in order.
    occupants: Vec<Vec<StayId>>,
    /// For each page, from when on it is reserved for a tail.
    reserved_from: Vec<Position>,
    page_of: Vec<u32>,
}

/// The page of each stay; `None` if no colouring with so many pages was found.
pub(super) fn colour(stays: &Stays<'_>, pages: u32, preference: Preference) -> Option<Vec<u32>> {
    let mut colouring = Colouring {
        stays: &stays.all,
        preference,
        occupants: vec![Vec::new(); pages as usize],
        reserved_from: vec![Position::MAX; pages as usize],
        page_of: vec![u32::MAX; stays.all.len()],
    };
    colouring.place_heads()?;
    for group in &stays.groups {
        colouring.place(group.first, group.count, group.known)?;
    }
    Some(colouring.page_of)
}

impl Colouring<'_> {
    fn stay(&self, id: StayId) -> &Stay {
        &self.stays[id as usize]
    }

    /// Heads come first: those that stay for good, then those whose tails come last.
    fn place_heads(&mut self) -> Option<()> {
        let mut tail_claim: Vec<(Position, StayId)> = Vec::new();
        let mut claim_of = vec![Position::MAX; self.stays.len()];
        for stay in self.stays {
            if let Some(head) = stay.head {
                claim_of[head as usize] = stay.claim;
            }
        }
        for (id, stay) in (0..).zip(self.stays) {
            if stay.by == Claimant::Head {
                tail_claim.push((claim_of[id as usize], id));
            }
        }
        tail_claim.sort_by_key(|&(claim, id)| (core::cmp::Reverse(claim), id));
        if tail_claim.len() > self.occupants.len() {
            return None;
        }
        for (page, (claim, id)) in (0..).zip(tail_claim) {
            self.take(page, id);
            self.reserved_from[page as usize] = claim;
        }
        Some(())
    }

    fn take(&mut self, page: u32, id: StayId) {
        self.occupants[page as usize].push(id);
        self.page_of[id as usize] = page;
    }

    /// Since when a page is free, and the label that it was freed with.
    fn freed(&self, page: usize) -> (Position, i64) {
        self.occupants[page]
            .last()
            .map_or((0, KNOWN), |&id| (self.stay(id).until, self.stay(id).label))
    }

    fn place(&mut self, first: StayId, count: u32, known: i64) -> Option<()> {
        // Neighbours that leave together, and tails one by one.
        let alike = |a: &Stay, b: &Stay| a.until == b.until && a.head.is_none() && b.head.is_none();
        let ids: Vec<StayId> = (first..first + count).collect();
        let longest = ids.iter().map(|&id| self.stay(id).until).max()?;
        if longest != Position::MAX {
            // One run for all of them, if one is free for long enough.
            if let Some(run) = self
                .choose(&ids, longest, known)
                .filter(|pages| is_run(pages))
            {
                ids.iter()
                    .zip(run)
                    .for_each(|(&id, page)| self.take(page, id));
                return Some(());
            }
        }
        let stays = self.stays;
        for part in ids.chunk_by(|&a, &b| alike(&stays[a as usize], &stays[b as usize])) {
            let stay = *self.stay(part[0]);
            if let Some(head) = stay.head {
                let page = self.page_of[head as usize];
                assert!(
                    self.freed(page as usize).0 <= stay.claim,
                    "reserved pages are kept"
                );
                self.take(page, part[0]);
                continue;
            }
            match self.choose(part, stay.until, known) {
                Some(pages) => part
                    .iter()
                    .zip(pages)
                    .for_each(|(&id, page)| self.take(page, id)),
                None => {
                    for &id in part {
                        let page = match self.choose(&[id], stay.until, known) {
                            Some(pages) => pages[0],
                            None => self.exchange(stay.claim, stay.until, DEPTH_MAX)?,
                        };
                        self.take(page, id);
                    }
                }
            }
        }
        Some(())
    }

    /// Free pages for some stays, of which the longest lasts `until`; waiting for as few outs as
    /// will do.
    fn choose(&self, ids: &[StayId], until: Position, known: i64) -> Option<Vec<u32>> {
        let claim = self.stay(ids[0]).claim;
        let wanted = ids.len();
        let mut fitting: Vec<(u32, i64)> = Vec::new();
        for page in 0..self.occupants.len() {
            let (free_since, label) = self.freed(page);
            if free_since <= claim && self.reserved_from[page] >= until {
                fitting.push((to_u32(page), label));
            }
        }
        if fitting.len() < wanted {
            return None;
        }
        let is_known = |known: i64| move |&(_, label): &(u32, i64)| label < known;
        let mut known = known;
        if fitting.iter().filter(|page| is_known(known)(page)).count() < wanted {
            let mut labels: Vec<i64> = fitting.iter().map(|&(_, label)| label).collect();
            labels.sort_unstable();
            known = labels[wanted - 1].saturating_add(1);
        }
        let mut pages: Vec<u32> = fitting
            .into_iter()
            .filter(|page| is_known(known)(page))
            .map(|(page, _)| page)
            .collect();
        let mut chosen = Vec::with_capacity(wanted);
        if self.preference == Preference::Tight {
            let reserved = |page: &u32| self.reserved_from[*page as usize];
            let mut from: Vec<Position> = pages.iter().map(reserved).collect();
            from.sort_unstable();
            let last = from[wanted - 1];
            chosen.extend(pages.iter().copied().filter(|page| reserved(page) < last));
            pages.retain(|page| reserved(page) == last);
        }
        choose_runs(&pages, wanted, &mut chosen);
        Some(chosen)
    }

    /// Makes a page free that is reserved late enough, by exchanging what two pages have held since a
    /// moment at which both were free. Where no free page will do for the holder, one may be made
    /// free in the same way, `depth` times over.
    fn exchange(&mut self, claim: Position, until: Position, depth: u32) -> Option<u32> {
        let mut held: Vec<(Position, usize)> = (0..self.occupants.len())
            .filter(|&page| self.reserved_from[page] >= until)
            .filter_map(|page| self.holder(page, claim).map(|holder| (holder.until, page)))
            .collect();
        held.sort_unstable();
        let free: Vec<usize> = (0..self.occupants.len())
            .filter(|&page| self.freed(page).0 <= claim)
            .collect();
        for &(_, page) in &held {
            if free.iter().any(|&other| self.try_exchange(page, other)) {
                return Some(to_u32(page));
            }
        }
        if depth == 0 {
            return None;
        }
        // Only holders that leave sooner than the claimant make the question easier.
        held.retain(|&(leaves, _)| leaves < until);
        for &(leaves, page) in held.iter().take(EXCHANGES_MAX) {
            let Some(other) = self.exchange(claim, leaves, depth - 1) else {
                continue;
            };
            let still_held = self.holder(page, claim).is_some_and(|h| h.until == leaves);
            if still_held && self.try_exchange(page, other as usize) {
                return Some(to_u32(page));
            }
        }
        None
    }

    /// Who holds a page at a position, unless that is a head or a tail, which cannot be moved.
    fn holder(&self, page: usize, at: Position) -> Option<&Stay> {
        let holder = self.stay(*self.occupants[page].last()?);
        let movable = holder.by != Claimant::Head && holder.head.is_none();
        (holder.until > at && movable).then_some(holder)
    }

    /// Exchanges what a held and a free page have held since the last moment at which both were free,
    /// if there was one and the holder may go to the free page.
    fn try_exchange(&mut self, held: usize, free: usize) -> bool {
        let Some(&holder) = self.occupants[held].last() else {
            return false;
        };
        if self.reserved_from[free] < self.stay(holder).until {
            return false;
        }
        let Some((keep_held, keep_free)) = self.both_free(held, free) else {
            return false;
        };
        let from_held = self.occupants[held].split_off(keep_held);
        let from_free = self.occupants[free].split_off(keep_free);
        from_free
            .into_iter()
            .for_each(|id| self.take(to_u32(held), id));
        from_held
            .into_iter()
            .for_each(|id| self.take(to_u32(free), id));
        true
    }

    /// How many occupants a held and a free page had had at the last moment at which both were free.
    /// Heads have been there from the start and cannot be exchanged.
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

/// The shortest runs of pages that are long enough.
fn choose_runs(pages: &[u32], wanted: usize, chosen: &mut Vec<u32>) {
    let mut runs: Vec<&[u32]> = pages.chunk_by(|a, b| a + 1 == *b).collect();
    runs.sort_by_key(|run| (run.len(), run[0]));
    while chosen.len() < wanted {
        let left = wanted - chosen.len();
        let at = runs
            .partition_point(|run| run.len() < left)
            .min(runs.len() - 1);
        let run = runs.remove(at);
        chosen.extend(&run[..run.len().min(left)]);
    }
}

fn is_run(pages: &[u32]) -> bool {
    pages.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

fn to_u32(page: usize) -> u32 {
    u32::try_from(page).expect("limits: at most 2^24 pages")
}
