//! Plans made by hand: small programs whose every rule can be followed with a pencil.

use lgm::plan::{Origin, Plan};
use lgm::profile::{Link, Profile};
use lgm::program::{Home, Program, Step};
use lgm::skeleton::{Access, Op, Skeleton, Tensor};
use vtensor::{
    Bytes, In, Mode, OpIndex, Out, PageBytes, PageRun, PieceRun, Pieces, Place, StepCounts,
    StepKind, TensorId, TensorKind, Window, WindowId,
};

pub const PAGE: u64 = 4096;

/// Builds a plan step by step. Copies are released by the op before them.
pub struct Builder {
    page: PageBytes,
    skeleton: Skeleton,
    program: Program,
}

impl Builder {
    pub fn new(page: u64, arena_pages: u32) -> Self {
        let page = PageBytes::new(page).expect("tests use valid pages");
        Self {
            page,
            skeleton: Skeleton::default(),
            program: Program {
                page_bytes: page,
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
        });
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
        let end = (slot + bytes.0).next_multiple_of(PAGE);
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
        let index = self.skeleton.ops.len();
        self.skeleton.ops.push(Op {
            name: format!("op{index}"),
            duration_ns: 1000,
            first_access: self.skeleton.accesses.len() as u32,
            access_count: accesses.len() as u32,
        });
        self.program.steps.push(Step {
            kind: StepKind::App(OpIndex::from_index(index)),
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

    pub fn build(self) -> Plan {
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
                link,
                page_bytes: self.page,
            },
            skeleton: self.skeleton,
            program: self.program,
        }
    }
}

const fn at(place: Place, offset: u64) -> Place {
    Place {
        window: place.window,
        offset,
    }
}

/// Three tensors of one and a half pages, two frames: two tensors take turns in one frame, and
/// come back across the boundary.
pub fn swap(page: u64) -> Plan {
    let mut b = Builder::new(page, 4);
    let (f0, f1) = (b.window(&[3, 0]), b.window(&[1, 2]));
    let bytes = page + page / 2 + 3;
    let [a, c, d] = ["a", "c", "d"].map(|name| b.tensor(name, bytes, true));
    let (slot_a, slot_d) = (0, 2 * page);
    b.home(a, Some(f0), None);
    b.home(c, Some(f1), None);
    b.home(d, None, Some(slot_d));
    b.op((0, 0), &[(a, Mode::ReadWrite, f0)]);
    b.out(a, f0, slot_a);
    b.op((0, 0), &[(c, Mode::ReadWrite, f1)]);
    b.back(d, f0, slot_d, 1);
    b.op((1, 1), &[(d, Mode::ReadWrite, f0), (c, Mode::Read, f1)]);
    b.out(d, f0, slot_d);
    b.back(a, f0, slot_a, 2);
    b.build()
}

/// A tensor that is only read leaves its frame to a transient without an out, and returns.
pub fn clean_return(page: u64) -> Plan {
    let mut b = Builder::new(page, 4);
    let (f0, f1) = (b.window(&[0, 1]), b.window(&[2, 3]));
    let a = b.tensor("a", 2 * page - 1, true);
    let p = b.tensor("p", 2 * page, true);
    let t = b.tensor("t", page + 512, false);
    b.home(a, Some(f0), Some(0));
    b.home(p, Some(f1), None);
    b.op((0, 0), &[(a, Mode::Read, f0), (p, Mode::ReadWrite, f1)]);
    b.op((0, 0), &[(t, Mode::Write, f0)]);
    b.op((0, 0), &[(t, Mode::Read, f0), (p, Mode::ReadWrite, f1)]);
    b.back(a, f0, 0, 0);
    b.build()
}

/// A persistent tensor whose content is dead at the boundary shares its frame with a transient.
/// Nothing moves.
pub fn dead_at_home(page: u64) -> Plan {
    let mut b = Builder::new(page, 3);
    let (f0, f1) = (b.window(&[0]), b.window(&[1, 2]));
    let g = b.tensor("g", page, true);
    let p = b.tensor("p", page + 1, true);
    let t = b.tensor("t", page / 2, false);
    b.home(g, None, None);
    b.home(p, Some(f1), None);
    b.op((0, 0), &[(g, Mode::Write, f0)]);
    b.op((0, 0), &[(g, Mode::Read, f0), (p, Mode::ReadWrite, f1)]);
    b.op((0, 0), &[(t, Mode::Write, f0)]);
    b.op((0, 0), &[(t, Mode::Read, f0)]);
    b.build()
}

/// One piece of a tensor moves, the others stay: two windows share their pages.
pub fn one_piece(page: u64) -> Plan {
    let mut b = Builder::new(page, 4);
    let (w0, w2, w3) = (b.window(&[0, 1, 2]), b.window(&[0, 3, 2]), b.window(&[3]));
    let a = b.tensor("a", 3 * page - 512, true);
    let t = b.tensor("t", page, false);
    let middle = PieceRun { first: 1, count: 1 };
    b.home(a, Some(w2), None);
    b.op((0, 0), &[(a, Mode::ReadWrite, w2)]);
    b.out_pieces(a, middle, at(w2, page), 0);
    b.op((1, 0), &[(t, Mode::Write, w3)]);
    b.back_pieces(a, middle, (at(w0, page), 0), 1);
    b.op((1, 1), &[(a, Mode::ReadWrite, w0), (t, Mode::Read, w3)]);
    b.out_pieces(a, middle, at(w0, page), 0);
    b.back_pieces(a, middle, (at(w2, page), 0), 2);
    b.build()
}

/// Two small tensors share a page that a third one takes in turn.
pub fn shared_page(page: u64) -> Plan {
    let mut b = Builder::new(page, 1);
    let w = b.window(&[0]);
    let small = b.tensor("small", 500, true);
    let other = b.tensor("other", 700, true);
    let large = b.tensor("large", page, true);
    let (slot_small, slot_other, slot_large) = (0, PAGE, 2 * PAGE);
    b.home(small, Some(w), None);
    b.home(other, Some(at(w, 512)), None);
    b.home(large, None, Some(slot_large));
    let both = [
        (small, Mode::ReadWrite, w),
        (other, Mode::ReadWrite, at(w, 512)),
    ];
    b.op((0, 0), &both);
    b.out(small, w, slot_small);
    b.out(other, at(w, 512), slot_other);
    b.back(large, w, slot_large, 2);
    b.op((2, 1), &[(large, Mode::ReadWrite, w)]);
    b.out(large, w, slot_large);
    b.back(small, w, slot_small, 3);
    b.back(other, at(w, 512), slot_other, 3);
    b.build()
}

/// `tensors` tensors take turns in `frames` frames of two scattered pages, one op each. Every
/// tensor leaves and returns once; as many ins as there are frames cross the boundary.
pub fn rotation(page: u64, tensors: usize, frames: usize) -> Plan {
    assert!(
        tensors.is_multiple_of(frames),
        "so that every tensor keeps its frame"
    );
    let mut b = Builder::new(page, 2 * frames as u32);
    let places: Vec<Place> = (0..frames as u32)
        .map(|frame| b.window(&[2 * frames as u32 - 1 - frame, frame]))
        .collect();
    let ids: Vec<TensorId> = (0..tensors)
        .map(|i| {
            b.tensor(
                &format!("layer{i}.weight"),
                page + page / 4 + i as u64,
                true,
            )
        })
        .collect();
    let slot = |i: usize| i as u64 * 2 * page;
    for (i, &id) in ids.iter().enumerate() {
        if i < frames {
            b.home(id, Some(places[i]), None);
        } else {
            b.home(id, None, Some(slot(i)));
        }
    }
    for (i, &id) in ids.iter().enumerate() {
        let place = places[i % frames];
        let needed = i as i64 - frames as i64 + 1;
        b.op((needed, needed), &[(id, Mode::ReadWrite, place)]);
        b.out(id, place, slot(i));
        let next = (i + frames) % tensors;
        b.back(ids[next], place, slot(next), i as i64 + 1);
    }
    b.build()
}

/// As many steps as an iteration may want, without a copy: for what the step path itself costs.
pub fn resident(page: u64, ops: usize) -> Plan {
    let mut b = Builder::new(page, 2);
    let w = b.window(&[0, 1]);
    let [p, q] = ["p", "q"].map(|name| b.tensor(name, page, true));
    b.home(p, Some(w), None);
    b.home(q, Some(at(w, page)), None);
    for _ in 0..ops {
        b.op(
            (0, 0),
            &[(p, Mode::ReadWrite, w), (q, Mode::Read, at(w, page))],
        );
    }
    b.build()
}

/// The small plans by name.
pub fn all(page: u64) -> Vec<(&'static str, Plan)> {
    vec![
        ("swap", swap(page)),
        ("clean_return", clean_return(page)),
        ("dead_at_home", dead_at_home(page)),
        ("one_piece", one_piece(page)),
        ("shared_page", shared_page(page)),
        ("rotation", rotation(page, 12, 3)),
    ]
}
