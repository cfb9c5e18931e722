//! Layout: the page of every residency, and what follows from it.
//!
//! In: the graph, the pool, a schedule, and a number of pages. Out: a [`Program`], with windows, slots,
//! HOME, and waits that follow from the pages. Relocatable tensors get their pages anew in each
//! stay, so pages are assigned by interval colouring, on a circle that is cut open where little
//! crosses.
//!
//! Limits: windows are relocatable; tensors whose address may never change come later.

mod colouring;
mod emit;
mod homes;
mod slots;
mod stays;
mod waits;
mod windows;

use vtensor::StepRange;

use self::colouring::{Preference, colour};
use self::stays::{Stays, absent_before};
use crate::demand::prefix_sums;
use crate::graph::{Graph, Holding};
use crate::pool::Pool;
use crate::program::Program;
use crate::schedule::Schedule;

/// How many places to cut the circle are tried.
const CUTS_MAX: usize = 12;

/// A program with what its layout cost.
#[derive(Debug)]
pub struct Layout {
    /// The program.
    pub program: Program,
    /// Pages that no layout of the schedule can do without, those of the pool included.
    pub peak_pages: u32,
}

/// Lays a schedule out on at most `arena` pages, those of the pool included; `None` if that fails.
#[must_use]
pub fn layout(graph: &Graph<'_>, pool: &Pool, schedule: &Schedule, arena: u32) -> Option<Layout> {
    let pool_pages = u32::try_from(graph.page.pages_for(pool.bytes())).ok()?;
    let most = arena.checked_sub(pool_pages)?;
    let peak = u32::try_from(schedule.queues.peak).ok()?;
    let opened: Vec<Stays<'_>> = quiet_steps(graph, schedule)
        .into_iter()
        .map(|cut| Stays::new(graph, schedule, cut))
        .collect();
    // As few pages as will do: more are taken only where colouring fails.
    let enough = [peak, most]
        .into_iter()
        .filter(|&pages| peak <= pages && pages <= most);
    for pages in enough {
        for preference in [Preference::Runs, Preference::Tight] {
            for stays in &opened {
                if let Some(page_of) = colour(stays, pages, preference) {
                    let program = emit::program(stays, pool, pool_pages, &page_of);
                    return Some(Layout {
                        program,
                        peak_pages: pool_pages + peak,
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
    let mut add = |range: StepRange, pages: i64| {
        for part in range
            .unwrapped(steps)
            .into_iter()
            .filter(|part| !part.is_empty())
        {
            change[part.start as usize] += pages;
            change[part.end as usize] -= pages;
        }
    };
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

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a small count")
}
