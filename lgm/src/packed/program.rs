//! The program of a packing: window 0 shows the arena, and every place is an offset in it.
//!
//! In: a schedule, its residences and their offsets. Out: a [`Program`]. Nothing is chosen here.

use vtensor::{
    Bytes, In, OpIndex, Out, PageRun, PieceRun, Place, StepCounts, StepKind, TensorId, Window,
    WindowId,
};

use super::Arena;
use super::places::Waits;
use super::residences::Residences;
use crate::count::{to_i64, to_u32};
use crate::emit::{Slots, Spans, whole_iteration};
use crate::graph::{Graph, Holding};
use crate::moves::Move;
use crate::packing::Packing;
use crate::policy::Timed;
use crate::pool::sub_page_align;
use crate::program::{Home, Program, Step};

/// What a program follows from.
pub(super) struct Parts<'a> {
    pub(super) graph: &'a Graph<'a>,
    pub(super) arena: Arena,
    pub(super) timed: &'a Timed,
    pub(super) residences: &'a Residences,
    pub(super) packing: &'a Packing,
}

impl Parts<'_> {
    /// The program.
    pub(super) fn program(&self) -> Program {
        let (graph, page) = (self.graph, self.arena.page);
        let pages = u32::try_from(page.pages_for(Bytes(self.packing.height.max(1))))
            .expect("an arena has less than 2^32 pages");
        let moves = &self.timed.schedule.moves;
        let slots = slots(graph, moves);
        let align = sub_page_align(page);
        let schedule = &self.timed.schedule;
        let waits = Waits::new(graph, schedule, self.residences, self.packing, align);
        Program {
            page_bytes: page,
            piece_bytes: page,
            arena_pages: pages,
            spill_bytes: slots.bytes(),
            steps: self.steps(waits.steps),
            places: self.places(),
            outs: self.outs(&slots),
            ins: self.ins(&slots, waits.ins),
            windows: vec![Window {
                first_run: 0,
                run_count: 1,
                pages,
            }],
            runs: vec![PageRun {
                first: 0,
                count: pages,
            }],
            homes: self.homes(&slots),
        }
    }

    fn place(&self, residence: usize) -> Place {
        Place {
            window: WindowId(0),
            offset: self.packing.offsets[residence],
        }
    }

    fn places(&self) -> Vec<Place> {
        let mut places = Vec::with_capacity(self.graph.skeleton.accesses.len());
        for step in 0..self.graph.steps() {
            for access in self.graph.skeleton.accesses_of(OpIndex(step)) {
                places.push(self.place(self.residences.at_step(access.tensor, step)));
            }
        }
        places
    }

    /// All pieces of a tensor, as the program counts them.
    fn whole(&self, tensor: TensorId) -> PieceRun {
        let bytes = self.graph.skeleton.tensor(tensor).bytes;
        let count = u32::try_from(self.arena.page.pages_for(bytes));
        PieceRun {
            first: 0,
            count: count.expect("limits: pieces are counted in u32"),
        }
    }

    fn outs(&self, slots: &Slots) -> Vec<Out> {
        let schedule = &self.timed.schedule;
        let outs = schedule.queues.outs.iter().map(|out| {
            let m = &schedule.moves[out.row];
            Out {
                tensor: m.tensor,
                pieces: self.whole(m.tensor),
                bytes: m.bytes,
                source: self.place(self.residences.ended_by(out.row)),
                slot: slots.at(m.tensor, 0),
            }
        });
        outs.collect()
    }

    fn ins(&self, slots: &Slots, waits: Vec<i64>) -> Vec<In> {
        let schedule = &self.timed.schedule;
        let steps = self.graph.steps();
        let queue = &schedule.queues.ins;
        let with_own = waits.into_iter().zip(queue).map(|(wait, queued)| {
            let later = schedule.moves[queued.row].release() / steps;
            wait.max(self.own_out(queued.row, later))
        });
        let waits = never_decreasing(with_own.collect(), to_i64(schedule.queues.outs.len()));
        let ins = queue.iter().zip(waits).map(|(queued, after_out)| {
            let m = &schedule.moves[queued.row];
            In {
                tensor: m.tensor,
                pieces: self.whole(m.tensor),
                bytes: m.bytes,
                destination: self.place(self.residences.begun_by(queued.row)),
                slot: slots.at(m.tensor, 0),
                after_out,
            }
        });
        ins.collect()
    }

    /// How many outs must be complete so that a move's own is, seen `later` iterations behind it.
    fn own_out(&self, row: usize, later: u32) -> i64 {
        let queues = &self.timed.schedule.queues;
        let ended = self.residences.ended_by(row);
        match self.residences.all[ended].out {
            Some(number) => to_i64(number) + 1 - i64::from(later) * to_i64(queues.outs.len()),
            None => i64::MIN,
        }
    }

    fn steps(&self, mut waits: Vec<i64>) -> Vec<Step> {
        let Timed {
            schedule,
            waits_for_outs,
        } = self.timed;
        let (steps, queues) = (self.graph.steps(), &schedule.queues);
        let mut wait = |step: u32, row: usize| {
            let wait = &mut waits[(step % steps) as usize];
            *wait = (*wait).max(self.own_out(row, step / steps));
        };
        for (row, m) in schedule.moves.iter().enumerate() {
            // What is overwritten may still be on its way out.
            if !m.read {
                wait(m.need, row);
            }
            if *waits_for_outs && m.leave + 1 < steps {
                wait(m.leave + 1, row);
            }
        }
        let out_needed = never_decreasing(waits, to_i64(queues.outs.len()));
        let mut released = vec![(0, 0); steps as usize];
        queues
            .outs
            .iter()
            .for_each(|out| released[out.release as usize].0 += 1);
        queues
            .ins
            .iter()
            .for_each(|i| released[i.release as usize].1 += 1);
        let (mut outs, mut ins) = (0, 0);
        let all = self.graph.skeleton.ops.iter().enumerate();
        let all = all.map(|(step, op)| {
            outs += released[step].0;
            ins += released[step].1;
            Step {
                kind: StepKind::App(OpIndex(to_u32(step))),
                counts: StepCounts {
                    out_needed: out_needed[step],
                    in_needed: queues.in_needed[step],
                    out_released: outs,
                    in_released: ins,
                },
                first_place: op.first_access,
            }
        });
        all.collect()
    }

    /// One row for each persistent tensor.
    fn homes(&self, slots: &Slots) -> Vec<Home> {
        // The next leave may count on a valid copy.
        let mut next: Vec<Option<&Move>> = vec![None; self.graph.skeleton.tensors.len()];
        for m in &self.timed.schedule.moves {
            let next = &mut next[m.tensor.index()];
            if next.is_none_or(|other| m.leave < other.leave) {
                *next = Some(m);
            }
        }
        let mut rows = Vec::new();
        for (row, tensor) in self.graph.skeleton.tensors.iter().enumerate() {
            if !tensor.persistent {
                continue;
            }
            let tensor = TensorId::from_index(row);
            let residence = self.residences.at_boundary(tensor);
            let clean = next[row].is_some_and(|m| m.read && !m.out);
            let parked = self.graph.node(tensor).holding == Holding::Parked;
            let in_slot = parked || residence.is_none() || clean;
            let pieces = self.whole(tensor);
            rows.push(Home {
                tensor,
                pieces,
                place: residence.map(|residence| self.place(residence)),
                slot: in_slot.then(|| slots.at(tensor, 0)),
            });
        }
        rows
    }
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

/// Where whole tensors go in the spill tier.
fn slots(graph: &Graph<'_>, moves: &[Move]) -> Slots {
    let mut spans = Spans::new(graph.skeleton);
    for m in moves.iter().filter(|m| m.out || m.read) {
        assert_eq!(m.pieces.first, 0, "tensors move as a whole");
        spans.add(m.tensor, 0, m.away());
    }
    for (tensor, _) in graph.held(Holding::Parked) {
        spans.add(tensor, 0, whole_iteration(graph));
    }
    spans.pack(graph.skeleton, graph.page)
}
