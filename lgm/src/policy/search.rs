//! `vtensor` and `whole`: a grid of selections and lead times, scored by the cost model.
//!
//! Three numbers are searched. *Headroom*: select as if there were less memory, so that copies in
//! find room before they are needed. *Cut*: how large a copy may be. *Lead*: see `leads`. With less
//! memory, only what was good with more is tried again.

use super::Task;
use super::leads::{self, Best, Lead};
use crate::moves::Cut;
use crate::queues::Overfull;
use crate::schedule::Schedule;
use crate::select::{Aim, select};
use crate::tricks::Tricks;

/// Whether tensors move in pieces or as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granule {
    Piece,
    Tensor,
}

/// Thousandths of the capacity that the selection leaves free.
const HEADROOMS: [i64; 6] = [0, 20, 50, 100, 150, 200];
/// Bytes of one copy at most: long enough to hide the latency, short enough to free early.
const COPY_BYTES: [u64; 2] = [8 << 20, 32 << 20];

#[allow(clippy::cast_possible_truncation)]
pub(super) const EVALUATIONS_MAX: u32 =
    (HEADROOMS.len() * COPY_BYTES.len()) as u32 * leads::EVALUATIONS_MAX;

/// What a schedule is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recipe {
    pieces_max: u32,
    headroom: i64,
    lead: Option<Lead>,
}

/// A search, which knows what was good so far.
#[derive(Clone, Debug)]
pub(super) struct Search {
    granule: Granule,
    tricks: Tricks,
    /// The recipes of the best schedules of the first task.
    good: Vec<Recipe>,
}

impl Search {
    pub(super) fn new(granule: Granule, tricks: Tricks) -> Self {
        Self {
            granule,
            tricks,
            good: Vec::new(),
        }
    }

    pub(super) fn schedules(&mut self, task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
        let mut best = Best::new();
        for &recipe in &self.good {
            let selected = self.selected(task, recipe.headroom);
            let cut = Cut {
                pieces_max: recipe.pieces_max,
            };
            let tag = |lead| Recipe { lead, ..recipe };
            best.try_leads(task, &selected, cut, recipe.lead.as_slice(), &tag);
        }
        if best.tags().next().is_none() {
            for pieces_max in self.cuts(task) {
                for &headroom in some(&HEADROOMS, self.tricks.headroom) {
                    let selected = self.selected(task, headroom);
                    let tag = |lead| Recipe {
                        pieces_max,
                        headroom,
                        lead,
                    };
                    let leads = some(&Lead::ALL, self.tricks.leads);
                    best.try_leads(task, &selected, Cut { pieces_max }, leads, &tag);
                }
            }
            self.good = best.tags().copied().collect();
        }
        best.schedules()
    }

    fn cuts(&self, task: Task<'_>) -> Vec<u32> {
        if self.granule == Granule::Tensor {
            return vec![u32::MAX];
        }
        let page = task.graph.page.get();
        let pieces = |bytes: u64| u32::try_from(bytes / page).unwrap_or(1).max(1);
        let sizes = some(&COPY_BYTES, self.tricks.sizes).iter();
        let mut cuts: Vec<u32> = sizes.map(|&bytes| pieces(bytes)).collect();
        cuts.dedup();
        cuts
    }

    fn selected(&self, task: Task<'_>, headroom: i64) -> Vec<u32> {
        let target = vec![task.capacity * (1000 - headroom) / 1000; task.pages.live.len()];
        let aim = Aim {
            live: &task.pages.live,
            target: &target,
            whole: self.granule == Granule::Tensor,
        };
        select(task.graph, aim)
    }
}

/// All of some choices, or only the first.
fn some<T>(choices: &[T], all: bool) -> &[T] {
    if all { choices } else { &choices[..1] }
}
