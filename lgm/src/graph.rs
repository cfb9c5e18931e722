//! The Layered Graph Model: ops, tensors, gaps and pages, and the edges between them.
//!
//! In: a skeleton and a page size. Out: for each tensor how it is held and when it is used, and
//! every *gap*, the steps between two consecutive uses in which the tensor is idle. Layers:
//! *ops → tensors → vTensors (pieces) → pages*; access edges join ops and tensors, part-of edges
//! are the pieces' numbers, and a gap's steps are the edges from its pieces to the demands that
//! they could satisfy. Mapped-during edges are what the layout adds.
//!
//! Guarantees: deterministic; linear in the number of accesses. Steps are ops here: a planner that
//! adds steps of its own does so later.
//!
//! *Not here*: what moves (`select`), when (`schedule`), where (`layout`).
//!
//! Source: *vTensor-Based GPU Memory Management for Edge Deep Learning Training*, JCST 40(6), 2025.

use vtensor::{Mode, OpIndex, PageBytes, StepRange, TensorId};

use crate::count::to_u32;
use crate::skeleton::Skeleton;

/// How a tensor is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// In the pool of small tensors, at one place for life.
    Pool,
    /// On pages of its own.
    Paged,
    /// In the spill tier for good: persistent, but no op uses it.
    Parked,
}

/// A tensor of the graph.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// How it is held.
    pub holding: Holding,
    /// Its pieces, or pages; at least one.
    pub pieces: u32,
    /// Whether it outlives the iteration.
    pub persistent: bool,
    /// Whether its address may never change.
    pub fixed: bool,
    first_use: u32,
    use_count: u32,
    first_gap: u32,
    gap_count: u32,
}

/// A use of a tensor: an access edge, seen from the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The step.
    pub step: u32,
    /// How.
    pub mode: Mode,
    /// Its row in the skeleton's table of accesses.
    pub access: u32,
}

/// The steps between two consecutive uses of a paged tensor.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Whose.
    pub tensor: TensorId,
    /// The step of the use before it.
    pub after: u32,
    /// The step of the use behind it; in the next iteration if not below the number of steps.
    pub before: u32,
    /// Whether the use behind it needs the content; otherwise it overwrites it.
    pub read_next: bool,
    /// Whether the content is dead in the gap, so that nothing need be copied out. The content of a
    /// persistent tensor is never dead at the boundary: there the application may look at it.
    pub dead: bool,
}

impl Gap {
    /// The steps in which the tensor is idle.
    #[must_use]
    pub fn idle(&self) -> StepRange {
        StepRange {
            start: self.after + 1,
            end: self.before,
        }
    }
}

/// The graph.
#[derive(Debug)]
pub struct Graph<'a> {
    /// What the iteration does to memory.
    pub skeleton: &'a Skeleton,
    /// The page size.
    pub page: PageBytes,
    nodes: Vec<Node>,
    uses: Vec<Use>,
    gaps: Vec<Gap>,
}

/// What goes into a graph beside the skeleton.
#[derive(Clone, Copy, Debug)]
pub struct Granularity {
    /// The page size.
    pub page: PageBytes,
    /// Tensors of fewer bytes live in the pool.
    pub pool_below: u64,
    /// Whether persistent tensors that no op uses are kept in the spill tier.
    pub park_unused: bool,
}

impl<'a> Graph<'a> {
    /// The graph of a skeleton that passes [`Skeleton::check`].
    #[must_use]
    pub fn new(skeleton: &'a Skeleton, granularity: Granularity) -> Self {
        let uses_of = uses_by_tensor(skeleton);
        let mut graph = Self {
            skeleton,
            page: granularity.page,
            nodes: Vec::with_capacity(skeleton.tensors.len()),
            uses: Vec::with_capacity(skeleton.accesses.len()),
            gaps: Vec::new(),
        };
        for (row, tensor) in skeleton.tensors.iter().enumerate() {
            let uses = &uses_of[row];
            let holding = if tensor.bytes.0 < granularity.pool_below {
                Holding::Pool
            } else if uses.is_empty() && granularity.park_unused {
                Holding::Parked
            } else {
                Holding::Paged
            };
            let first_gap = to_u32(graph.gaps.len());
            if holding == Holding::Paged {
                graph.add_gaps(TensorId::from_index(row), tensor.persistent, uses);
            }
            graph.nodes.push(Node {
                holding,
                pieces: u32::try_from(granularity.page.pages_for(tensor.bytes))
                    .expect("limits: pieces are counted in u32"),
                persistent: tensor.persistent,
                fixed: tensor.fixed,
                first_use: to_u32(graph.uses.len()),
                use_count: to_u32(uses.len()),
                first_gap,
                gap_count: to_u32(graph.gaps.len()) - first_gap,
            });
            graph.uses.extend_from_slice(uses);
        }
        graph
    }

    fn add_gaps(&mut self, tensor: TensorId, persistent: bool, uses: &[Use]) {
        let steps = self.steps();
        let mut add = |before_it: Use, behind_it: Use, wraps: bool| {
            let before = behind_it.step + if wraps { steps } else { 0 };
            if before > before_it.step + 1 {
                let read_next = behind_it.mode.reads();
                let dead = !read_next && !wraps;
                self.gaps.push(Gap {
                    tensor,
                    after: before_it.step,
                    before,
                    read_next,
                    dead,
                });
            }
        };
        for pair in uses.windows(2) {
            add(pair[0], pair[1], false);
        }
        if let (true, Some(&first), Some(&last)) = (persistent, uses.first(), uses.last()) {
            add(last, first, true);
        }
    }

    /// How many steps an iteration has.
    #[must_use]
    pub fn steps(&self) -> u32 {
        to_u32(self.skeleton.ops.len())
    }

    /// A tensor.
    #[must_use]
    pub fn node(&self, tensor: TensorId) -> &Node {
        &self.nodes[tensor.index()]
    }

    /// Whether a tensor on pages has an address that may never change.
    pub(crate) fn has_fixed(&self) -> bool {
        self.held(Holding::Paged).any(|(_, node)| node.fixed)
    }

    /// Whether a tensor on pages has an address that may change.
    pub(crate) fn has_movable(&self) -> bool {
        self.held(Holding::Paged).any(|(_, node)| !node.fixed)
    }

    /// All tensors that are held in one way.
    pub fn held(&self, holding: Holding) -> impl Iterator<Item = (TensorId, &Node)> {
        let all = self.nodes.iter().enumerate();
        all.filter(move |(_, node)| node.holding == holding)
            .map(|(row, node)| (TensorId::from_index(row), node))
    }

    /// The uses of a tensor, by step.
    #[must_use]
    pub fn uses(&self, tensor: TensorId) -> &[Use] {
        let node = self.node(tensor);
        let first = node.first_use as usize;
        &self.uses[first..first + node.use_count as usize]
    }

    /// The last use of a tensor at or before a step, on the circle; `None` if no op uses it.
    #[must_use]
    pub fn last_use(&self, tensor: TensorId, step: u32) -> Option<Use> {
        let uses = self.uses(tensor);
        let behind = uses.partition_point(|u| u.step <= step);
        uses[..behind].last().or(uses.last()).copied()
    }

    /// The use of a tensor at a step.
    #[must_use]
    pub fn use_at(&self, tensor: TensorId, step: u32) -> Option<Use> {
        let uses = self.uses(tensor);
        uses.binary_search_by_key(&step, |u| u.step)
            .ok()
            .map(|row| uses[row])
    }

    /// The gaps of all paged tensors, by tensor and step.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Where the gaps of one tensor are in [`Self::gaps`].
    #[must_use]
    pub fn gaps_of(&self, tensor: TensorId) -> core::ops::Range<usize> {
        let node = self.node(tensor);
        let first = node.first_gap as usize;
        first..first + node.gap_count as usize
    }

    /// The steps in which a tensor must be somewhere: all, or first to last use.
    #[must_use]
    pub fn life(&self, tensor: TensorId) -> StepRange {
        let uses = self.uses(tensor);
        match (self.node(tensor).persistent, uses.first(), uses.last()) {
            (false, Some(first), Some(last)) => StepRange {
                start: first.step,
                end: last.step + 1,
            },
            _ => StepRange {
                start: 0,
                end: self.steps(),
            },
        }
    }
}

fn uses_by_tensor(skeleton: &Skeleton) -> Vec<Vec<Use>> {
    let mut uses = vec![Vec::new(); skeleton.tensors.len()];
    for row in 0..skeleton.ops.len() {
        let op = OpIndex::from_index(row);
        let first = skeleton.ops[row].first_access;
        for (access, row) in skeleton.accesses_of(op).iter().zip(first..) {
            uses[access.tensor.index()].push(Use {
                step: op.0,
                mode: access.mode,
                access: row,
            });
        }
    }
    uses
}
