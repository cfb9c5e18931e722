//! `vtensor` and `whole`: a grid of selections and lead times, scored by the cost model.
//!
//! Three numbers are searched. *Headroom*: select as if there were less memory, so that copies in
//! find room before they are needed. *Cut*: how large a copy may be. *Lead*: see `leads`. With less
//! memory, only what was good with more is tried again.

use super::Task;
use super::leads::{self, Best, Lead};
use super::local;
use super::recipe::{Granule, HEADROOMS, Recipe, selected};
use crate::moves::Cut;
use crate::queues::Overfull;
use crate::schedule::Schedule;
use crate::tricks::Tricks;

/// Bytes of one copy at most: long enough to hide the latency, short enough to free early.
const COPY_BYTES: [u64; 2] = [8 << 20, 32 << 20];

#[allow(clippy::cast_possible_truncation)]
pub(super) const EVALUATIONS_MAX: u32 =
    (HEADROOMS.len() * COPY_BYTES.len()) as u32 * leads::EVALUATIONS_MAX + local::EVALUATIONS_MAX;

/// A search, which knows what was good so far.
#[derive(Clone, Debug)]
pub(super) struct Search {
    granule: Granule,
    tricks: Tricks,
    /// The recipes of the best schedules of the first task.
    good: Vec<Recipe>,
    /// Whether the local search is over.
    improved: bool,
}

impl Search {
    pub(super) fn new(granule: Granule, tricks: Tricks) -> Self {
        Self {
            granule,
            tricks,
            good: Vec::new(),
            improved: false,
        }
    }

    /// The rank of the best schedule of the grid; `None` if none fits.
    pub(super) fn probe(&mut self, task: Task<'_>) -> Option<(u64, u64)> {
        let best = self.grid(task);
        self.good = best.tags().cloned().collect();
        let (first, _) = best.best(1).into_iter().next()?;
        Some(first.rank())
    }

    pub(super) fn schedules(&mut self, task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
        let mut best = Best::new();
        for recipe in &self.good {
            let selected = selected(task, self.granule, recipe);
            let cut = Cut {
                pieces_max: recipe.pieces_max,
            };
            let tag = |lead| Recipe {
                lead,
                ..recipe.clone()
            };
            best.try_leads(task, &selected, cut, recipe.lead.as_slice(), &tag);
        }
        let mut searched = false;
        if best.tags().next().is_none() {
            best = self.grid(task);
            searched = true;
        }
        // Whole tensors: with less memory others may have to leave.
        let again = self.granule == Granule::Tensor;
        if self.tricks.local && (!self.improved || again) {
            local::improve(task, self.granule, self.improved, &mut best);
            self.improved = true;
            searched = true;
        }
        if searched {
            self.good = best.tags().cloned().collect();
        }
        best.schedules()
    }

    fn grid(&self, task: Task<'_>) -> Best<Recipe> {
        let mut best = Best::new();
        for pieces_max in self.cuts(task) {
            for &headroom in some(&HEADROOMS, self.tricks.headroom) {
                let tag = |lead| Recipe {
                    pieces_max,
                    headroom,
                    lead,
                    tweak: None,
                };
                let selected = selected(task, self.granule, &tag(None));
                let leads = some(&Lead::ALL, self.tricks.leads);
                best.try_leads(task, &selected, Cut { pieces_max }, leads, &tag);
            }
        }
        best
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
}

/// All of some choices, or only the first.
fn some<T>(choices: &[T], all: bool) -> &[T] {
    if all { choices } else { &choices[..1] }
}
