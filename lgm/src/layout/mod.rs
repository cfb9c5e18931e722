//! Layout: the page of every residency, and what follows from it.
//!
//! In: the graph, the pool, a schedule, and a number of pages. Out: a [`Program`], with windows, slots,
//! HOME, and waits that follow from the pages. Relocatable tensors get their pages anew in each
//! stay, so pages are assigned by interval colouring, on a circle that is cut open where little
//! crosses.
//!
//! Limits: windows are relocatable; tensors whose address may never change come later.

mod assign;
mod emit;
mod free_pages;
mod residency;
mod slots;
mod windows;

use vtensor::StepRange;

use crate::demand::prefix_sums;
use crate::graph::{Graph, Holding};
use crate::pool::Pool;
use crate::program::Program;
use crate::schedule::Schedule;

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
    let paged = arena.checked_sub(pool_pages)?;
    let peak = u32::try_from(schedule.queues.peak).ok()?;
    let stays = residency::Stays::new(graph, schedule, quietest_step(graph, schedule));
    // As few pages as will do: more are tried only where colouring fails.
    let mut tried = peak;
    while tried <= paged {
        if let Some(assignment) = assign::assign(&stays, tried) {
            let program = emit::program(&stays, pool, pool_pages, &assignment);
            return Some(Layout {
                program,
                peak_pages: pool_pages + peak,
            });
        }
        let more = tried + (tried / 256).max(1);
        tried = if tried < paged {
            paged.min(more)
        } else {
            paged + 1
        };
    }
    None
}

/// The step before which the fewest pages belong to stays that end and begin again, or to outs that
/// are not known complete: the best place to cut the circle.
fn quietest_step(graph: &Graph<'_>, schedule: &Schedule) -> u32 {
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
        add(residency::absent_before(m), -i64::from(m.pieces.count));
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
    (0..steps)
        .min_by_key(|&step| crossing[step as usize] + unsettled[step as usize])
        .expect("an iteration has at least one step")
}
