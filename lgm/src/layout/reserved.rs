//! Reserved: stays whose pages are chosen before all others.
//!
//! Who is there when the circle begins comes back to the same page at its end, and a piece with a
//! fixed address to the same page each time. In: stays. Out: *chains*, each of all stays that must
//! have one page, and for a chain the pages that are free whenever it needs them.
//!
//! Method: heads first, since each needs a page of its own at the cut: those that stay for good,
//! then those whose next claim comes last. Then fixed pieces, those that stay longest first.
//! For those it is colouring with several intervals at once, for which no bound holds: pages come
//! first on which nobody is later than wished, then those that cost nobody a wait, then those that
//! were left last. Whoever finds none is tried earlier in the next round (see `colouring`).

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::extent::{Extent, wait_beyond};
use super::occupancy::Occupancy;
use super::preference::Preference;
use super::stays::{Claimant, Position, Stay, StayId, Stays};
use super::times::Times;
use crate::count::to_u32;

/// Stays that must have one page, and those of neighbours that do the same.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The stays of the first page, in the order of their claims; those of the next page have the
    /// next numbers.
    pub(super) stays: Vec<StayId>,
    /// How many pages.
    pub(super) count: u32,
    /// When it has them.
    pub(super) times: Times,
}

/// How a chain fits an extent.
#[derive(Default)]
struct Fit {
    /// By how many positions the chain, and others because of it, have their pages later than they
    /// wish.
    late: u64,
    /// How many outs too many they have to wait for.
    wait: i64,
    /// When the extent was left before the chain's first claim.
    left: Position,
}

impl Fit {
    /// Takes in that a stay has a page behind another.
    fn follow(&mut self, before: &Stay, behind: &Stay) {
        self.late += u64::from(before.until.saturating_sub(behind.wish));
        self.wait = (self.wait).saturating_add(wait_beyond(before.label, behind.known));
    }
}

/// All chains, in the order in which they get their pages.
pub(super) fn chains(stays: &Stays<'_>, order: Preference) -> Vec<Chain> {
    let all = &stays.all;
    // Heads are the first stays of all.
    let heads = all.iter().take_while(|stay| stay.by == Claimant::Head);
    let free = heads.zip(0..).filter(|(stay, _)| !stay.kept);
    let mut single: Vec<Vec<StayId>> = free.map(|(_, id)| vec![id]).collect();
    for (id, stay) in (0..).zip(all).filter(|(_, stay)| !stay.kept) {
        if let Some(head) = stay.head {
            let at = single.binary_search_by_key(&head, |chain| chain[0]);
            single[at.expect("a tail has a head")].push(id);
        }
    }
    single.extend(stays.kept.iter().filter(|chain| !chain.is_empty()).cloned());
    single.sort_unstable_by_key(|chain| chain[0]);
    let same = |&a: &StayId, &b: &StayId| {
        let (one, next) = (&all[a as usize], &all[b as usize]);
        b == a + 1
            && (one.claim, one.wish, one.until) == (next.claim, next.wish, next.until)
            && one.label == next.label
            && one.kept == next.kept
    };
    let follows = |a: &Vec<StayId>, b: &Vec<StayId>| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
    };
    let (end, compared) = (stays.positions(), stays.compared());
    let times = |chain: &[StayId]| {
        let stays = chain.iter().map(|&id| &all[id as usize]);
        Times::of(stays.map(|stay| stay.claim..stay.until), compared)
    };
    let mut chains: Vec<Chain> = single
        .chunk_by(follows)
        .map(|neighbours| Chain {
            stays: neighbours[0].clone(),
            count: to_u32(neighbours.len()),
            times: times(&neighbours[0]),
        })
        .collect();
    let claim = |chain: &Chain, at: usize| {
        let stay = chain.stays.get(at);
        stay.map_or(Position::MAX, |&id| all[id as usize].claim)
    };
    chains.sort_unstable_by_key(|chain| match all[chain.stays[0] as usize].by {
        Claimant::Head => (0, Reverse(claim(chain, 1)), 0, chain.stays[0]),
        _ => {
            let length = chain.stays.iter().map(|&id| {
                let stay = &all[id as usize];
                stay.until.min(end) - stay.wish
            });
            let length = match order {
                Preference::Tight => 0,
                _ => length.sum::<Position>(),
            };
            let single = order != Preference::Late && chain.stays.len() == 1;
            let group = 1 + u32::from(single);
            (group, Reverse(length), claim(chain, 0), chain.stays[0])
        }
    });
    chains
}

impl Occupancy<'_> {
    /// Pages that are free whenever a chain needs them, as runs; `None` if there are too few. Of
    /// those that suit it alike, those that were left last come first, or simply the first.
    pub(super) fn runs_for(&self, chain: &Chain, order: Preference) -> Option<Vec<(u32, u32)>> {
        let mut fitting: BinaryHeap<_> = self
            .unchained(&chain.times)
            .map(|(page, extent)| {
                let fit = self.fit(chain, extent);
                let key = match order {
                    Preference::Late => (fit.late, fit.wait, Reverse(fit.left)),
                    Preference::Tight => (fit.late, 0, Reverse(fit.left)),
                    Preference::Runs => (fit.late, fit.wait, Reverse(0)),
                };
                Reverse((key, page, extent.count))
            })
            .collect();
        let mut runs = Vec::new();
        let mut missing = chain.count;
        while missing > 0 {
            let Reverse((_, page, count)) = fitting.pop()?;
            let taken = count.min(missing);
            runs.push((page, taken));
            missing -= taken;
        }
        Some(runs)
    }

    /// How a chain fits an extent that is free whenever the chain needs it.
    fn fit(&self, chain: &Chain, extent: &Extent) -> Fit {
        let mut fit = Fit::default();
        // From the last claim to the first.
        let mut others = extent.reserved.iter().chain(extent.occupants.last());
        let mut other = others.next();
        let mut behind: Option<StayId> = None;
        for &id in chain.stays.iter().rev() {
            let stay = self.stay(id);
            while let Some(&next) = other.filter(|&&next| self.stay(next).claim >= stay.claim) {
                if behind.is_none_or(|last| self.stay(last).claim > self.stay(next).claim) {
                    behind = Some(next);
                }
                other = others.next();
            }
            if let Some(next) = behind.map(|next| self.stay(next)) {
                fit.follow(stay, next);
            }
            if let Some(before) = other.map(|&before| self.stay(before)) {
                fit.follow(before, stay);
                fit.left = before.until;
            } else {
                fit.left = 0;
            }
            behind = Some(id);
        }
        fit
    }
}
