//! Free pages: which pages a claimant gets.
//!
//! A page is free with a *label*: the out that must be complete before it may be used. Some pages are
//! *reserved* from a position on, for a stay that crosses the cut of the circle: whoever gets
//! such a page must be gone by then. Among the pages that fit, runs are preferred, the shortest that
//! is long enough: runs need no window of their own.

use super::residency::Position;

/// The label of a page that needs no wait.
pub(super) const KNOWN: i64 = i64::MIN;

/// The pages of the arena.
pub(super) struct FreePages {
    /// For each page, the out that frees it; `None` while it is held.
    label: Vec<Option<i64>>,
    /// For each page, from when on it is reserved.
    reserved_from: Vec<Position>,
}

/// What a claimant asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// How many pages.
    pub(super) pages: u32,
    /// When they are free again.
    pub(super) until: Position,
    /// How many outs the claimant knows to be complete.
    pub(super) known: i64,
}

impl FreePages {
    pub(super) fn new(pages: u32) -> Self {
        let pages = pages as usize;
        Self {
            label: vec![Some(KNOWN); pages],
            reserved_from: vec![Position::MAX; pages],
        }
    }

    /// Keeps a page for a stay that is claimed at a position.
    pub(super) fn reserve(&mut self, page: u32, from: Position) {
        self.reserved_from[page as usize] = from;
    }

    /// Takes a certain page; returns its label, or `None` if it is held.
    pub(super) fn take(&mut self, page: u32) -> Option<i64> {
        self.label[page as usize].take()
    }

    /// Gives a page back.
    pub(super) fn free(&mut self, page: u32, label: i64) {
        let before = self.label[page as usize].replace(label);
        assert!(before.is_none(), "page {page} is freed twice");
    }

    /// The label of a page, if it is free.
    pub(super) fn label(&self, page: u32) -> Option<i64> {
        self.label[page as usize]
    }

    /// Chooses pages for a claim, without taking them; `None` if too few fit however long one waits.
    pub(super) fn choose(&self, claim: Claim) -> Option<Vec<u32>> {
        let fits = |page: usize, known: i64| {
            self.label[page].is_some_and(|label| label < known)
                && self.reserved_from[page] >= claim.until
        };
        let mut known = claim.known;
        let count = |known: i64| {
            (0..self.label.len())
                .filter(|&page| fits(page, known))
                .count()
        };
        let wanted = claim.pages as usize;
        if count(known) < wanted {
            // Wait for as few outs as will do.
            let mut labels: Vec<i64> = (0..self.label.len())
                .filter(|&page| fits(page, i64::MAX))
                .filter_map(|page| self.label[page])
                .collect();
            labels.sort_unstable();
            known = labels.get(wanted - 1)? + 1;
        }
        let mut runs = self.runs(|page| fits(page, known));
        runs.sort_unstable_by_key(|&(first, length)| (length, first));
        let mut chosen = Vec::with_capacity(wanted);
        while chosen.len() < wanted {
            let left = claim.pages - to_u32(chosen.len());
            let at = runs
                .partition_point(|&(_, length)| length < left)
                .min(runs.len() - 1);
            let (first, length) = runs.remove(at);
            chosen.extend(first..first + length.min(left));
        }
        Some(chosen)
    }

    /// Maximal runs of pages that fit: first page and length.
    fn runs(&self, fits: impl Fn(usize) -> bool) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for page in (0..self.label.len()).filter(|&page| fits(page)) {
            match runs.last_mut() {
                Some((first, length)) if *first + *length == to_u32(page) => *length += 1,
                _ => runs.push((to_u32(page), 1)),
            }
        }
        runs
    }
}

fn to_u32(page: usize) -> u32 {
    u32::try_from(page).expect("limits: at most 2^24 pages")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(pages: u32, free: &[(u32, i64)]) -> FreePages {
        let mut all = FreePages::new(pages);
        (0..pages).for_each(|page| {
            all.take(page);
        });
        free.iter().for_each(|&(page, label)| all.free(page, label));
        all
    }

    fn claim(pages: u32, known: i64) -> Claim {
        Claim {
            pages,
            until: 10,
            known,
        }
    }

    #[test]
    fn the_shortest_run_that_is_long_enough_is_taken() {
        let pages = held(12, &[0, 1, 2, 3, 6, 7, 10].map(|page| (page, KNOWN)));
        assert_eq!(pages.choose(claim(2, 0)), Some(vec![6, 7]));
        assert_eq!(pages.choose(claim(3, 0)), Some(vec![0, 1, 2]));
        assert_eq!(pages.choose(claim(5, 0)), Some(vec![0, 1, 2, 3, 10]));
        assert_eq!(pages.choose(claim(8, 0)), None);
    }

    #[test]
    fn known_pages_come_before_pages_to_wait_for() {
        let pages = held(4, &[(0, 7), (1, 7), (3, 2)]);
        assert_eq!(pages.choose(claim(1, 3)), Some(vec![3]));
        assert_eq!(pages.choose(claim(2, 3)), Some(vec![0, 1]));
    }

    #[test]
    fn a_reserved_page_fits_who_is_gone_in_time() {
        let mut pages = held(2, &[(0, KNOWN), (1, KNOWN)]);
        pages.reserve(0, 9);
        assert_eq!(pages.choose(claim(1, 0)), Some(vec![1]));
        assert_eq!(pages.choose(claim(2, 0)), None);
        pages.reserve(0, 10);
        assert_eq!(pages.choose(claim(2, 0)), Some(vec![0, 1]));
    }
}
