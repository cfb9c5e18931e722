//! Colouring: which page each stay gets.
//!
//! In: stays in the order of their claims, and a number of pages. Out: a page for each, such that
//! stays that meet have different pages, and tails have the pages of their heads. Any such
//! colouring is sound: who waits for whom is worked out from it afterwards.
//!
//! Method: claims in order, each among the pages that are free and not reserved for a tail too
//! soon. Without tails this is interval colouring and needs no more pages than meet at once. A
//! claim that finds only pages reserved too soon exchanges what two pages have held since a moment
//! at which both were free. Runs are preferred: they need no window of their own.

use super::exchange::Exchanges;
use super::occupancy::Occupancy;
use super::stays::{Claimant, Position, Stay, StayId, Stays};

/// How a claimant chooses among the pages that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// Runs first.
    Runs,
    /// Pages that are reserved soonest first, so that long stays find the others; then runs.
    Tight,
}

struct Colouring<'a> {
    pages: Occupancy<'a>,
    exchanges: Exchanges,
    preference: Preference,
}

/// The page of each stay; `None` if no colouring with so many pages was found.
pub(super) fn colour(stays: &Stays<'_>, pages: u32, preference: Preference) -> Option<Vec<u32>> {
    let mut colouring = Colouring {
        pages: Occupancy::new(&stays.all, pages),
        exchanges: Exchanges::new(),
        preference,
    };
    colouring.place_heads()?;
    for group in &stays.groups {
        colouring.place(group.first, group.count, group.known)?;
    }
    Some(colouring.pages.page_of)
}

impl Colouring<'_> {
    /// Heads come first: those that stay for good, then those whose tails come last.
    fn place_heads(&mut self) -> Option<()> {
        let mut tail_claim: Vec<(Position, StayId)> = Vec::new();
        let mut claim_of = vec![Position::MAX; self.pages.stays.len()];
        for stay in self.pages.stays {
            if let Some(head) = stay.head {
                claim_of[head as usize] = stay.claim;
            }
        }
        for (id, stay) in (0..).zip(self.pages.stays) {
            if stay.by == Claimant::Head {
                tail_claim.push((claim_of[id as usize], id));
            }
        }
        tail_claim.sort_by_key(|&(claim, id)| (core::cmp::Reverse(claim), id));
        if tail_claim.len() > self.pages.occupants.len() {
            return None;
        }
        for (page, (claim, id)) in (0..).zip(tail_claim) {
            self.pages.take(page, id);
            self.pages.reserved_from[page as usize] = claim;
        }
        Some(())
    }

    fn place(&mut self, first: StayId, count: u32, known: i64) -> Option<()> {
        // Neighbours that leave together, and tails one by one.
        let alike = |a: &Stay, b: &Stay| a.until == b.until && a.head.is_none() && b.head.is_none();
        let ids: Vec<StayId> = (first..first + count).collect();
        let longest = ids.iter().map(|&id| self.pages.stay(id).until).max()?;
        if longest != Position::MAX {
            // One run for all of them, if one is free for long enough.
            if let Some(run) = self
                .choose(&ids, longest, known)
                .filter(|pages| is_run(pages))
            {
                ids.iter()
                    .zip(run)
                    .for_each(|(&id, page)| self.pages.take(page, id));
                return Some(());
            }
        }
        let stays = self.pages.stays;
        for part in ids.chunk_by(|&a, &b| alike(&stays[a as usize], &stays[b as usize])) {
            let stay = *self.pages.stay(part[0]);
            if let Some(head) = stay.head {
                let page = self.pages.page_of[head as usize];
                assert!(
                    self.pages.freed[page as usize].0 <= stay.claim,
                    "reserved pages are kept"
                );
                self.pages.take(page, part[0]);
                continue;
            }
            let fitting = self.pages.fitting(&stay).count().min(part.len());
            let (now, later) = part.split_at(fitting);
            if let Some(pages) = self.choose(now, stay.until, known) {
                now.iter()
                    .zip(pages)
                    .for_each(|(&id, page)| self.pages.take(page, id));
            }
            if !later.is_empty() && !self.exchanges.make_room(&mut self.pages, later) {
                return None;
            }
        }
        Some(())
    }

    /// Free pages for some stays, of which the longest lasts `until`; waiting for as few outs as
    /// will do.
    fn choose(&self, ids: &[StayId], until: Position, known: i64) -> Option<Vec<u32>> {
        let wanted = ids.len();
        let longest = Stay {
            until,
            ..*self.pages.stay(*ids.first()?)
        };
        let fitting: Vec<(u32, i64)> = self.pages.fitting(&longest).collect();
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
            let reserved = |page: &u32| self.pages.reserved_from[*page as usize];
            let mut from: Vec<Position> = pages.iter().map(reserved).collect();
            from.sort_unstable();
            let last = from[wanted - 1];
            chosen.extend(pages.iter().copied().filter(|page| reserved(page) < last));
            pages.retain(|page| reserved(page) == last);
        }
        choose_runs(&pages, wanted, &mut chosen);
        Some(chosen)
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
