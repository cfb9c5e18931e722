//! Free pages, as numbers: how many there are, and which outs have to be complete before they may
//! be used.
//!
//! Two claimants take pages, steps and copies in, each with its own knowledge of complete outs,
//! which only grows. Claiming takes a search for the place of that knowledge and touches only what
//! it takes.

use std::collections::VecDeque;

/// Who claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Step = 0,
    In = 1,
}

/// The count.
pub(crate) struct FreeCount {
    /// Free for everyone.
    settled: i64,
    /// Freed by an out, in order of the outs; not empty ones only.
    pending: VecDeque<(i64, i64)>,
    /// For each claimant, how many outs it knows to be complete.
    known: [i64; 2],
    /// For each claimant, the pending pages that it may use.
    usable: [i64; 2],
    /// The fewest usable pages that any claim has left.
    left_min: i64,
}

impl FreeCount {
    pub(crate) fn new(pages: i64) -> Self {
        Self {
            settled: pages,
            pending: VecDeque::new(),
            known: [0; 2],
            usable: [0; 2],
            left_min: pages,
        }
    }

    /// How many outs a claimant knows to be complete.
    pub(crate) fn known(&self, who: Who) -> i64 {
        self.known[who as usize]
    }

    /// The fewest usable pages that any claim has left.
    pub(crate) fn left_min(&self) -> i64 {
        self.left_min
    }

    /// Pages that are not free for everyone.
    pub(crate) fn unsettled(&self) -> i64 {
        self.pending.iter().map(|&(_, pages)| pages).sum()
    }

    /// Frees pages at once.
    pub(crate) fn free(&mut self, pages: i64) {
        self.settled += pages;
    }

    /// Frees pages once an out is complete; outs come in order.
    pub(crate) fn free_by(&mut self, out: i64, pages: i64) {
        debug_assert!(self.pending.back().is_none_or(|&(last, _)| last < out));
        self.pending.push_back((out, pages));
        for who in 0..2 {
            if out < self.known[who] {
                self.usable[who] += pages;
            }
        }
    }

    /// Tells a claimant that outs are complete.
    pub(crate) fn tell(&mut self, who: Who, known: i64) {
        let who = who as usize;
        if known > self.known[who] {
            let from = self.position(self.known[who]);
            let to = self.position(known);
            self.usable[who] += self.pending.range(from..to).map(|&(_, p)| p).sum::<i64>();
            self.known[who] = known;
        }
        self.settle();
    }

    /// Takes pages for a claimant, those of the latest outs first, after waiting for just as many
    /// outs as that needs; `None` if no wait is long enough.
    pub(crate) fn claim(&mut self, by: Who, pages: i64) -> Option<()> {
        let who = by as usize;
        let mut end = self.position(self.known[who]);
        while self.settled + self.usable[who] < pages {
            let &(out, freed) = self.pending.get(end)?;
            self.known[who] = out + 1;
            self.usable[who] += freed;
            end += 1;
        }
        self.left_min = self.left_min.min(self.settled + self.usable[who] - pages);
        let mut left = pages;
        while left > 0 && end > 0 {
            end -= 1;
            let (out, freed) = &mut self.pending[end];
            let taken = left.min(*freed);
            *freed -= taken;
            left -= taken;
            let (out, empty) = (*out, *freed == 0);
            for who in 0..2 {
                if out < self.known[who] {
                    self.usable[who] -= taken;
                }
            }
            if empty {
                self.pending.remove(end);
            }
        }
        self.settled -= left;
        self.settle();
        Some(())
    }

    fn position(&self, known: i64) -> usize {
        self.pending.partition_point(|&(out, _)| out < known)
    }

    /// Forgets by which out pages were freed that everyone may use.
    fn settle(&mut self) {
        let known = self.known[0].min(self.known[1]);
        while let Some(&(out, pages)) = self.pending.front() {
            if out >= known {
                break;
            }
            self.pending.pop_front();
            self.settled += pages;
            self.usable[0] -= pages;
            self.usable[1] -= pages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_waits_for_just_enough_outs() {
        let mut free = FreeCount::new(1);
        for out in 0..4 {
            free.free_by(out, 2);
        }
        assert_eq!(free.claim(Who::Step, 4), Some(()));
        assert_eq!(free.known(Who::Step), 2);
        assert_eq!(free.known(Who::In), 0);
        // Of the five pages that it may use, it leaves the one that was free from the start.
        assert_eq!(free.left_min(), 1);
        assert_eq!(free.claim(Who::In, 5), Some(()));
        assert_eq!(free.known(Who::In), 4);
        assert_eq!(free.claim(Who::In, 1), None);
    }

    #[test]
    fn late_pages_are_taken_first_so_that_early_ones_stay_for_others() {
        let mut free = FreeCount::new(0);
        free.free_by(0, 1);
        free.free_by(1, 1);
        free.tell(Who::In, 2);
        assert_eq!(free.claim(Who::In, 1), Some(()));
        assert_eq!(free.claim(Who::Step, 1), Some(()));
        assert_eq!(free.known(Who::Step), 1);
        assert_eq!(free.unsettled(), 0);
    }
}
