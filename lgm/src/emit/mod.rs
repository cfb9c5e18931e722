//! Emit: the program of a layout.
//!
//! In: a layout, that is stays and their pages, and the pool. Out: a [`Program`] with windows,
//! places, slots, HOME and counts. Nothing is chosen here.

mod homes;
mod slots;
mod windows;

use vtensor::{In, OpIndex, Out, PieceRun, Place, StepCounts, StepKind, TensorId, WindowId};

use self::homes::Homes;
use self::slots::Slots;
use self::windows::{Spot, Windows};
use crate::count::to_i64;
use crate::layout::{Layout, Stays, Waits};
use crate::pool::Pool;
use crate::program::{Program, Step};

/// The program of a layout; the pool takes the first pages of the arena.
#[must_use]
pub fn emit(layout: &Layout<'_>, pool: &Pool) -> Program {
    let Layout {
        stays,
        page_of,
        waits,
        ..
    } = layout;
    let graph = stays.graph;
    let pool_pages = pool.pages(graph.page);
    let arena = pool_pages + layout.pages;
    let mut windows = Windows::new(graph.page);
    let mut spots = Vec::with_capacity(graph.skeleton.accesses.len());
    let page = |&stay: &u32| page_of[stay as usize] + pool_pages;
    for of_access in &stays.accesses {
        let pages: Vec<u32> = of_access.iter().map(page).collect();
        spots.push((!pages.is_empty()).then(|| windows.spot(&pages)));
    }
    let numbered = windows.finish(arena);
    let places: Vec<Place> = spots
        .iter()
        .zip(&graph.skeleton.accesses)
        .map(|(spot, access)| match spot {
            Some(spot) => numbered.place(*spot),
            None => pool_place(pool, access.tensor),
        })
        .collect();
    let slots = Slots::new(graph, &stays.schedule.moves);
    let home = Homes {
        stays,
        pool,
        slots: &slots,
        pool_pages,
        page_of,
    };
    let homes = home.rows(|page| numbered.place(Spot::Run(page)));
    Program {
        page_bytes: graph.page,
        arena_pages: arena,
        spill_bytes: slots.bytes,
        steps: steps(stays, waits),
        outs: outs(stays, &places, &slots),
        ins: ins(stays, waits, &places, &slots),
        places,
        windows: numbered.windows,
        runs: numbered.runs,
        homes,
    }
}

fn pool_place(pool: &Pool, tensor: TensorId) -> Place {
    let offset = pool
        .offset(tensor)
        .expect("what has no pages is in the pool");
    Place {
        window: WindowId(0),
        offset,
    }
}

/// The place of some pieces in the window of an access of their tensor.
fn place_in(stays: &Stays<'_>, places: &[Place], access: u32, pieces: PieceRun) -> Place {
    let base = places[access as usize];
    let offset = u64::from(pieces.first) * stays.graph.page.get();
    Place {
        window: base.window,
        offset: base.offset + offset,
    }
}

fn outs(stays: &Stays<'_>, places: &[Place], slots: &Slots) -> Vec<Out> {
    let outs = stays.schedule.queues.outs.iter().map(|out| {
        let m = &stays.schedule.moves[out.row];
        let last = stays
            .graph
            .last_use(m.tensor, m.leave)
            .expect("what moves is used");
        Out {
            tensor: m.tensor,
            pieces: m.pieces,
            bytes: m.bytes,
            source: place_in(stays, places, last.access, m.pieces),
            slot: slots.slot(m.tensor, m.pieces),
        }
    });
    outs.collect()
}

fn ins(stays: &Stays<'_>, waits: &Waits, places: &[Place], slots: &Slots) -> Vec<In> {
    let steps = stays.graph.steps();
    let ins = stays.schedule.queues.ins.iter().zip(&waits.ins);
    let ins = ins.map(|(i, &after_out)| {
        let m = &stays.schedule.moves[i.row];
        let next = stays
            .graph
            .use_at(m.tensor, m.need % steps)
            .expect("an in is for a use");
        In {
            tensor: m.tensor,
            pieces: m.pieces,
            bytes: m.bytes,
            destination: place_in(stays, places, next.access, m.pieces),
            slot: slots.slot(m.tensor, m.pieces),
            after_out,
        }
    });
    ins.collect()
}

fn steps(stays: &Stays<'_>, waits: &Waits) -> Vec<Step> {
    let (graph, queues) = (stays.graph, &stays.schedule.queues);
    let released = |of: &[u32], step: u32| to_i64(of.partition_point(|&release| release <= step));
    let out_releases: Vec<u32> = queues.outs.iter().map(|out| out.release).collect();
    let in_releases: Vec<u32> = queues.ins.iter().map(|i| i.release).collect();
    let steps = graph.skeleton.ops.iter().zip(0..).map(|(op, step)| Step {
        kind: StepKind::App(OpIndex(step)),
        counts: StepCounts {
            out_needed: waits.steps[step as usize],
            in_needed: queues.in_needed[step as usize],
            out_released: released(&out_releases, step),
            in_released: released(&in_releases, step),
        },
        first_place: op.first_access,
    });
    steps.collect()
}
