//! The pool: where small tensors live, each at one place for life.
//!
//! A page for each small tensor would cost up to three times the bytes of some models. In: the
//! graph. Out: a byte offset for each pool tensor, such that tensors that live at the same time
//! do not overlap. The pool's pages never move.

use vtensor::limits::TENSOR_ALIGN;
use vtensor::{Bytes, PageBytes, TensorId};

use crate::graph::{Graph, Holding};
use crate::packing::{Block, Effort, pack};

/// Where the pool's tensors are.
#[derive(Debug)]
pub struct Pool {
    offsets: Vec<Option<u64>>,
    bytes: Bytes,
}

impl Pool {
    /// Places the pool tensors of a graph.
    #[must_use]
    pub fn pack(graph: &Graph<'_>) -> Self {
        let align = sub_page_align(graph.page);
        let tensors: Vec<TensorId> = graph
            .held(Holding::Pool)
            .map(|(tensor, _)| tensor)
            .collect();
        let block = |&tensor: &TensorId| {
            let bytes = graph.skeleton.tensor(tensor).bytes.0;
            let life = graph.life(tensor);
            Block::once(bytes.next_multiple_of(align), life.start, life.end)
        };
        let blocks: Vec<Block> = tensors.iter().map(block).collect();
        let packing = pack(&blocks, u64::MAX, Effort::NONE);
        let mut offsets = vec![None; graph.skeleton.tensors.len()];
        for (tensor, offset) in tensors.iter().zip(packing.offsets) {
            offsets[tensor.index()] = Some(offset);
        }
        Self {
            offsets,
            bytes: Bytes(packing.height),
        }
    }

    /// Where a pool tensor begins, in bytes from the pool's start.
    #[must_use]
    pub fn offset(&self, tensor: TensorId) -> Option<u64> {
        self.offsets[tensor.index()]
    }

    /// The pages that the pool takes.
    ///
    /// # Panics
    /// If they are more than 2^32; small tensors of a skeleton within the limits never are.
    #[must_use]
    pub fn pages(&self, page: PageBytes) -> u32 {
        u32::try_from(page.pages_for(self.bytes)).expect("at most 2^20 tensors below a page")
    }
}

/// The alignment of tensors inside a page: [`TENSOR_ALIGN`], and so coarse that a program can be
/// executed on the smallest pages with every offset scaled down exactly.
#[must_use]
pub fn sub_page_align(page: PageBytes) -> u64 {
    TENSOR_ALIGN.max(page.get() / PageBytes::MIN.get())
}
