//! Homes: where persistent pieces are at the boundary of an iteration.

use vtensor::TensorId;

use super::{Ground, pool_place};
use crate::graph::Holding;
use crate::layout::AWAY;
use crate::program::Home;
use crate::share::Part;
use crate::skeleton::Skeleton;

/// What the rows follow from.
pub(super) struct Homes<'a> {
    pub(super) ground: &'a Ground<'a>,
    pub(super) skeleton: &'a Skeleton,
}

impl Homes<'_> {
    /// One row for each run of pieces of a persistent tensor that are in one place.
    pub(super) fn rows(&self) -> Vec<Home> {
        let Ground {
            stays,
            units,
            slots,
            pool,
            ..
        } = self.ground;
        let mut rows = Vec::new();
        let tensors = self.skeleton.tensors.iter().enumerate();
        for (row, _) in tensors.filter(|(_, tensor)| tensor.persistent) {
            let tensor = TensorId::from_index(row);
            let first = units.of(tensor)[0];
            let whole = || units.parts(first)[0];
            let pieces = |part: &Part| units.pieces(part.start, part.bytes);
            match stays.graph.node(first).holding {
                Holding::Pool => rows.push(Home {
                    tensor,
                    pieces: pieces(&whole()),
                    place: Some(pool_place(pool, first)),
                    slot: None,
                }),
                Holding::Parked => rows.push(Home {
                    tensor,
                    pieces: pieces(&whole()),
                    place: None,
                    slot: Some(slots.slot(&whole())),
                }),
                Holding::Paged => self.push_paged(tensor, &mut rows),
            }
        }
        rows
    }

    fn push_paged(&self, tensor: TensorId, rows: &mut Vec<Home>) {
        let Ground { units, slots, .. } = self.ground;
        let page = self.ground.stays.graph.page.get();
        let mut spots: Vec<Spot> = Vec::new();
        for &unit in units.of(tensor) {
            let parts = units.parts(unit);
            let at = parts.iter().position(|part| part.tensor == tensor);
            let at = at.expect("a tensor has a part in each of its units");
            let stays = &self.ground.stays.home[unit.index()];
            for (piece, &stay) in (0_u32..).zip(stays) {
                let skipped = u64::from(piece) * page;
                let part = Part {
                    start: parts[at].start + skipped,
                    bytes: (parts[at].bytes - skipped).min(page),
                    ..parts[at]
                };
                let on = (stay != AWAY)
                    .then(|| self.ground.page_of[stay as usize] + self.ground.pool_pages);
                spots.push(Spot {
                    part,
                    page: on,
                    in_slot: on.is_none() || self.clean(unit, at, piece),
                    ends_page: part.offset + part.bytes == page,
                });
            }
        }
        for run in spots.chunk_by(Spot::is_followed_by) {
            let first = &run[0];
            let bytes = run.iter().map(|spot| spot.part.bytes).sum();
            rows.push(Home {
                tensor,
                pieces: units.pieces(first.part.start, bytes),
                place: first
                    .page
                    .map(|page| self.ground.place_on(page, &first.part)),
                slot: first.in_slot.then(|| slots.slot(&first.part)),
            });
        }
    }

    /// Whether a slot holds the content of a part at the boundary because its next leave counts on
    /// it.
    fn clean(&self, unit: TensorId, part: usize, piece: u32) -> bool {
        let Ground { stays, traffic, .. } = self.ground;
        let moves = &stays.schedule.moves;
        let rows = stays.rows_of(unit).iter();
        let of_piece = rows.filter(|&&row| moves[row].pieces.contains(piece));
        of_piece
            .min_by_key(|&&row| moves[row].leave)
            .is_some_and(|&row| traffic.of(row)[part].clean)
    }
}

/// Where one piece is.
struct Spot {
    part: Part,
    page: Option<u32>,
    in_slot: bool,
    ends_page: bool,
}

impl Spot {
    fn is_followed_by(&self, next: &Self) -> bool {
        let adjacent = match (self.page, next.page) {
            (Some(page), Some(next_page)) => {
                next_page == page + 1 && self.ends_page && next.part.offset == 0
            }
            (None, None) => true,
            _ => false,
        };
        adjacent && self.in_slot == next.in_slot
    }
}
