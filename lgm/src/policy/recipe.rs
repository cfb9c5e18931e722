//! Recipe: what a schedule of `vtensor` or `whole` is made with.

use std::rc::Rc;

use super::Task;
use super::leads::Lead;
use crate::select::{Aim, select};

/// Whether tensors move in pieces or as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granule {
    Piece,
    Tensor,
}

/// Thousandths of the capacity that the selection leaves free.
pub(super) const HEADROOMS: [i64; 6] = [0, 20, 50, 100, 150, 200];

/// What a schedule is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) pieces_max: u32,
    pub(super) headroom: i64,
    pub(super) lead: Option<Lead>,
    pub(super) tweak: Option<Rc<Tweak>>,
}

/// How a selection differs from that of the sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tweak {
    /// For each gap, how many pieces may leave at most; empty for no limit.
    pub(super) most: Vec<u32>,
    /// For each step, how many more pages are to be free; empty for none.
    pub(super) asked: Vec<i64>,
}

/// For each gap, how many pieces leave in it.
pub(super) fn selected(task: Task<'_>, granule: Granule, recipe: &Recipe) -> Vec<u32> {
    let room = task.capacity * (1000 - recipe.headroom) / 1000;
    let mut target = vec![room; task.pages.live.len()];
    let mut most: &[u32] = &[];
    if let Some(tweak) = &recipe.tweak {
        let asked = target.iter_mut().zip(&tweak.asked);
        asked.for_each(|(target, asked)| *target -= asked);
        most = &tweak.most;
    }
    let aim = Aim {
        live: &task.pages.live,
        target: &target,
        most,
        whole: granule == Granule::Tensor,
    };
    select(task.graph, aim)
}
