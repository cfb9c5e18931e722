//! Slots: where in the spill tier the pieces of each tensor go.
//!
//! A tensor has one range of the tier for all that ever leaves of it: persistent tensors for good,
//! so that copies stay valid from one iteration to the next; transients from their first out to the
//! last step that needs them back, and later ones take their place.

use vtensor::limits::SLOT_ALIGN;
use vtensor::{Bytes, PageBytes, StepRange, TensorId};

use super::copies::moving;
use super::traffic::Traffic;
use crate::graph::{Graph, Holding};
use crate::layout::Stays;
use crate::packing::{Block, Effort, pack};
use crate::pool::sub_page_align;
use crate::share::{Part, Units};
use crate::skeleton::Skeleton;

/// The slots of a layout.
#[derive(Debug)]
pub(crate) struct Slots {
    /// For each tensor that leaves: its first byte that does, and where that is.
    base: Vec<Option<(u64, u64)>>,
    bytes: Bytes,
}

impl Slots {
    pub(super) fn new(
        stays: &Stays<'_>,
        units: &Units,
        skeleton: &Skeleton,
        traffic: &Traffic,
    ) -> Self {
        let graph = stays.graph;
        let mut spans = Spans::new(skeleton);
        for (row, m) in stays.schedule.moves.iter().enumerate() {
            let parts = units.parts(m.tensor).iter().zip(traffic.of(row));
            for (part, copied) in parts.filter(|(_, copied)| copied.out || copied.back) {
                debug_assert!(copied.out || copied.clean);
                let start = moving(part, m, graph.page.get()).start;
                spans.add(part.tensor, start, m.away());
            }
        }
        for (unit, _) in graph.held(Holding::Parked) {
            spans.add(units.parts(unit)[0].tensor, 0, whole_iteration(graph));
        }
        spans.pack(skeleton, graph.page)
    }

    /// How large the spill tier is.
    pub(crate) const fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Where the byte at `start` of a tensor goes.
    pub(crate) fn at(&self, tensor: TensorId, start: u64) -> u64 {
        let (first, base) = self.base[tensor.index()].expect("what leaves has a slot");
        base + start - first
    }

    /// Where the first byte of a part goes.
    pub(super) fn slot(&self, part: &Part) -> u64 {
        self.at(part.tensor, part.start)
    }
}

/// All steps of an iteration.
pub(crate) fn whole_iteration(graph: &Graph<'_>) -> StepRange {
    StepRange {
        start: 0,
        end: graph.steps(),
    }
}

/// What leaves of each tensor: its first byte that does, and when it is in its slot.
pub(crate) struct Spans(Vec<Option<(u64, StepRange)>>);

impl Spans {
    /// Nothing leaves.
    pub(crate) fn new(skeleton: &Skeleton) -> Self {
        Self(vec![None; skeleton.tensors.len()])
    }

    /// The bytes of a tensor from `start` on are in its slot for a while.
    pub(crate) fn add(&mut self, tensor: TensorId, start: u64, life: StepRange) {
        let span = &mut self.0[tensor.index()];
        *span = Some(span.map_or((start, life), |(first, old)| {
            let life = StepRange {
                start: old.start.min(life.start),
                end: old.end.max(life.end),
            };
            (first.min(start), life)
        }));
    }

    /// Places them in the tier.
    pub(crate) fn pack(&self, skeleton: &Skeleton, page: PageBytes) -> Slots {
        let align = SLOT_ALIGN.max(sub_page_align(page));
        let (mut blocks, mut owners) = (Vec::new(), Vec::new());
        for (row, span) in self.0.iter().enumerate() {
            let Some((first, life)) = span else { continue };
            let tensor = skeleton.tensor(TensorId::from_index(row));
            let bytes = (tensor.bytes.0 - first).next_multiple_of(align);
            blocks.push(match tensor.persistent {
                true => Block::once(bytes, 0, u32::MAX),
                false => Block::once(bytes, life.start, life.end),
            });
            owners.push((row, *first));
        }
        let packing = pack(&blocks, u64::MAX, Effort::NONE);
        let mut slots = Slots {
            base: vec![None; self.0.len()],
            bytes: Bytes(packing.height),
        };
        for ((row, first), offset) in owners.into_iter().zip(packing.offsets) {
            slots.base[row] = Some((first, offset));
        }
        slots
    }
}
