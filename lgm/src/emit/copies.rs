//! Copies: what the moves of units are in copies of tensors.
//!
//! A move of a unit is a copy for each of its parts that needs one, in a row. So counts of moves
//! become counts of copies: whoever waits for a move waits for the last of its copies.

use vtensor::{Bytes, In, Out, Place};

use super::Ground;
use super::traffic::Copied;
use crate::count::to_i64;
use crate::moves::Move;
use crate::share::Part;

pub(super) struct Copies<'a> {
    ground: &'a Ground<'a>,
    places: &'a [Place],
    /// Before each move in the queue of outs, and in all, how many copies there are.
    outs_before: Vec<i64>,
    ins_before: Vec<i64>,
}

impl<'a> Copies<'a> {
    pub(super) fn new(ground: &'a Ground<'a>, places: &'a [Place]) -> Self {
        let queues = &ground.stays.schedule.queues;
        let before = |rows: &mut dyn Iterator<Item = usize>, is: fn(&Copied) -> bool| {
            let mut before = vec![0];
            let mut sum = 0;
            for row in rows {
                sum += to_i64(ground.traffic.of(row).iter().filter(|c| is(c)).count());
                before.push(sum);
            }
            before
        };
        Self {
            ground,
            places,
            outs_before: before(&mut queues.outs.iter().map(|out| out.row), |c| c.out),
            ins_before: before(&mut queues.ins.iter().map(|i| i.row), |c| c.back),
        }
    }

    /// How many outs so many moves out are, counted from the base of an iteration.
    pub(super) fn outs_below(&self, moves: i64) -> i64 {
        below(&self.outs_before, moves)
    }

    /// The same for ins.
    pub(super) fn ins_below(&self, moves: i64) -> i64 {
        below(&self.ins_before, moves)
    }

    pub(super) fn outs(&self) -> Vec<Out> {
        let Ground { stays, slots, .. } = self.ground;
        let outs = stays.schedule.queues.outs.iter().flat_map(|queued| {
            let m = &stays.schedule.moves[queued.row];
            let last = stays
                .graph
                .last_use(m.tensor, m.leave)
                .expect("what moves is used");
            self.parts(queued.row, |c| c.out).map(move |part| Out {
                tensor: part.tensor,
                pieces: self.ground.units.pieces(part.start, part.bytes),
                bytes: Bytes(part.bytes),
                source: self.place(m, &part, last.access),
                slot: slots.slot(&part),
            })
        });
        outs.collect()
    }

    pub(super) fn ins(&self, after_outs: &[i64]) -> Vec<In> {
        let Ground { stays, slots, .. } = self.ground;
        let queued = stays.schedule.queues.ins.iter().zip(after_outs);
        let ins = queued.flat_map(|(queued, &after_out)| {
            let m = &stays.schedule.moves[queued.row];
            let next = stays
                .graph
                .use_at(m.tensor, m.need % stays.graph.steps())
                .expect("an in is for a use");
            self.parts(queued.row, |c| c.back).map(move |part| In {
                tensor: part.tensor,
                pieces: self.ground.units.pieces(part.start, part.bytes),
                bytes: Bytes(part.bytes),
                destination: self.place(m, &part, next.access),
                slot: slots.slot(&part),
                after_out: self.outs_below(after_out),
            })
        });
        ins.collect()
    }

    /// The parts of a move that are copied, cut to what moves.
    fn parts(&self, row: usize, is: fn(&Copied) -> bool) -> impl Iterator<Item = Part> {
        let m = self.ground.stays.schedule.moves[row];
        let page = self.ground.stays.graph.page.get();
        let parts = self.ground.units.parts(m.tensor).iter();
        let copied = parts.zip(self.ground.traffic.of(row));
        copied
            .filter(move |(_, copied)| is(copied))
            .map(move |(part, _)| moving(part, &m, page))
    }

    /// The place of a part of a unit at an access of the unit.
    fn place(&self, m: &Move, part: &Part, access: u32) -> Place {
        let Ground {
            stays,
            units,
            page_of,
            pool_pages,
            ..
        } = self.ground;
        if units.parts(m.tensor).len() > 1 {
            let stay = stays.accesses[access as usize][0];
            return self
                .ground
                .place_on(page_of[stay as usize] + pool_pages, part);
        }
        let tensor = self.places[units.row_in(access)];
        Place {
            offset: tensor.offset + part.start,
            ..tensor
        }
    }
}

/// What moves of a part, if only some pages of its unit do.
pub(super) fn moving(part: &Part, m: &Move, page: u64) -> Part {
    let skipped = u64::from(m.pieces.first) * page;
    let taken = u64::from(m.pieces.count) * page;
    Part {
        start: part.start + skipped,
        bytes: (part.bytes - skipped).min(taken),
        ..*part
    }
}

fn below(before: &[i64], moves: i64) -> i64 {
    let all = to_i64(before.len()) - 1;
    let (row, base) = if moves < 0 {
        (moves + all, -before[before.len() - 1])
    } else {
        (moves, 0)
    };
    let row = usize::try_from(row).expect("counts reach one iteration back at most");
    base + before[row]
}
