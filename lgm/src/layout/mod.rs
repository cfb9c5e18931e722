//! Layout: the page of every residency.
//!
//! In: the graph, a schedule, and a number of pages. Out: a page for each stay of each piece on the
//! device, and what claimants have to wait for because of it. Relocatable tensors get their pages
//! anew in each stay, so pages are assigned by interval colouring, on a circle that is cut open
//! where little crosses.
//!
//! Limits: windows are relocatable; tensors whose address may never change come later. Work is
//! bounded: a layout that is not found within [`Effort`] does not exist for the caller.

mod colouring;
mod exchange;
mod occupancy;
mod stays;
mod waits;

use vtensor::StepRange;

use self::colouring::{Preference, colour};
use self::stays::absent_before;
pub(crate) use self::stays::{AWAY, StayId, Stays};
pub(crate) use self::waits::Waits;
use self::waits::waits;
use crate::count::to_u32;
use crate::demand::{add_on_circle, prefix_sums};
use crate::graph::{Graph, Holding};
use crate::schedule::Schedule;

/// How many places to cut the circle are tried at most.
const CUTS_MAX: usize = 6;

/// Pages for all stays of a schedule.
pub struct Layout<'a> {
    pub(crate) stays: Stays<'a>,
    /// The page of each stay.
    pub(crate) page_of: Vec<u32>,
    pub(crate) waits: Waits,
    /// Pages that are used, those of the pool not included.
    pub pages: u32,
    /// Pages that the schedule holds at its worst moment, if it waits no longer than it has to. A
    /// layout that makes it wait longer can do with fewer.
    pub peak_pages: u32,
}

/// Work that may still be spent on layouts, in pages looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub u64);

/// Lays a schedule out on at most `most` pages; `None` if that fails.
#[must_use]
pub fn layout<'a>(
    graph: &'a Graph<'a>,
    schedule: &'a Schedule,
    most: u32,
    effort: &mut Effort,
) -> Option<Layout<'a>> {
    let peak = u32::try_from(schedule.queues.peak).ok()?;
    let cuts = quiet_steps(graph, schedule);
    // As few pages as will do: more are taken only where colouring fails.
    let enough = [peak, most]
        .into_iter()
        .filter(|&pages| peak <= pages && pages <= most);
    for pages in enough {
        for &cut in &cuts {
            let stays = Stays::new(graph, schedule, cut);
            for preference in [Preference::Runs, Preference::Tight] {
                let work = u64::from(pages) * stays.groups.len() as u64;
                if effort.0 == 0 {
                    return None;
                }
                effort.0 = effort.0.saturating_sub(work);
                if let Some(page_of) = colour(&stays, pages, preference) {
                    let pages = page_of.iter().max().map_or(0, |last| last + 1);
                    let waits = waits(&stays, &page_of, pages);
                    return Some(Layout {
                        stays,
                        page_of,
                        waits,
                        pages,
                        peak_pages: peak,
                    });
                }
            }
        }
    }
    None
}

/// Places to cut the circle, the best first: steps before which few pages belong to stays that end
/// and begin again, or to outs that are not known complete.
fn quiet_steps(graph: &Graph<'_>, schedule: &Schedule) -> Vec<u32> {
    let steps = graph.steps();
    let mut change = vec![0_i64; steps as usize + 1];
    let mut add = |range, pages| add_on_circle(&mut change, range, pages);
    let mut moving = vec![0_u32; graph.skeleton.tensors.len()];
    for m in &schedule.moves {
        let moving = &mut moving[m.tensor.index()];
        *moving = (*moving).max(graph.node(m.tensor).pieces - m.pieces.first);
        add(absent_before(m), -i64::from(m.pieces.count));
    }
    for (tensor, node) in graph.held(Holding::Paged) {
        let life = graph.life(tensor);
        if node.persistent {
            add(life, i64::from(moving[tensor.index()]));
        } else {
            add(
                StepRange {
                    start: life.start + 1,
                    end: life.end,
                },
                i64::from(node.pieces),
            );
        }
    }
    let crossing = prefix_sums(&change);
    let unsettled = &schedule.queues.unsettled;
    let mut steps: Vec<u32> = (0..steps).collect();
    steps.sort_by_key(|&step| crossing[step as usize] + unsettled[step as usize]);
    let apart = graph.steps() / (2 * to_u32(CUTS_MAX));
    let mut cuts: Vec<u32> = Vec::new();
    for step in steps {
        if cuts.len() < CUTS_MAX && cuts.iter().all(|cut| cut.abs_diff(step) >= apart) {
            cuts.push(step);
        }
    }
    cuts
}
