//! Builds plans step by step, with nothing decided for the caller.

use lgm::plan::{Origin, Plan, Replays};
use lgm::profile::{Link, Profile};
use lgm::program::{Home, Program, Step};
use lgm::skeleton::{Access, Op, Skeleton, Tensor};
use vtensor::limits::SLOT_ALIGN;
use vtensor::{
    Bytes, In, Mode, OpIndex, Out, PageBytes, PageRun, PieceRun, Pieces, Place, StepCounts,
    StepKind, TensorId, TensorKind, Window, WindowId,
};

/// Builds a plan step by step. Copies are released by the op before them.
pub struct Builder {
    page: PageBytes,
    skeleton: Skeleton,
    program: Program,
    /// What each tensor is a life of.
    lives: Vec<TensorId>,
    /// The application's iteration.
    original: Skeleton,
}

impl Builder {
    pub fn new(page: u64, arena_pages: u32) -> Self {
        let page = PageBytes::new(page).expect("tests use valid pages");
        Self {
            page,
            skeleton: Skeleton::default(),
            lives: vec![],
            original: Skeleton::default(),
            program: Program {
                page_bytes: page,
                piece_bytes: page,
                arena_pages,
                spill_bytes: Bytes(0),
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

    /// A window of these pages; its start.
    pub fn window(&mut self, pages: &[u32]) -> Place {
        let first_run = self.program.runs.len() as u32;
        for &page in pages {
            self.program.runs.push(PageRun {
                first: page,
                count: 1,
            });
        }
        self.program.windows.push(Window {
            first_run,
            run_count: pages.len() as u32,
            pages: pages.len() as u32,
        });
        let window = WindowId::from_index(self.program.windows.len() - 1);
        Place { window, offset: 0 }
    }

    pub fn tensor(&mut self, name: &str, bytes: u64, persistent: bool) -> TensorId {
        self.skeleton.tensors.push(Tensor {
            name: name.into(),
            bytes: Bytes(bytes),
            kind: if persistent {
                TensorKind::Parameter
            } else {
                TensorKind::Activation
            },
            persistent,
            fixed: false,
        });
        let id = TensorId::from_index(self.skeleton.tensors.len() - 1);
        self.lives.push(id);
        id
    }

    /// A later life of a tensor, made after all tensors.
    pub fn life(&mut self, of: TensorId) -> TensorId {
        let mut life = self.skeleton.tensor(of).clone();
        life.persistent = false;
        self.skeleton.tensors.push(life);
        self.lives.push(of);
        TensorId::from_index(self.skeleton.tensors.len() - 1)
    }

    fn all(&self, tensor: TensorId) -> PieceRun {
        let count = Pieces::of(self.skeleton.tensor(tensor).bytes, self.page).count();
        PieceRun {
            first: 0,
            count: count as u32,
        }
    }

    fn bytes(&self, tensor: TensorId, pieces: PieceRun) -> Bytes {
        let of = Pieces::of(self.skeleton.tensor(tensor).bytes, self.page);
        of.bytes(pieces).expect("tests name pieces that exist")
    }

    fn use_slot(&mut self, slot: u64, bytes: Bytes) {
        let end = (slot + bytes.0).next_multiple_of(SLOT_ALIGN);
        self.program.spill_bytes = self.program.spill_bytes.max(Bytes(end));
    }

    /// Where the whole of a tensor is at the boundary.
    pub fn home(&mut self, tensor: TensorId, place: Option<Place>, slot: Option<u64>) {
        let pieces = self.all(tensor);
        if let Some(slot) = slot {
            self.use_slot(slot, self.bytes(tensor, pieces));
        }
        self.program.homes.push(Home {
            tensor,
            pieces,
            place,
            slot,
        });
    }

    /// An op, which waits for so many outs and ins.
    pub fn op(&mut self, needed: (i64, i64), accesses: &[(TensorId, Mode, Place)]) {
        let index = self.original.ops.len();
        push_op(&mut self.original, accesses.len());
        for &(life, mode, _) in accesses {
            let tensor = self.lives[life.index()];
            self.original.accesses.push(Access { tensor, mode });
        }
        self.step(StepKind::App(OpIndex::from_index(index)), needed, accesses);
    }

    /// Op `op` again; after its own accesses come those that scratch begins with.
    pub fn again(&mut self, op: u32, needed: (i64, i64), accesses: &[(TensorId, Mode, Place)]) {
        self.original.ops[op as usize].replayable = true;
        self.step(StepKind::Replay(OpIndex(op)), needed, accesses);
    }

    fn step(&mut self, kind: StepKind, needed: (i64, i64), accesses: &[(TensorId, Mode, Place)]) {
        push_op(&mut self.skeleton, accesses.len());
        self.program.steps.push(Step {
            kind,
            counts: StepCounts {
                out_needed: needed.0,
                in_needed: needed.1,
                out_released: self.program.outs.len() as i64,
                in_released: self.program.ins.len() as i64,
            },
            first_place: self.program.places.len() as u32,
        });
        for &(tensor, mode, place) in accesses {
            self.skeleton.accesses.push(Access { tensor, mode });
            self.program.places.push(place);
        }
    }

    fn release(&mut self) {
        let step = self.program.steps.last_mut().expect("copies follow an op");
        step.counts.out_released = self.program.outs.len() as i64;
        step.counts.in_released = self.program.ins.len() as i64;
    }

    /// An out of a whole tensor.
    pub fn out(&mut self, tensor: TensorId, source: Place, slot: u64) {
        self.out_pieces(tensor, self.all(tensor), source, slot);
    }

    pub fn out_pieces(&mut self, tensor: TensorId, pieces: PieceRun, source: Place, slot: u64) {
        let bytes = self.bytes(tensor, pieces);
        self.use_slot(slot, bytes);
        self.program.outs.push(Out {
            tensor,
            pieces,
            bytes,
            source,
            slot,
        });
        self.release();
    }

    /// An in of a whole tensor.
    pub fn back(&mut self, tensor: TensorId, destination: Place, slot: u64, after_out: i64) {
        self.back_pieces(tensor, self.all(tensor), (destination, slot), after_out);
    }

    pub fn back_pieces(
        &mut self,
        tensor: TensorId,
        pieces: PieceRun,
        (destination, slot): (Place, u64),
        after_out: i64,
    ) {
        let bytes = self.bytes(tensor, pieces);
        let r#in = In {
            tensor,
            pieces,
            bytes,
            destination,
            slot,
            after_out,
        };
        self.program.ins.push(r#in);
        self.release();
    }

    pub fn build(mut self) -> Plan {
        let steps = self.program.steps.iter();
        let again = steps
            .clone()
            .any(|step| matches!(step.kind, StepKind::Replay(_)));
        self.original.tensors = {
            let own = self
                .lives
                .iter()
                .zip(0..)
                .take_while(|(of, row)| of.0 == *row);
            self.skeleton.tensors[..own.count()].to_vec()
        };
        let replays = again.then_some(Replays {
            original: self.original,
            lives: self.lives,
        });
        self.skeleton.check().expect("tests build valid skeletons");
        let link = Link {
            out_bps: 1e10,
            in_bps: 1e10,
            copy_latency_ns: 1000,
            duplex: true,
        };
        let budget = Bytes(u64::from(self.program.arena_pages) * self.page.get());
        Plan {
            origin: Origin {
                planner: "hand".into(),
                trace_digest: [0; 32],
                model: "hand-made".into(),
                policy: "hand".into(),
                budget,
                peak: budget,
                largest_op: Bytes(1),
                seed: 0,
                evaluations_max: 0,
            },
            profile: Profile {
                name: "test".into(),
                class: 'D',
                spill: lgm::profile::SpillTier::Host,
                link,
                page_bytes: self.page,
            },
            skeleton: self.skeleton,
            replays,
            program: self.program,
        }
    }
}

fn push_op(skeleton: &mut Skeleton, accesses: usize) {
    skeleton.ops.push(Op {
        name: format!("op{}", skeleton.ops.len()),
        duration_ns: 1000,
        first_access: skeleton.accesses.len() as u32,
        access_count: accesses as u32,
        replayable: false,
    });
}
