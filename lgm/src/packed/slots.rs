//! Slots: where in the spill tier tensors of a contiguous arena go.
//!
//! A tensor has one range of the tier for all that ever leaves of it: persistent tensors for good,
//! so that copies stay valid from one iteration to the next; transients from their first out to the
//! last step that needs them back, and later ones take their place.

use vtensor::limits::SLOT_ALIGN;
use vtensor::{Bytes, PieceRun, StepRange, TensorId};

use crate::graph::{Graph, Holding};
use crate::moves::Move;
use crate::packing::{Block, Effort, pack};
use crate::pool::sub_page_align;

/// The slots of a layout.
#[derive(Debug)]
pub(super) struct Slots {
    /// For each tensor that leaves: its first piece that does, and where that is.
    base: Vec<Option<(u32, u64)>>,
    page: u64,
    bytes: Bytes,
}

impl Slots {
    pub(super) fn new(graph: &Graph<'_>, moves: &[Move]) -> Self {
        let tensors = graph.skeleton.tensors.len();
        let mut span: Vec<Option<(u32, StepRange)>> = vec![None; tensors];
        for m in moves.iter().filter(|m| m.out || m.read) {
            let life = StepRange {
                start: m.leave,
                end: m.need,
            };
            let span = &mut span[m.tensor.index()];
            *span = Some(span.map_or((m.pieces.first, life), |(first, old)| {
                let start = old.start.min(life.start);
                (
                    first.min(m.pieces.first),
                    StepRange {
                        start,
                        end: old.end.max(life.end),
                    },
                )
            }));
        }
        for (tensor, _) in graph.held(Holding::Parked) {
            span[tensor.index()] = Some((
                0,
                StepRange {
                    start: 0,
                    end: graph.steps(),
                },
            ));
        }
        let page = graph.page.get();
        let align = SLOT_ALIGN.max(sub_page_align(graph.page));
        let (mut blocks, mut owners) = (Vec::new(), Vec::new());
        for (row, span) in span.iter().enumerate() {
            let Some((first, life)) = span else { continue };
            let tensor = TensorId::from_index(row);
            let bytes = graph.skeleton.tensor(tensor).bytes.0 - u64::from(*first) * page;
            let bytes = bytes.next_multiple_of(align);
            blocks.push(match graph.node(tensor).persistent {
                true => Block::once(bytes, 0, u32::MAX),
                false => Block::once(bytes, life.start, life.end),
            });
            owners.push((tensor, *first));
        }
        let packing = pack(&blocks, u64::MAX, Effort::NONE);
        let mut slots = Self {
            base: vec![None; tensors],
            page,
            bytes: Bytes(packing.height),
        };
        for ((tensor, first), offset) in owners.into_iter().zip(packing.offsets) {
            slots.base[tensor.index()] = Some((first, offset));
        }
        slots
    }

    /// How large the spill tier is.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Where the first of some pieces goes.
    pub(super) fn slot(&self, tensor: TensorId, pieces: PieceRun) -> u64 {
        let (first, base) = self.base[tensor.index()].expect("a tensor that leaves has a slot");
        base + u64::from(pieces.first - first) * self.page
    }
}
