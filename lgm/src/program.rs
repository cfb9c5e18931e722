//! The swap program: the executable form of a plan. Its meaning is fixed in `ARCHITECTURE.md`
//! (rules of execution E1–E6, what is proven V1–V12).
//!
//! A program is data: two queues of copies, four integers a step, a table of windows, and for each
//! access the place where the tensor is. Whoever executes it makes no decision.

use serde::{Deserialize, Serialize};
use vtensor::{
    ArenaRange, Bytes, In, Out, PageBytes, PageRun, PieceRun, Pieces, Place, StepCounts, StepKind,
    TensorId, Window, WindowId, limits,
};

use crate::bounded;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// What it waits for, and what it releases.
    pub counts: StepCounts,
    /// Where the places of its accesses begin in [`Program::places`].
    pub first_place: u32,
}

/// Where pieces of a persistent tensor are at the boundary of an iteration, once every released
/// command is complete. In both places they are *clean*; in neither their content is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Whose pieces.
    pub tensor: TensorId,
    /// Which pieces.
    pub pieces: PieceRun,
    /// Where their first byte is on the device, if they are there.
    pub place: Option<Place>,
    /// Where their first byte is in the spill tier, if they are there.
    pub slot: Option<u64>,
}

/// A program. All offsets are in bytes of the planned size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The size of every page.
    pub page_bytes: PageBytes,
    /// The size of every piece but the last of its tensor: a page, or less where tensors begin
    /// inside of pages, so that they share them.
    pub piece_bytes: PageBytes,
    /// The arena, in pages: the budget, or less.
    pub arena_pages: u32,
    /// The size of the spill tier.
    pub spill_bytes: Bytes,
    /// Steps, in order.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::OPS_MAX }>")]
    pub steps: Vec<Step>,
    /// For each access of each step, in order of the skeleton, where the tensor begins.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::ACCESSES_MAX }>")]
    pub places: Vec<Place>,
    /// Copies to the spill tier, in release order.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::COMMANDS_MAX }>")]
    pub outs: Vec<Out>,
    /// Copies from the spill tier, in release order.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::COMMANDS_MAX }>")]
    pub ins: Vec<In>,
    /// Windows.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::WINDOWS_MAX }>")]
    pub windows: Vec<Window>,
    /// The page lists of all windows.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::RUNS_MAX }>")]
    pub runs: Vec<PageRun>,
    /// Where the persistent pieces are at the boundary. Each piece of each persistent tensor is in
    /// exactly one row.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::HOMES_MAX }>")]
    pub homes: Vec<Home>,
}

impl Program {
    /// The page list of a window, as runs.
    #[must_use]
    pub fn runs_of(&self, window: WindowId) -> &[PageRun] {
        let window = &self.windows[window.index()];
        let first = window.first_run as usize;
        &self.runs[first..first + window.run_count as usize]
    }

    /// How a tensor of some size is cut into pieces.
    #[must_use]
    pub const fn pieces(&self, tensor: Bytes) -> Pieces {
        Pieces::of(tensor, self.piece_bytes)
    }

    /// The bytes of the arena under `bytes` bytes from `place` on, in order of the window.
    pub fn arena_ranges(&self, place: Place, bytes: Bytes) -> impl Iterator<Item = ArenaRange> {
        let page = self.page_bytes.get();
        let (mut skip, mut left) = (place.offset, bytes.0);
        self.runs_of(place.window).iter().filter_map(move |run| {
            let run_bytes = u64::from(run.count) * page;
            if skip >= run_bytes {
                skip -= run_bytes;
                return None;
            }
            let start = u64::from(run.first) * page + skip;
            let taken = left.min(run_bytes - skip);
            skip = 0;
            left -= taken;
            (taken > 0).then_some(ArenaRange {
                start,
                end: start + taken,
            })
        })
    }

    /// The virtual memory that the windows take together.
    #[must_use]
    pub fn window_bytes(&self) -> Bytes {
        let pages: u64 = self.windows.iter().map(|w| u64::from(w.pages)).sum();
        Bytes(pages.saturating_mul(self.page_bytes.get()))
    }

    /// How many bytes one iteration moves out.
    #[must_use]
    pub fn moved_out(&self) -> Bytes {
        Bytes(self.outs.iter().map(|out| out.bytes.0).sum())
    }

    /// How many bytes one iteration moves in.
    #[must_use]
    pub fn moved_in(&self) -> Bytes {
        Bytes(self.ins.iter().map(|i| i.bytes.0).sum())
    }
}
