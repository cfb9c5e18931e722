//! Homes: where persistent pieces are at the boundary of an iteration.

use vtensor::{PieceRun, Place, TensorId};

use super::pool_place;
use super::slots::Slots;
use crate::graph::Holding;
use crate::layout::{AWAY, StayId, Stays};
use crate::pool::Pool;
use crate::program::Home;

/// What the rows follow from.
pub(super) struct Homes<'a> {
    pub(super) stays: &'a Stays<'a>,
    pub(super) pool: &'a Pool,
    pub(super) slots: &'a Slots,
    pub(super) pool_pages: u32,
    pub(super) page_of: &'a [u32],
}

impl Homes<'_> {
    /// One row for each run of pieces of a persistent tensor that are in one place.
    pub(super) fn rows(&self, place_of_page: impl Fn(u32) -> Place) -> Vec<Home> {
        let graph = self.stays.graph;
        let mut rows = Vec::new();
        for (row, _) in graph
            .skeleton
            .tensors
            .iter()
            .enumerate()
            .filter(|(_, t)| t.persistent)
        {
            let tensor = TensorId::from_index(row);
            let node = graph.node(tensor);
            let whole = PieceRun {
                first: 0,
                count: node.pieces,
            };
            match node.holding {
                Holding::Pool => {
                    let place = Some(pool_place(self.pool, tensor));
                    rows.push(Home {
                        tensor,
                        pieces: whole,
                        place,
                        slot: None,
                    });
                }
                Holding::Parked => {
                    let slot = Some(self.slots.slot(tensor, whole));
                    rows.push(Home {
                        tensor,
                        pieces: whole,
                        place: None,
                        slot,
                    });
                }
                Holding::Paged => self.push_paged(tensor, &place_of_page, &mut rows),
            }
        }
        rows
    }

    fn push_paged(
        &self,
        tensor: TensorId,
        place_of_page: impl Fn(u32) -> Place,
        rows: &mut Vec<Home>,
    ) {
        let spots: Vec<Spot> = (0..)
            .zip(&self.stays.home[tensor.index()])
            .map(|(piece, &stay)| self.spot(tensor, piece, stay))
            .collect();
        let mut first = 0;
        for run in spots.chunk_by(Spot::is_followed_by) {
            let count = u32::try_from(run.len()).expect("pieces are counted in u32");
            let pieces = PieceRun { first, count };
            rows.push(Home {
                tensor,
                pieces,
                place: run[0].page.map(&place_of_page),
                slot: run[0].in_slot.then(|| self.slots.slot(tensor, pieces)),
            });
            first += count;
        }
    }

    fn spot(&self, tensor: TensorId, piece: u32, stay: StayId) -> Spot {
        let page = (stay != AWAY).then(|| self.page_of[stay as usize] + self.pool_pages);
        Spot {
            page,
            in_slot: page.is_none() || self.clean(tensor, piece),
        }
    }

    /// Whether a piece's slot holds its content at the boundary because its next leave counts on
    /// it.
    fn clean(&self, tensor: TensorId, piece: u32) -> bool {
        let of_piece = self
            .stays
            .moves_of(tensor)
            .filter(|m| m.pieces.contains(piece));
        of_piece
            .min_by_key(|m| m.leave)
            .is_some_and(|m| m.read && !m.out)
    }
}

/// Where one piece is.
struct Spot {
    page: Option<u32>,
    in_slot: bool,
}

impl Spot {
    fn is_followed_by(&self, next: &Self) -> bool {
        let adjacent = match (self.page, next.page) {
            (Some(page), Some(next)) => next == page + 1,
            (None, None) => true,
            _ => false,
        };
        adjacent && self.in_slot == next.in_slot
    }
}
