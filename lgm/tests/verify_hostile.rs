//! The verifier on tables from anywhere: no panic, bounded time; and on tables of real size.

mod verify_common;

use std::time::Instant;

use fastrand::Rng;
use lgm::plan::Plan;
use lgm::planner::{Methods, Request, plan};
use lgm::policy::Policy;
use lgm::profile::Profiles;
use lgm::program::{Home, Program, Step};
use lgm::skeleton::{Access, Op, Skeleton, Tensor};
use lgm::synthetic::{Shape, training_step};
use lgm::verify::{Rule, verify, verify_plan};
use serde_json::Value;
use vtensor::{
    Bytes, In, Mode, OpIndex, Out, PageBytes, PageRun, PieceRun, Place, StepCounts, StepKind,
    TensorId, TensorKind, Window, WindowId,
};

use verify_common::build::PAGE;
use verify_common::{examples, random};

/// Numbers that break careless arithmetic.
const EXTREMES: &[i64] = &[
    i64::MIN,
    -(1 << 32),
    -1,
    0,
    1,
    255,
    4095,
    1 << 12,
    1 << 20,
    (1 << 24) + 1,
    (1 << 31) - 1,
    u32::MAX as i64,
    1 << 43,
    1 << 50,
    i64::MAX - 4095,
    i64::MAX,
];

/// Changes a few random leaves of a document: numbers to extremes, arrays in length.
fn garble(value: &mut Value, rng: &mut Rng) {
    match value {
        Value::Number(number) => {
            let any = *rng.choice(EXTREMES).expect("some");
            *number = if rng.u8(..8) == 0 {
                (u64::MAX - rng.u64(..2)).into()
            } else if rng.bool() {
                any.into()
            } else {
                number
                    .as_i64()
                    .unwrap_or(0)
                    .wrapping_add(rng.i64(-2..=2))
                    .into()
            };
        }
        Value::Array(rows) if !rows.is_empty() => match rng.u8(..12) {
            0 => rows.truncate(rng.usize(..rows.len())),
            1 => {
                let row = rng.usize(..rows.len());
                rows.push(rows[row].clone());
            }
            _ => {
                let row = rng.usize(..rows.len());
                garble(&mut rows[row], rng);
            }
        },
        Value::Object(fields) => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            if let Some(field) = rng.choice(&keys).and_then(|key| fields.get_mut(key)) {
                garble(field, rng);
            }
        }
        _ => {}
    }
}

#[test]
fn garbled_tables_get_a_verdict() {
    let mut cases: Vec<(Skeleton, Program)> = examples::all()
        .into_iter()
        .map(|(_, skeleton, program)| (skeleton, program))
        .collect();
    cases.extend((0..200).filter_map(|seed| random::program(&mut Rng::with_seed(seed))));
    let (mut read, mut accepted) = (0, 0);
    for (index, (skeleton, program)) in cases.iter().enumerate() {
        let program = serde_json::to_value(program).expect("plain data");
        let skeleton_value = serde_json::to_value(skeleton).expect("plain data");
        for round in 0..300 {
            let mut rng = Rng::with_seed(index as u64 * 1000 + round);
            let (mut program, mut skeleton) = (program.clone(), skeleton_value.clone());
            for _ in 0..rng.usize(1..=3) {
                let part = if rng.u8(..4) == 0 {
                    &mut skeleton
                } else {
                    &mut program
                };
                garble(part, &mut rng);
            }
            let program = serde_json::from_value::<Program>(program);
            let skeleton = serde_json::from_value::<Skeleton>(skeleton);
            let (Ok(program), Ok(skeleton)) = (program, skeleton) else {
                continue;
            };
            read += 1;
            accepted += usize::from(verify(&skeleton, &program).is_ok());
        }
    }
    assert!(read > 10_000 && accepted < read, "{accepted} of {read}");
    println!("{read} garbled tables, {accepted} accepted");
}

/// Plans that run ops again: the tables of lives and of the application's iteration too.
#[test]
fn garbled_replays_get_a_verdict() {
    let profiles = Profiles::builtin();
    let profile = profiles.get("agx_orin").expect("built in");
    let (mut read, mut accepted, mut by_v13) = (0, 0, 0);
    for seed in 0..20 {
        let shape = Shape {
            bytes_min: 1 << 16,
            bytes_max: 1 << 20,
            ..Shape::SMALL
        };
        let trace = training_step(seed, &shape);
        let mut skeleton = trace.skeleton(&trace.devices()[0]).expect("sound");
        skeleton.ops.iter_mut().for_each(|op| op.replayable = true);
        let peak = skeleton.live_bytes().into_iter().max().expect("ops");
        let planned = plan(&Request {
            skeleton: &skeleton,
            profile,
            budget: Bytes(peak / 10 * 8),
            policy: Policy::Vtensor,
            methods: Methods::Recompute,
            page: Some(PageBytes::MIN),
            trace_digest: [0; 32],
            model: "",
        });
        let Some(plan) = planned.ok().map(|p| p.plan).filter(|p| p.replays.is_some()) else {
            continue;
        };
        let whole = serde_json::to_value(&plan).expect("plain data");
        for round in 0..500 {
            let mut rng = Rng::with_seed(seed * 1000 + round);
            let mut garbled = whole.clone();
            for _ in 0..rng.usize(1..=3) {
                let part = *rng
                    .choice(&["replays", "replays", "skeleton", "program"])
                    .expect("some");
                if part == "program" && rng.bool() {
                    garble(&mut garbled[part]["steps"], &mut rng);
                } else {
                    garble(&mut garbled[part], &mut rng);
                }
            }
            let Ok(garbled) = serde_json::from_value::<Plan>(garbled) else {
                continue;
            };
            read += 1;
            match verify_plan(&garbled) {
                Ok(_) => {
                    // What follows a proof counts on it.
                    let _ = (garbled.recompute_ns(), garbled.recomputed());
                    accepted += 1;
                }
                Err(violation) => by_v13 += usize::from(violation.rule == Rule::V13),
            }
        }
    }
    println!("{read} garbled plans, {accepted} accepted, {by_v13} by V13");
    assert!(
        read > 1000 && accepted < read / 2 && by_v13 > 300,
        "{read} {accepted} {by_v13}"
    );
}

fn index(row: usize) -> u32 {
    u32::try_from(row).expect("small tests")
}

fn tensor(bytes: u64) -> Tensor {
    Tensor {
        name: String::new(),
        bytes: Bytes(bytes),
        kind: TensorKind::Activation,
        persistent: false,
        fixed: false,
    }
}

fn empty(arena_pages: u32, spill_bytes: u64) -> (Skeleton, Program) {
    let program = Program {
        page_bytes: PageBytes::MIN,
        piece_bytes: PageBytes::MIN,
        arena_pages,
        spill_bytes: Bytes(spill_bytes),
        steps: vec![],
        places: vec![],
        outs: vec![],
        ins: vec![],
        windows: vec![],
        runs: vec![],
        homes: Vec::<Home>::new(),
    };
    (Skeleton::default(), program)
}

fn push_step(skeleton: &mut Skeleton, program: &mut Program, accesses: &[(usize, Mode, u32)]) {
    let step = skeleton.ops.len();
    let first = index(skeleton.accesses.len());
    skeleton.ops.push(Op {
        name: String::new(),
        duration_ns: 1,
        first_access: first,
        access_count: index(accesses.len()),
        replayable: false,
    });
    for &(tensor, mode, window) in accesses {
        let tensor = TensorId::from_index(tensor);
        skeleton.accesses.push(Access { tensor, mode });
        program.places.push(start_of(window));
    }
    program.steps.push(Step {
        kind: StepKind::App(OpIndex::from_index(step)),
        counts: program
            .steps
            .last()
            .map_or(StepCounts::default(), |step| step.counts),
        first_place: first,
    });
}

fn start_of(window: u32) -> Place {
    Place {
        window: WindowId(window),
        offset: 0,
    }
}

/// Windows of one page each, and of each group of `size` pages backwards, so that no two of its
/// pages are neighbours. Page `p` has window `p`, group `g` has window `groups * size + g`.
fn scattered(program: &mut Program, groups: usize, size: usize) {
    for page in 0..groups * size {
        program.windows.push(Window {
            first_run: index(page),
            run_count: 1,
            pages: 1,
        });
        let (group, back) = (page / size, size - 1 - page % size);
        program.runs.push(PageRun {
            first: index(group * size + back),
            count: 1,
        });
    }
    for group in 0..groups {
        program.windows.push(Window {
            first_run: index(group * size),
            run_count: index(size),
            pages: index(size),
        });
    }
}

/// Each of 4000 tensors of 25 pages leaves piece by piece, makes room for another, and returns.
fn many_copies() -> (Skeleton, Program) {
    const GROUPS: usize = 4000;
    const SIZE: usize = 25;
    let (mut skeleton, mut program) = empty(index(GROUPS * SIZE), (GROUPS * SIZE) as u64 * PAGE);
    scattered(&mut program, GROUPS, SIZE);
    let pages = GROUPS * SIZE;
    for group in 0..GROUPS {
        let window = index(pages + group);
        skeleton
            .tensors
            .extend([tensor(SIZE as u64 * PAGE), tensor(SIZE as u64 * PAGE)]);
        let (own, guest) = (2 * group, 2 * group + 1);
        let copies = |count: usize| i64::try_from(count * SIZE).expect("small");
        push_step(&mut skeleton, &mut program, &[(own, Mode::Write, window)]);
        for piece in 0..SIZE {
            let page = group * SIZE + piece;
            program.outs.push(Out {
                tensor: TensorId::from_index(own),
                pieces: PieceRun {
                    first: index(piece),
                    count: 1,
                },
                bytes: Bytes(PAGE),
                source: start_of(index(page)),
                slot: page as u64 * PAGE,
            });
        }
        program
            .steps
            .last_mut()
            .expect("pushed")
            .counts
            .out_released = copies(group + 1);
        push_step(&mut skeleton, &mut program, &[(guest, Mode::Write, window)]);
        program.steps.last_mut().expect("pushed").counts.out_needed = copies(group + 1);
        for piece in 0..SIZE {
            let out = program.outs[group * SIZE + piece];
            program.ins.push(In {
                tensor: out.tensor,
                pieces: out.pieces,
                bytes: out.bytes,
                destination: out.source,
                slot: out.slot,
                after_out: copies(group + 1),
            });
        }
        program.steps.last_mut().expect("pushed").counts.in_released = copies(group + 1);
        push_step(&mut skeleton, &mut program, &[(own, Mode::Read, window)]);
        program.steps.last_mut().expect("pushed").counts.in_needed = copies(group + 1);
    }
    (skeleton, program)
}

/// 100 tensors of 500 scattered pages; each of 4000 steps writes three, and one piece of each is
/// copied out, so that every access has to look at all pages.
fn many_pages() -> (Skeleton, Program) {
    const GROUPS: usize = 100;
    const SIZE: usize = 500;
    let (mut skeleton, mut program) = empty(index(GROUPS * SIZE), 12_000 * PAGE);
    scattered(&mut program, GROUPS, SIZE);
    skeleton
        .tensors
        .extend((0..GROUPS).map(|_| tensor(SIZE as u64 * PAGE)));
    for step in 0..4000 {
        let mut accesses = Vec::new();
        for access in 0..3 {
            let group = (step * 3 + access) % GROUPS;
            let mode = if step * 3 + access < GROUPS {
                Mode::Write
            } else {
                Mode::ReadWrite
            };
            accesses.push((group, mode, index(GROUPS * SIZE + group)));
        }
        push_step(&mut skeleton, &mut program, &accesses);
        let released = i64::try_from(program.outs.len()).expect("small");
        program.steps.last_mut().expect("pushed").counts.out_needed = released;
        for &(group, _, window) in &accesses {
            program.outs.push(Out {
                tensor: TensorId::from_index(group),
                pieces: PieceRun { first: 0, count: 1 },
                bytes: Bytes(PAGE),
                source: start_of(window),
                slot: program.outs.len() as u64 * PAGE,
            });
        }
        program
            .steps
            .last_mut()
            .expect("pushed")
            .counts
            .out_released = released + 3;
    }
    (skeleton, program)
}

#[test]
fn tables_of_real_size_are_proven() {
    for (name, (skeleton, program)) in [("copies", many_copies()), ("pages", many_pages())] {
        let start = Instant::now();
        let facts = verify(&skeleton, &program).unwrap_or_else(|v| panic!("{name}: {v}"));
        println!("{name}: {:?}, {facts:?}", start.elapsed());
        assert_eq!(facts.pages_used, u64::from(program.arena_pages), "{name}");
    }
}

/// Two tensors of all pages, written in turn in the same scattered window: each step touches all
/// of them, and there is no end of steps. The proof gives up.
#[test]
fn too_much_work_is_refused() {
    const PAGES: usize = 100_000;
    let (mut skeleton, mut program) = empty(index(PAGES), 0);
    scattered(&mut program, 1, PAGES);
    skeleton
        .tensors
        .extend([tensor(PAGES as u64 * PAGE), tensor(PAGES as u64 * PAGE)]);
    for step in 0..20_000 {
        let access = (step % 2, Mode::Write, index(PAGES));
        push_step(&mut skeleton, &mut program, &[access]);
    }
    let start = Instant::now();
    let violation = verify(&skeleton, &program).expect_err("a proof of hours");
    println!("{:?}: {violation}", start.elapsed());
    assert_eq!(violation.rule, Rule::V12);
}
