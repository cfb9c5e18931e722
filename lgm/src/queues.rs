//! Queues: a schedule without places: what each step and each copy waits for.
//!
//! In: moves with their times, pages live, and a capacity in pages. Out: the order of both queues
//! and the counts that hold the pages together: a claimant of pages waits for just as many outs as
//! make room for it. Whether pages with the right numbers exist is the layout's matter; here they
//! are only counted, which takes microseconds and is what a search scores.

use crate::count::{to_i64, to_u32};
use crate::demand::live_pages;
use crate::free_count::{FreeCount, Who};
use crate::graph::{Graph, Holding};
use crate::moves::Move;

/// A copy out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedOut {
    /// Its row in the table of moves.
    pub row: usize,
    /// The step whose completion releases it.
    pub release: u32,
}

/// A copy in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedIn {
    /// Its row in the table of moves.
    pub row: usize,
    /// The step whose completion releases it, in this iteration.
    pub release: u32,
    /// Outs that must be complete, relative to the iteration that releases it.
    pub after_out: i64,
    /// The step that needs it; in the next iteration if not below the number of steps.
    pub need: u32,
}

/// Both queues in release order, and what each step waits for.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// Copies out.
    pub outs: Vec<QueuedOut>,
    /// Copies in.
    pub ins: Vec<QueuedIn>,
    /// For each step, outs that must be complete.
    pub out_needed: Vec<i64>,
    /// For each step, ins that must be complete.
    pub in_needed: Vec<i64>,
    /// Pages held at the worst moment, each from its claim until what frees it is known. No layout
    /// can do with fewer.
    pub peak: i64,
    /// For each step, pages whose outs are not known complete when it begins.
    pub unsettled: Vec<i64>,
}

/// More pages are held at once than there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overfull {
    /// The step, or the one behind which a copy in is released.
    pub step: u32,
}

/// What happens at each step, as counts of pages.
struct Events {
    claimed: Vec<i64>,
    freed: Vec<i64>,
}

/// Iterations over which pages are counted, of which the last is steady.
const ROUNDS: usize = 3;

/// Orders the moves and counts pages.
///
/// `live` is the number of pages live at each step when nothing moves, `born` and `died` the pages
/// of transients that appear at it and are gone after it.
///
/// # Errors
/// If a step, or a copy in, finds no room however many outs it waits for.
pub fn queues(pages: &Pages, moves: &[Move], capacity: i64) -> Result<Queues, Overfull> {
    let steps = pages.live.len();
    let mut queues = order(moves, steps);
    let (outs, ins) = (to_i64(queues.outs.len()), to_i64(queues.ins.len()));
    let events = events(pages, moves);
    let mut held = pages.live[0] - pages.born[0];
    held -= moves.iter().map(|m| away_at_start(m, steps)).sum::<i64>();
    if held > capacity {
        return Err(Overfull { step: 0 });
    }
    let mut free = FreeCount::new(capacity - held, ROUNDS * queues.outs.len());
    let needs = needs_of_steps(&queues, steps);
    for round in 0..ROUNDS {
        let (mut next_out, mut next_in) = (0, 0);
        let base = to_i64(round) * outs;
        for (step, needed) in needs.iter().enumerate() {
            if let Some(&(_, row)) = needed.last() {
                let wraps = queues.ins[row].need as usize >= steps;
                let base = if wraps { base - outs } else { base };
                free.tell(Who::Step, queues.ins[row].after_out + base);
            }
            queues.unsettled[step] = free.unsettled();
            let overfull = Overfull { step: to_u32(step) };
            free.claim(Who::Step, events.claimed[step])
                .ok_or(overfull)?;
            queues.out_needed[step] = free.known(Who::Step) - base;
            free.free(events.freed[step]);
            while next_out < queues.outs.len() && queues.outs[next_out].release as usize == step {
                let pages = i64::from(moves[queues.outs[next_out].row].pieces.count);
                free.free_by_next_out(pages);
                next_out += 1;
            }
            while next_in < queues.ins.len() && queues.ins[next_in].release as usize == step {
                let queued = &mut queues.ins[next_in];
                let claimed = i64::from(moves[queued.row].pieces.count);
                free.claim(Who::In, claimed).ok_or(overfull)?;
                queued.after_out = free.known(Who::In) - base;
                next_in += 1;
            }
        }
    }
    // Counts that speak of more than one iteration ago say nothing.
    let floor = |count: i64, of: i64| count.max(1 - of).min(of);
    for count in &mut queues.out_needed {
        *count = floor(*count, outs);
    }
    for queued in &mut queues.ins {
        queued.after_out = floor(queued.after_out, outs);
    }
    queues.in_needed = in_needed(&needs, &queues.ins, steps, ins);
    queues.peak = capacity - free.left_min();
    Ok(queues)
}

/// Pages of the paged tensors when nothing moves.
#[derive(Clone, Debug)]
pub struct Pages {
    /// Pages live at each step.
    pub live: Vec<i64>,
    /// Pages that appear at each step.
    pub born: Vec<i64>,
    /// Pages that are gone after each step.
    pub died: Vec<i64>,
}

impl Pages {
    /// Counts them.
    #[must_use]
    pub fn of(graph: &Graph<'_>) -> Self {
        let steps = graph.steps() as usize;
        let mut pages = Self {
            live: live_pages(graph),
            born: vec![0; steps],
            died: vec![0; steps],
        };
        for (tensor, node) in graph.held(Holding::Paged) {
            if !node.persistent {
                let life = graph.life(tensor);
                pages.born[life.start as usize] += i64::from(node.pieces);
                pages.died[life.end as usize - 1] += i64::from(node.pieces);
            }
        }
        pages
    }
}

fn order(moves: &[Move], steps: usize) -> Queues {
    let mut outs: Vec<QueuedOut> = (0..moves.len())
        .filter(|&row| moves[row].out)
        .map(|row| QueuedOut {
            row,
            release: moves[row].leave,
        })
        .collect();
    outs.sort_unstable_by_key(|out| {
        (
            out.release,
            core::cmp::Reverse(moves[out.row].need),
            out.row,
        )
    });
    let wrapped = to_u32(steps);
    let mut ins: Vec<QueuedIn> = (0..moves.len())
        .filter(|&row| moves[row].read)
        .map(|row| {
            let (release, need) = (moves[row].release(), moves[row].need);
            let shift = if release >= wrapped { wrapped } else { 0 };
            QueuedIn {
                row,
                release: release - shift,
                after_out: 0,
                need: need - shift,
            }
        })
        .collect();
    ins.sort_unstable_by_key(|i| (i.release, i.need, i.row));
    Queues {
        outs,
        ins,
        out_needed: vec![0; steps],
        unsettled: vec![0; steps],
        ..Queues::default()
    }
}

fn events(pages: &Pages, moves: &[Move]) -> Events {
    let steps = pages.live.len();
    let mut events = Events {
        claimed: pages.born.clone(),
        freed: pages.died.clone(),
    };
    for m in moves {
        if !m.read {
            events.claimed[m.need as usize % steps] += i64::from(m.pieces.count);
        }
        if !m.out {
            events.freed[m.leave as usize] += i64::from(m.pieces.count);
        }
    }
    events
}

/// Pages of a move that are away when an iteration begins, before its first step.
fn away_at_start(m: &Move, steps: usize) -> i64 {
    let claimed_at_start = if m.read {
        m.back as usize > steps
    } else {
        m.need as usize >= steps
    };
    if claimed_at_start {
        i64::from(m.pieces.count)
    } else {
        0
    }
}

/// For each step, the ins that it needs: (count in its own queue order, row in the queue), by
/// order.
fn needs_of_steps(queues: &Queues, steps: usize) -> Vec<Vec<(i64, usize)>> {
    let mut needs = vec![Vec::new(); steps];
    let all = to_i64(queues.ins.len());
    for (row, queued) in queues.ins.iter().enumerate() {
        let wraps = queued.need as usize >= steps;
        let count = to_i64(row) + 1 - if wraps { all } else { 0 };
        needs[queued.need as usize % steps].push((count, row));
    }
    for of_step in &mut needs {
        of_step.sort_unstable();
    }
    needs
}

fn in_needed(needs: &[Vec<(i64, usize)>], ins: &[QueuedIn], steps: usize, all: i64) -> Vec<i64> {
    let mut needed = vec![0; steps];
    if ins.is_empty() {
        return needed;
    }
    let most = needs
        .iter()
        .flatten()
        .map(|&(count, _)| count)
        .max()
        .unwrap_or(0);
    let mut count = (most - all).max(1 - all);
    for (step, needed) in needed.iter_mut().enumerate() {
        if let Some(&(needs, _)) = needs[step].last() {
            count = count.max(needs);
        }
        *needed = count;
    }
    needed
}
