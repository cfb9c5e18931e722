//! Moves: what a selection means in copies.
//!
//! In: the graph and, for each gap, how many pieces leave in it. Out: moves, each small enough to
//! be one copy, with the copies that are really needed. The *last* pieces of a tensor leave, so
//! what leaves in one gap and what leaves in the next overlap as much as they can: pieces that are
//! not written in between have a valid copy in their slot already and leave without another one
//! (clean).

use vtensor::{Bytes, PieceRun, Pieces, StepRange, TensorId};

use crate::graph::{Gap, Graph};

/// Consecutive pieces of one tensor that leave together, in one gap.
///
/// Steps are counted from 0; `back` and `need` lie behind `leave` and may be in the next iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Whose pieces.
    pub tensor: TensorId,
    /// Which pieces.
    pub pieces: PieceRun,
    /// Their bytes.
    pub bytes: Bytes,
    /// The pages are free once this step is complete, and the out, if there is one, too.
    pub leave: u32,
    /// The pages are taken again from this step on: the in is released once the step before it is
    /// complete. Without an in it is `need`.
    pub back: u32,
    /// The step that uses the pieces.
    pub need: u32,
    /// Whether a copy out is needed; it is released once `leave` is complete.
    pub out: bool,
    /// Whether a copy in is needed; otherwise `need` overwrites the pieces.
    pub read: bool,
}

impl Move {
    /// The step whose completion releases the in.
    #[must_use]
    pub fn release(&self) -> u32 {
        self.back - 1
    }

    /// When what has left is in its slot.
    #[must_use]
    pub const fn away(&self) -> StepRange {
        StepRange {
            start: self.leave,
            end: self.need,
        }
    }
}

/// How a selection is cut into moves.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Pieces of one copy at most; `u32::MAX` moves what leaves a gap as one.
    pub pieces_max: u32,
}

/// The moves of a selection, on demand: each in is released just before it is needed.
#[must_use]
pub fn moves(graph: &Graph<'_>, moved: &[u32], cut: Cut) -> Vec<Move> {
    let mut all = Vec::new();
    let mut tensors: Vec<TensorId> = Vec::new();
    for (row, gap) in graph.gaps().iter().enumerate() {
        if moved[row] > 0 && tensors.last() != Some(&gap.tensor) {
            tensors.push(gap.tensor);
        }
    }
    for tensor in tensors {
        let rows = graph.gaps_of(tensor);
        let clean = clean_pieces(graph, tensor, &moved[rows.clone()]);
        for (row, clean) in rows.zip(clean) {
            let gap = &graph.gaps()[row];
            if moved[row] == 0 {
                continue;
            }
            let pieces = graph.node(tensor).pieces;
            let clean = clean.min(moved[row]);
            let first = pieces - moved[row];
            push(graph, gap, first, pieces - clean, !gap.dead, cut, &mut all);
            push(graph, gap, pieces - clean, pieces, false, cut, &mut all);
        }
    }
    all
}

/// For each gap of a tensor, how many of its last pieces have a valid copy in their slot.
pub(crate) fn clean_pieces(graph: &Graph<'_>, tensor: TensorId, moved: &[u32]) -> Vec<u32> {
    let gaps = &graph.gaps()[graph.gaps_of(tensor)];
    let steps = graph.steps();
    let writes: Vec<u32> = graph
        .uses(tensor)
        .iter()
        .filter(|u| u.mode.writes())
        .map(|u| u.step)
        .collect();
    if writes.is_empty() {
        // Never written: once out, always clean, from the iteration before on.
        let most = moved.iter().copied().max().unwrap_or(0);
        return vec![most; gaps.len()];
    }
    let mut clean = vec![0; gaps.len()];
    let mut valid = 0;
    let mut last: Option<u32> = None;
    // Twice around: what holds at the end holds at the beginning, for those that persist.
    let rounds = if graph.node(tensor).persistent { 2 } else { 1 };
    for round in 0..rounds {
        for (row, gap) in gaps.iter().enumerate() {
            let at = gap.after + round * steps;
            let since = last.map_or(0, |last| last + 1);
            let written = writes
                .iter()
                .flat_map(|&w| [w, w + steps])
                .any(|w| w >= since && w <= at && (w < steps || round > 0));
            if written {
                valid = 0;
            }
            last = Some(at);
            clean[row] = valid;
            if !gap.dead {
                valid = valid.max(moved[row]);
            }
        }
    }
    clean
}

fn push(
    graph: &Graph<'_>,
    gap: &Gap,
    first: u32,
    end: u32,
    out: bool,
    cut: Cut,
    all: &mut Vec<Move>,
) {
    let sizes = Pieces::of(graph.skeleton.tensor(gap.tensor).bytes, graph.page);
    let steps = graph.steps();
    let mut first = first;
    while first < end {
        let count = (end - first).min(cut.pieces_max);
        let pieces = PieceRun { first, count };
        all.push(Move {
            tensor: gap.tensor,
            pieces,
            bytes: sizes.bytes(pieces).expect("a run inside its tensor"),
            leave: gap.after,
            back: gap.before,
            need: gap.before,
            out,
            read: gap.read_next,
        });
        debug_assert!(gap.before > gap.after && gap.before <= gap.after + steps);
        first += count;
    }
}
