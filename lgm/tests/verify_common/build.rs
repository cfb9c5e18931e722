//! Programs written by hand: pages of 4 KiB, windows made as they are named.

use lgm::program::{Home, Program, Step};
use lgm::skeleton::{Access, Op, Skeleton, Tensor};
use vtensor::{
    Bytes, In, Mode, OpIndex, Out, PageBytes, PageRun, PieceRun, Place, StepCounts, StepKind,
    TensorId, TensorKind, Window, WindowId,
};

pub(crate) const PAGE: u64 = 4096;

pub(crate) const R: Mode = Mode::Read;
pub(crate) const W: Mode = Mode::Write;
pub(crate) const RW: Mode = Mode::ReadWrite;

/// A skeleton and a program in the making.
pub(crate) struct Builder {
    pub(crate) skeleton: Skeleton,
    pub(crate) program: Program,
}

/// Pieces `first .. first + count`.
pub(crate) fn pieces(first: u32, count: u32) -> PieceRun {
    PieceRun { first, count }
}

impl Builder {
    pub(crate) fn new(arena_pages: u32, spill_pages: u64) -> Self {
        Self {
            skeleton: Skeleton::default(),
            program: Program {
                page_bytes: PageBytes::MIN,
                piece_bytes: PageBytes::MIN,
                arena_pages,
                spill_bytes: Bytes(spill_pages * PAGE),
                steps: vec![],
                places: vec![],
                outs: vec![],
                ins: vec![],
                windows: vec![],
                runs: vec![],
                homes: vec![],
            },
        }
    }

    fn tensor(&mut self, bytes: u64, persistent: bool) -> TensorId {
        let id = TensorId::from_index(self.skeleton.tensors.len());
        self.skeleton.tensors.push(Tensor {
            name: String::new(),
            bytes: Bytes(bytes),
            kind: TensorKind::Activation,
            persistent,
            fixed: false,
        });
        id
    }

    pub(crate) fn persistent(&mut self, bytes: u64) -> TensorId {
        self.tensor(bytes, true)
    }

    pub(crate) fn transient(&mut self, bytes: u64) -> TensorId {
        self.tensor(bytes, false)
    }

    /// The place `offset` bytes into the window of these pages.
    pub(crate) fn place(&mut self, pages: &[u32], offset: u64) -> Place {
        let mut runs: Vec<PageRun> = Vec::new();
        for &page in pages {
            match runs.last_mut() {
                Some(run) if run.end() == u64::from(page) => run.count += 1,
                _ => runs.push(PageRun {
                    first: page,
                    count: 1,
                }),
            }
        }
        let ids = 0..self.program.windows.len();
        let known = ids
            .map(WindowId::from_index)
            .find(|&id| self.program.runs_of(id) == runs);
        let window = known.unwrap_or_else(|| {
            let count = |n: usize| u32::try_from(n).expect("small tests");
            self.program.windows.push(Window {
                first_run: count(self.program.runs.len()),
                run_count: count(runs.len()),
                pages: count(pages.len()),
            });
            self.program.runs.extend(runs);
            WindowId::from_index(self.program.windows.len() - 1)
        });
        Place { window, offset }
    }

    /// The place of the first byte of these pages.
    pub(crate) fn at(&mut self, pages: &[u32]) -> Place {
        self.place(pages, 0)
    }

    /// A step with its accesses. It needs what the step before needed, and releases nothing new.
    pub(crate) fn step(&mut self, accesses: &[(TensorId, Mode, Place)]) -> usize {
        let index = self.program.steps.len();
        let first = u32::try_from(self.skeleton.accesses.len()).expect("small tests");
        self.skeleton.ops.push(Op {
            name: String::new(),
            duration_ns: 1,
            first_access: first,
            access_count: u32::try_from(accesses.len()).expect("small tests"),
            replayable: false,
        });
        let rows = accesses.iter();
        let access = |&(tensor, mode, _): &(TensorId, Mode, Place)| Access { tensor, mode };
        self.skeleton.accesses.extend(rows.clone().map(access));
        self.program.places.extend(rows.map(|&(.., place)| place));
        let counts = self
            .program
            .steps
            .last()
            .map_or(StepCounts::default(), |s| s.counts);
        self.program.steps.push(Step {
            kind: StepKind::App(OpIndex::from_index(index)),
            counts,
            first_place: first,
        });
        index
    }

    /// From the last step on, that many outs and ins are needed.
    pub(crate) fn needs(&mut self, outs: i64, ins: i64) {
        let counts = &mut self.program.steps.last_mut().expect("a step first").counts;
        counts.out_needed = outs;
        counts.in_needed = ins;
    }

    fn bytes(&self, tensor: TensorId, run: PieceRun) -> Bytes {
        let pieces = self.program.pieces(self.skeleton.tensor(tensor).bytes);
        pieces.bytes(run).expect("pieces of the tensor")
    }

    /// The last step releases an out.
    pub(crate) fn out(&mut self, tensor: TensorId, pieces: PieceRun, source: Place, slot: u64) {
        let bytes = self.bytes(tensor, pieces);
        self.program.outs.push(Out {
            tensor,
            pieces,
            bytes,
            source,
            slot,
        });
        let last = self.program.steps.last_mut().expect("a step first");
        last.counts.out_released += 1;
    }

    /// The last step releases an in.
    pub(crate) fn copy_in(
        &mut self,
        tensor: TensorId,
        pieces: PieceRun,
        destination: Place,
        slot: u64,
        after_out: i64,
    ) {
        let bytes = self.bytes(tensor, pieces);
        self.program.ins.push(In {
            tensor,
            pieces,
            bytes,
            destination,
            slot,
            after_out,
        });
        let last = self.program.steps.last_mut().expect("a step first");
        last.counts.in_released += 1;
    }

    pub(crate) fn home(
        &mut self,
        tensor: TensorId,
        pieces: PieceRun,
        place: Option<Place>,
        slot: Option<u64>,
    ) {
        self.program.homes.push(Home {
            tensor,
            pieces,
            place,
            slot,
        });
    }

    pub(crate) fn finish(self) -> (Skeleton, Program) {
        (self.skeleton, self.program)
    }
}
