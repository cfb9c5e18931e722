//! Colouring: which page each stay gets.
//!
//! In: stays in the order of their claims, and a number of pages. Out: a page for each, such that
//! stays that meet have different pages, tails have the pages of their heads, and all stays of a
//! fixed piece the same. Any such
//! colouring is sound: who waits for whom is worked out from it afterwards.
//!
//! Method: claims in order, each among the pages that are free, not reserved too soon,
//! and freed by outs that the schedule lets the claimant wait for anyway. The counts of pages say
//! that there are enough of these, tails apart. Of them the ones go first that others could not
//! use without a wait. A claim that finds too few exchanges what pages have held since a moment at
//! which both were free. Runs are preferred: they need no window of their own.

use super::Effort;
use super::exchange::make_room;
use super::lot::Lot;
use super::occupancy::{Occupancy, Offer};
use super::preference::Preference;
use super::reserved::{self, Chain};
use super::stays::{Claimant, Position, Stay, StayId, Stays};
use crate::count::to_u32;
use crate::tricks::Tricks;

/// How often stays whose page is chosen beforehand are tried in another order.
const ROUNDS_MAX: u32 = 16;

/// How pages are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) preference: Preference,
    pub(super) tricks: Tricks,
}

struct Colouring<'a> {
    pages: Occupancy<'a>,
    effort: &'a mut Effort,
    choice: Choice,
    /// How many outs steps, and ins, know to be complete.
    known: [i64; 2],
    /// The page of each stay for which one is reserved.
    page_of: Vec<Option<u32>>,
}

/// The page of each stay; `None` if no colouring with so many pages was found.
pub(super) fn colour(
    stays: &Stays<'_>,
    pages: u32,
    choice: Choice,
    effort: &mut Effort,
) -> Option<Vec<u32>> {
    let mut colouring = Colouring {
        pages: Occupancy::new(&stays.all, pages, stays.compared()),
        effort,
        choice,
        known: [i64::MIN; 2],
        page_of: vec![None; stays.all.len()],
    };
    colouring.place_reserved(stays, pages)?;
    for group in &stays.groups {
        let ids: Vec<StayId> = (group.first..group.first + group.count).collect();
        colouring.place(&ids)?;
    }
    Some(colouring.pages.pages())
}

impl Colouring<'_> {
    /// Those whose page is known beforehand: see `reserved`. A chain that finds none gets its page
    /// earlier in the next round.
    fn place_reserved(&mut self, stays: &Stays<'_>, pages: u32) -> Option<()> {
        let mut chains = reserved::chains(stays, self.choice.preference);
        let is_head = |chain: &Chain| stays.all[chain.stays[0] as usize].by == Claimant::Head;
        let heads = chains.partition_point(is_head);
        for _ in 0..ROUNDS_MAX {
            let Err(failed) = self.place_chains(&chains, heads, pages) else {
                return Some(());
            };
            if failed < heads || self.effort.0 == 0 {
                return None;
            }
            let earlier = heads + (failed - heads) / 2;
            chains[earlier..=failed].rotate_right(1);
            self.pages = Occupancy::new(self.pages.stays, pages, stays.compared());
        }
        None
    }

    /// Gives pages to chains, the heads first. Says which one finds too few.
    fn place_chains(&mut self, chains: &[Chain], heads: usize, pages: u32) -> Result<(), usize> {
        let mut next = 0;
        for (row, chain) in chains.iter().enumerate() {
            let is_head = row < heads;
            let runs = if is_head {
                // All of them are there at the same time.
                let run = (next, chain.count);
                next += chain.count;
                (next <= pages).then(|| vec![run])
            } else {
                self.effort.spend(self.pages.len());
                self.pages.runs_for(chain, self.choice.preference)
            };
            let mut done = 0;
            for run in runs.ok_or(row)? {
                self.place_chain(chain, is_head, run, done);
                done += run.1;
            }
        }
        Ok(())
    }

    /// Gives a run of pages to a chain, behind those that it has.
    fn place_chain(&mut self, chain: &Chain, is_head: bool, (page, count): (u32, u32), has: u32) {
        self.pages.isolate(page, count);
        self.pages.chain(page, count, &chain.times);
        for (row, &stay) in chain.stays.iter().enumerate() {
            let first = stay + has;
            if is_head && row == 0 {
                self.pages.take(page, count, first);
            } else {
                self.pages.reserve(page, count, first);
            }
            for at in 0..count {
                self.page_of[(first + at) as usize] = Some(page + at);
            }
        }
    }

    /// Gives pages to stays that are claimed together.
    fn place(&mut self, ids: &[StayId]) -> Option<()> {
        let first = *self.pages.stay(*ids.first()?);
        self.pages.advance(first.claim);
        let claimant = usize::from(matches!(first.by, Claimant::In(_)));
        self.known[claimant] = self.known[claimant].max(first.known);
        let longest = ids.iter().map(|&id| self.pages.stay(id).until).max()?;
        let reserved = self.page_of[ids[0] as usize].is_some();
        let for_good = longest == Position::MAX;
        if !reserved && !for_good && self.choice.preference == Preference::Runs {
            // One run for all of them, if one is free for long enough.
            let stay = Stay {
                until: longest,
                ..first
            };
            let all = to_u32(ids.len());
            let ready = self.ready(&stay);
            if count(&ready) >= all
                && let [run] = self.choose(ready, all)[..]
            {
                self.take(ids[0], &[run]);
                return Some(());
            }
        }
        // Neighbours that leave together, and those for whom neighbours are reserved.
        let stays = self.pages.stays;
        let page = |id: StayId| self.page_of[id as usize];
        let ends = |id: StayId| (stays[id as usize].until, stays[id as usize].label);
        let alike =
            |a: StayId, b: StayId| ends(a) == ends(b) && page(a).map(|page| page + 1) == page(b);
        let parts: Vec<(Option<u32>, Lot)> = ids
            .chunk_by(|&a, &b| alike(a, b))
            .map(|part| {
                let lot = Lot {
                    first: part[0],
                    count: to_u32(part.len()),
                };
                (page(part[0]), lot)
            })
            .collect();
        for (page, lot) in parts {
            match page {
                Some(page) => self.take(lot.first, &[(page, lot.count)]),
                None => self.place_lot(lot)?,
            }
        }
        Some(())
    }

    /// Gives pages to stays that leave together, too.
    fn place_lot(&mut self, mut lot: Lot) -> Option<()> {
        let stay = self.pages.stay(lot.first);
        let ready = self.ready(stay);
        let now = count(&ready).min(lot.count);
        let chosen = self.choose(ready, now);
        self.take(lot.first, &chosen);
        lot.skip(now);
        if lot.count > 0 && self.choice.tricks.known {
            make_room(&mut self.pages, &mut lot, true, self.effort);
        }
        if lot.count > 0 {
            // Now whatever fits, for as short a wait as will do.
            let mut offers: Vec<Offer> = self.pages.offers(stay).collect();
            offers.sort_unstable_by_key(|offer| (offer.wait, offer.page));
            for offer in offers {
                let now = offer.count.min(lot.count);
                if now > 0 {
                    self.take(lot.first, &[(offer.page, now)]);
                    lot.skip(now);
                }
            }
        }
        if lot.count > 0 {
            make_room(&mut self.pages, &mut lot, false, self.effort);
        }
        (lot.count == 0).then_some(())
    }

    /// The free pages that a stay may take without another wait.
    fn ready(&mut self, stay: &Stay) -> Vec<Offer> {
        self.effort.spend(self.pages.free_len());
        let known = self.choice.tricks.known;
        let ready = self.pages.offers(stay);
        ready.filter(|offer| offer.wait == 0 || !known).collect()
    }

    fn take(&mut self, first: StayId, runs: &[(u32, u32)]) {
        let mut first = first;
        for &(page, count) in runs {
            self.pages.isolate(page, count);
            self.pages.take(page, count, first);
            first += count;
        }
    }

    /// Some pages of those that are ready, as runs; there are as many.
    fn choose(&self, mut ready: Vec<Offer>, wanted: u32) -> Vec<(u32, u32)> {
        // Pages that only some know to be free are as good as others to those who do.
        let settled = self.known[0].min(self.known[1]);
        let order = |offer: &Offer| {
            let late = core::cmp::Reverse(offer.label.max(settled));
            match self.choice.preference {
                Preference::Runs => (0, core::cmp::Reverse(0)),
                Preference::Late => (0, late),
                Preference::Tight => (offer.reserved_from, late),
            }
        };
        ready.sort_unstable_by_key(|offer| (order(offer), offer.page));
        let mut left = wanted;
        let mut chosen = Vec::new();
        for alike in ready.chunk_by(|a, b| order(a) == order(b)) {
            if left == 0 {
                break;
            }
            let all = count(alike).min(left);
            choose_runs(alike, all, &mut chosen);
            left -= all;
        }
        merge_runs(&mut chosen);
        chosen
    }
}

fn count(offers: &[Offer]) -> u32 {
    offers.iter().map(|offer| offer.count).sum()
}

/// Takes so many pages from the shortest runs that are long enough.
fn choose_runs(offers: &[Offer], wanted: u32, chosen: &mut Vec<(u32, u32)>) {
    let runs = offers.chunk_by(|a, b| a.page + a.count == b.page);
    let mut runs: Vec<(u32, u32)> = runs.map(|run| (count(run), run[0].page)).collect();
    runs.sort_unstable();
    let mut left = wanted;
    while left > 0 {
        let at = runs.partition_point(|&(count, _)| count < left);
        let (count, page) = runs.remove(at.min(runs.len() - 1));
        chosen.push((page, count.min(left)));
        left -= count.min(left);
    }
}

/// Joins runs that follow each other, in the order of the pages.
fn merge_runs(runs: &mut Vec<(u32, u32)>) {
    runs.sort_unstable();
    runs.dedup_by(|next, run| {
        let follows = run.0 + run.1 == next.0;
        if follows {
            run.1 += next.1;
        }
        follows
    });
}
