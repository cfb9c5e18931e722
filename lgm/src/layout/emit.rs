//! Emit: the program of an assignment.
//!
//! In: pages of each access, and waits. Out: windows, places, slots, HOME and counts. Nothing is
//! chosen here.

use vtensor::{In, OpIndex, Out, PieceRun, Place, StepCounts, StepKind, TensorId, WindowId};

use super::assign::{AWAY, Assignment};
use super::residency::Stays;
use super::slots::Slots;
use super::windows::{Spot, Windows};
use crate::graph::Holding;
use crate::moves::Move;
use crate::pool::Pool;
use crate::program::{Home, Program, Step};

/// The program of an assignment; the pool takes the first `pool_pages` pages.
pub(super) fn program(
    stays: &Stays<'_>,
    pool: &Pool,
    pool_pages: u32,
    assignment: &Assignment,
) -> Program {
    let graph = stays.graph;
    let arena = pool_pages + assignment.pages_used;
    let mut windows = Windows::new(graph.page);
    let mut spots = Vec::with_capacity(graph.skeleton.accesses.len());
    for pages in &assignment.access_pages {
        let pages: Vec<u32> = pages.iter().map(|page| page + pool_pages).collect();
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
    let homes = homes(stays, pool, pool_pages, assignment, &slots, |page| {
        numbered.place(Spot::Run(page))
    });
    Program {
        page_bytes: graph.page,
        arena_pages: arena,
        spill_bytes: slots.bytes,
        steps: steps(stays, assignment),
        outs: outs(stays, &places, &slots),
        ins: ins(stays, assignment, &places, &slots),
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
        let m = stays.move_at(out.row);
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

fn ins(stays: &Stays<'_>, assignment: &Assignment, places: &[Place], slots: &Slots) -> Vec<In> {
    let steps = stays.graph.steps();
    let all = to_i64(stays.schedule.queues.outs.len());
    let waits = assignment
        .in_waits
        .iter()
        .zip(&stays.schedule.queues.ins)
        .map(|(&wait, i)| {
            let m = stays.move_at(i.row);
            wait.max(own_out(stays, i.row, m.release() / steps))
        });
    // Starting in order, each knows what those before it waited for.
    let waits = never_decreasing(waits.collect(), all);
    let ins = stays
        .schedule
        .queues
        .ins
        .iter()
        .zip(waits)
        .map(|(i, after_out)| {
            let m = stays.move_at(i.row);
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

/// How many outs must be complete so that a move's own is, seen from an iteration `later` ones
/// behind that of the leave.
fn own_out(stays: &Stays<'_>, row: usize, later: u32) -> i64 {
    let all = to_i64(stays.schedule.queues.outs.len());
    match stays.out_of[row] {
        Some(number) => to_i64(number) + 1 - i64::from(later) * all,
        None => i64::MIN,
    }
}

fn steps(stays: &Stays<'_>, assignment: &Assignment) -> Vec<Step> {
    let (graph, queues) = (stays.graph, &stays.schedule.queues);
    let mut waits = assignment.step_waits.clone();
    for (row, m) in stays
        .schedule
        .moves
        .iter()
        .enumerate()
        .filter(|(_, m)| !m.read)
    {
        // Overwritten pieces may still be on their way out.
        let wait = &mut waits[(m.need % graph.steps()) as usize];
        *wait = (*wait).max(own_out(stays, row, m.need / graph.steps()));
    }
    let out_needed = never_decreasing(waits, to_i64(queues.outs.len()));
    let released = |of: &[u32], step: u32| to_i64(of.partition_point(|&release| release <= step));
    let out_releases: Vec<u32> = queues.outs.iter().map(|out| out.release).collect();
    let in_releases: Vec<u32> = queues.ins.iter().map(|i| i.release).collect();
    let steps = graph.skeleton.ops.iter().zip(0..).map(|(op, step)| Step {
        kind: StepKind::App(OpIndex(step)),
        counts: StepCounts {
            out_needed: out_needed[step as usize],
            in_needed: queues.in_needed[step as usize],
            out_released: released(&out_releases, step),
            in_released: released(&in_releases, step),
        },
        first_place: op.first_access,
    });
    steps.collect()
}

/// Counts that never decrease, this iteration's after those of the one before it.
fn never_decreasing(waits: Vec<i64>, per_iteration: i64) -> Vec<i64> {
    let most = waits.iter().copied().max().unwrap_or(i64::MIN);
    let floor = if per_iteration == 0 {
        0
    } else {
        1 - per_iteration
    };
    let mut count = most.saturating_sub(per_iteration).max(floor);
    waits
        .into_iter()
        .map(|wait| {
            count = count.max(wait);
            count
        })
        .collect()
}

fn homes(
    stays: &Stays<'_>,
    pool: &Pool,
    pool_pages: u32,
    assignment: &Assignment,
    slots: &Slots,
    page_place: impl Fn(u32) -> Place,
) -> Vec<Home> {
    let graph = stays.graph;
    let mut homes = Vec::new();
    for (row, tensor) in graph.skeleton.tensors.iter().enumerate() {
        let id = TensorId::from_index(row);
        let node = graph.node(id);
        let whole = PieceRun {
            first: 0,
            count: node.pieces,
        };
        match node.holding {
            _ if !tensor.persistent => {}
            Holding::Pool => {
                let place = Some(pool_place(pool, id));
                homes.push(Home {
                    tensor: id,
                    pieces: whole,
                    place,
                    slot: None,
                });
            }
            Holding::Parked => {
                let slot = Some(slots.slot(id, whole));
                homes.push(Home {
                    tensor: id,
                    pieces: whole,
                    place: None,
                    slot,
                });
            }
            Holding::Paged => {
                let pages = &assignment.home_pages[row];
                let clean: Vec<bool> = (0..node.pieces)
                    .map(|piece| clean_at_home(stays, id, piece))
                    .collect();
                let mut first = 0;
                while first < node.pieces {
                    let run = alike(pages, &clean, first);
                    let page = pages[first as usize];
                    let away = page == AWAY;
                    homes.push(Home {
                        tensor: id,
                        pieces: run,
                        place: (!away).then(|| page_place(page + pool_pages)),
                        slot: (away || clean[first as usize]).then(|| slots.slot(id, run)),
                    });
                    first += run.count;
                }
            }
        }
    }
    homes
}

/// The pieces from `first` on that are one run of pages, or away, and equally clean.
fn alike(pages: &[u32], clean: &[bool], first: u32) -> PieceRun {
    let start = first as usize;
    let mut end = start + 1;
    while end < pages.len() && clean[end] == clean[start] {
        let follows = match (pages[end - 1], pages[end]) {
            (AWAY, AWAY) => true,
            (AWAY, _) | (_, AWAY) => false,
            (before, page) => page == before + 1,
        };
        if !follows {
            break;
        }
        end += 1;
    }
    let count = u32::try_from(end - start).expect("pieces are counted in u32");
    PieceRun { first, count }
}

/// Whether a piece's slot holds its content at the boundary because a later leave counts on it.
fn clean_at_home(stays: &Stays<'_>, tensor: TensorId, piece: u32) -> bool {
    let of_piece = stays.moves_of(tensor).iter().map(|&row| stays.move_at(row));
    let next: Option<&Move> = of_piece
        .filter(|m| m.pieces.contains(piece))
        .min_by_key(|m| m.leave);
    next.is_some_and(|m| m.read && !m.out)
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).expect("limits: at most 2^22 commands")
}
