//! Windows: page lists become virtual ranges, as few as will do.
//!
//! In: page lists. Out: a place for each. Window 0 shows the whole arena in order; a list that is a
//! run needs no other. The remaining lists get windows of their own, but equal lists share one, and
//! a list that begins another shares that one's.

use std::collections::HashMap;

use vtensor::{PageBytes, PageRun, Place, Window, WindowId};

use crate::count::to_u32;

/// The windows of a layout, while it grows.
pub(super) struct Windows {
    page: PageBytes,
    lists: HashMap<Vec<PageRun>, usize>,
}

/// A place whose window has no number yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot {
    /// In window 0, from this page on.
    Run(u32),
    /// The list of this number.
    List(usize),
}

impl Windows {
    pub(super) fn new(page: PageBytes) -> Self {
        Self {
            page,
            lists: HashMap::new(),
        }
    }

    /// Where a page list will be.
    pub(super) fn spot(&mut self, pages: &[u32]) -> Spot {
        let runs = runs(pages);
        if let [run] = runs[..] {
            return Spot::Run(run.first);
        }
        let next = self.lists.len();
        Spot::List(*self.lists.entry(runs).or_insert(next))
    }

    /// Numbers the windows, for an arena of `arena` pages; returns them with their page lists, and
    /// a function's worth of places: the window of each list.
    pub(super) fn finish(self, arena: u32) -> Numbered {
        let mut lists: Vec<(Vec<PageRun>, usize)> = self.lists.into_iter().collect();
        lists.sort_by(|(a, _), (b, _)| pages_of(a).cmp(pages_of(b)));
        let mut numbered = Numbered {
            page: self.page,
            windows: Vec::new(),
            runs: Vec::new(),
            window_of: vec![WindowId(0); lists.len()],
        };
        numbered.push(&[PageRun {
            first: 0,
            count: arena,
        }]);
        // In order, a list that begins another stands right before it or before one that it begins.
        for at in (0..lists.len()).rev() {
            let (runs, list) = &lists[at];
            let longer = lists.get(at + 1).filter(|(next, _)| begins(runs, next));
            let window = match longer {
                Some((_, next)) => numbered.window_of[*next],
                None => numbered.push(runs),
            };
            numbered.window_of[*list] = window;
        }
        numbered
    }
}

/// Windows with their numbers.
pub(super) struct Numbered {
    page: PageBytes,
    pub(super) windows: Vec<Window>,
    pub(super) runs: Vec<PageRun>,
    window_of: Vec<WindowId>,
}

impl Numbered {
    fn push(&mut self, runs: &[PageRun]) -> WindowId {
        let window = WindowId::from_index(self.windows.len());
        self.windows.push(Window {
            first_run: to_u32(self.runs.len()),
            run_count: to_u32(runs.len()),
            pages: runs.iter().map(|run| run.count).sum(),
        });
        self.runs.extend_from_slice(runs);
        window
    }

    /// The place of a spot.
    pub(super) fn place(&self, spot: Spot) -> Place {
        match spot {
            Spot::Run(first) => Place {
                window: WindowId(0),
                offset: u64::from(first) * self.page.get(),
            },
            Spot::List(list) => Place {
                window: self.window_of[list],
                offset: 0,
            },
        }
    }
}

/// A page list as runs.
fn runs(pages: &[u32]) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for &page in pages {
        match runs.last_mut() {
            Some(run) if run.end() == u64::from(page) => run.count += 1,
            _ => runs.push(PageRun {
                first: page,
                count: 1,
            }),
        }
    }
    runs
}

fn pages_of(runs: &[PageRun]) -> impl Iterator<Item = u32> {
    runs.iter().flat_map(|run| run.first..run.first + run.count)
}

fn begins(short: &[PageRun], long: &[PageRun]) -> bool {
    let mut long = pages_of(long);
    pages_of(short).all(|page| long.next() == Some(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_and_beginnings_share_a_window() {
        let mut windows = Windows::new(PageBytes::MIN);
        let long = windows.spot(&[4, 5, 9, 1]);
        let begin = windows.spot(&[4, 5, 9]);
        let other = windows.spot(&[4, 9]);
        let run = windows.spot(&[2, 3]);
        let again = windows.spot(&[4, 5, 9, 1]);
        let numbered = windows.finish(10);
        assert_eq!(numbered.place(long), numbered.place(begin));
        assert_eq!(numbered.place(long), numbered.place(again));
        assert_ne!(numbered.place(long).window, numbered.place(other).window);
        assert_eq!(
            numbered.place(run),
            Place {
                window: WindowId(0),
                offset: 2 * 4096
            }
        );
        assert_eq!(numbered.windows.len(), 3);
    }
}
