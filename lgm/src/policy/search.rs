//! `vtensor` and `whole`: a grid of selections and lead times, scored by the cost model.
//!
//! Two numbers are searched. *Headroom*: select as if there were less memory, so that copies in
//! find room before they are needed. *Lead*: see `leads`.

use super::Task;
use super::leads::{self, Best};
use crate::moves::Cut;
use crate::queues::Overfull;
use crate::schedule::Schedule;
use crate::select::{Aim, select};

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

pub(super) fn schedules(task: Task<'_>, granule: Granule) -> Result<Vec<Schedule>, Overfull> {
    let mut best = Best::new();
    let page = task.graph.page.get();
    let mut cuts = COPY_BYTES
        .map(|bytes| u32::try_from(bytes / page).unwrap_or(1).max(1))
        .to_vec();
    if granule == Granule::Tensor {
        cuts = vec![u32::MAX];
    }
    cuts.dedup();
    for pieces_max in cuts {
        for headroom in HEADROOMS {
            let target = vec![task.capacity * (1000 - headroom) / 1000; task.pages.live.len()];
            let aim = Aim {
                live: &task.pages.live,
                target: &target,
                whole: granule == Granule::Tensor,
            };
            let selected = select(task.graph, aim);
            best.try_leads(task, &selected, Cut { pieces_max });
        }
    }
    best.schedules()
}
