//! Free pages, as numbers: how many there are, and which outs have to be complete before they may
//! be used.
//!
//! Two claimants take pages, steps and copies in, each with its own knowledge of complete outs,
//! which only grows. An out frees pages once, so what it has freed has its place in a table.

use crate::count::to_i64;

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
    /// How many outs free pages for everyone.
    settled_outs: usize,
    /// What is left of the pages that each out has freed.
    freed: Vec<i64>,
    /// For an out of whose pages none are left, an earlier one behind which that holds for all.
    spent_since: Vec<usize>,
    /// The sum of those that are not settled.
    unsettled: i64,
    /// For each claimant, how many outs it knows to be complete.
    known: [i64; 2],
    /// For each claimant, the pages of those outs that are not settled.
    usable: [i64; 2],
    /// For each claimant, an out from which on it has used up all that it knows of.
    used: [usize; 2],
    /// The fewest usable pages that any claim has left.
    left_min: i64,
}

impl FreeCount {
    /// So many free pages, and room for so many outs.
    pub(crate) fn new(pages: i64, outs: usize) -> Self {
        Self {
            settled: pages,
            settled_outs: 0,
            freed: Vec::with_capacity(outs),
            spent_since: Vec::with_capacity(outs),
            unsettled: 0,
            known: [0; 2],
            usable: [0; 2],
            used: [0; 2],
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
        self.unsettled
    }

    /// Frees pages at once.
    pub(crate) fn free(&mut self, pages: i64) {
        self.settled += pages;
    }

    /// Frees pages once the next out is complete.
    pub(crate) fn free_by_next_out(&mut self, pages: i64) {
        let out = self.freed.len();
        self.freed.push(pages);
        self.spent_since.push(out);
        self.unsettled += pages;
        for who in 0..2 {
            if to_i64(out) < self.known[who] {
                self.usable[who] += pages;
                self.used[who] = out + 1;
            }
        }
    }

    /// Tells a claimant that outs are complete.
    pub(crate) fn tell(&mut self, who: Who, known: i64) {
        let who = who as usize;
        if known > self.known[who] {
            let end = self.end(known);
            let from = self.end(self.known[who]).max(self.settled_outs);
            let more: i64 = self.freed[from.min(end)..end].iter().sum();
            if more > 0 {
                self.usable[who] += more;
                self.used[who] = end;
            }
            self.known[who] = known;
        }
        self.settle();
    }

    /// Takes pages for a claimant, those of the latest outs first, after waiting for just as many
    /// outs as that needs; `None` if no wait is long enough.
    pub(crate) fn claim(&mut self, by: Who, pages: i64) -> Option<()> {
        let who = by as usize;
        if self.settled + self.usable[who] < pages {
            let mut end = self.end(self.known[who]).max(self.settled_outs);
            while self.settled + self.usable[who] < pages {
                self.usable[who] += self.freed.get(end)?;
                end += 1;
            }
            self.known[who] = to_i64(end);
            self.used[who] = end;
        }
        self.left_min = self.left_min.min(self.settled + self.usable[who] - pages);
        let mut left = pages;
        let mut end = self.used[who];
        while left > 0 && end > self.settled_outs {
            let out = end - 1;
            let taken = left.min(self.freed[out]);
            if taken == 0 {
                end = self.spent_since[out];
                continue;
            }
            self.freed[out] -= taken;
            left -= taken;
            self.unsettled -= taken;
            for who in 0..2 {
                if to_i64(out) < self.known[who] {
                    self.usable[who] -= taken;
                }
            }
        }
        if end < self.used[who] {
            self.spent_since[self.used[who] - 1] = end;
        }
        self.used[who] = end;
        self.settled -= left;
        self.settle();
        Some(())
    }

    /// The end of the outs that have freed pages, of so many that are known.
    fn end(&self, known: i64) -> usize {
        usize::try_from(known).map_or(0, |known| known.min(self.freed.len()))
    }

    /// Forgets by which out pages were freed that everyone may use.
    fn settle(&mut self) {
        let known = self.end(self.known[0].min(self.known[1]));
        while self.settled_outs < known {
            let pages = self.freed[self.settled_outs];
            self.settled_outs += 1;
            self.settled += pages;
            self.unsettled -= pages;
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
        let mut free = FreeCount::new(1, 4);
        for _ in 0..4 {
            free.free_by_next_out(2);
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
        let mut free = FreeCount::new(0, 2);
        free.free_by_next_out(1);
        free.free_by_next_out(1);
        free.tell(Who::In, 2);
        assert_eq!(free.claim(Who::In, 1), Some(()));
        assert_eq!(free.claim(Who::Step, 1), Some(()));
        assert_eq!(free.known(Who::Step), 1);
        assert_eq!(free.unsettled(), 0);
    }
}
