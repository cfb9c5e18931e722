//! Each rule has its verdict: valid programs are accepted, and each kind of fault is called by
//! the name of the rule that it breaks.

mod verify_common;

use lgm::plan::{Origin, Plan};
use lgm::profile::{Link, Profile};
use lgm::program::Program;
use lgm::skeleton::Skeleton;
use lgm::verify::{At, Rule, VerifiedPlan, verify};
use vtensor::{Bytes, OpIndex, PageBytes, StepIndex, StepKind, TensorId, WindowId};

use verify_common::brute::{Engines, Outcome, search};
use verify_common::build::{Builder, PAGE, R, RW, W, pieces};
use verify_common::examples;

type Case = (Skeleton, Program);

/// A valid program, once spoiled, gets this verdict, and if `harmful`, some timing does harm.
#[track_caller]
fn refused(mut case: Case, spoil: impl FnOnce(&mut Program), rule: Rule, at: At, harmful: bool) {
    if let Err(violation) = verify(&case.0, &case.1) {
        panic!("before it is spoiled: {violation}");
    }
    spoil(&mut case.1);
    verdict(&case, rule, at, harmful);
}

/// A program gets this verdict, and if `harmful`, some timing of it does harm.
#[track_caller]
fn verdict((skeleton, program): &Case, rule: Rule, at: At, harmful: bool) {
    let violation = verify(skeleton, program).expect_err("a spoiled program");
    assert_eq!((violation.rule, violation.at), (rule, at), "{violation}");
    assert_eq!(harms(skeleton, program), harmful, "{violation}");
}

/// Whether any timing of up to three iterations does harm.
fn harms(skeleton: &Skeleton, program: &Program) -> bool {
    let mut outcomes = [Engines::One, Engines::Two]
        .into_iter()
        .flat_map(|engines| (1..=3).map(move |n| search(skeleton, program, engines, n, 200_000)));
    outcomes.any(|outcome| match outcome {
        Outcome::Harm(_) => true,
        Outcome::Safe { .. } => false,
        Outcome::Unknown => panic!("an example is too large"),
    })
}

fn step(index: u32) -> At {
    At::Step(StepIndex(index))
}

#[test]
fn examples_are_accepted_and_safe() {
    for (name, skeleton, program) in examples::all() {
        let facts = verify(&skeleton, &program).unwrap_or_else(|v| panic!("{name}: {v}"));
        assert!(facts.pages_used <= u64::from(program.arena_pages), "{name}");
        assert!(!harms(&skeleton, &program), "{name}");
    }
}

#[test]
fn facts_are_what_they_say() {
    let (skeleton, program) = examples::new_window();
    let facts = verify(&skeleton, &program).expect("a valid example");
    assert_eq!(facts.pages_used, 3);
    assert_eq!(facts.spill_used, Bytes(PAGE));
    assert_eq!(facts.step_bytes_max, Bytes(2 * PAGE));
    assert_eq!((facts.outs_pending_max, facts.ins_pending_max), (0, 1));
}

#[test]
fn v1_counts() {
    // Something is never released.
    let spoil = |p: &mut Program| {
        for step in &mut p.steps {
            step.counts.in_released = 0;
        }
    };
    refused(examples::round_trip(), spoil, Rule::V1, step(3), true);
    // Taking back a release means nothing.
    let spoil = |p: &mut Program| p.steps[2].counts.out_released = 0;
    refused(examples::round_trip(), spoil, Rule::V1, step(2), false);
    // Waiting for less than a step before is no harm, but no meaning either.
    let spoil = |p: &mut Program| p.steps[3].counts.out_needed = 0;
    refused(examples::round_trip(), spoil, Rule::V1, step(3), false);
    let spoil = |p: &mut Program| p.steps[0].counts.in_needed = -2;
    refused(examples::prefetch(), spoil, Rule::V1, step(0), true);
    let spoil = |p: &mut Program| p.steps[0].counts.in_needed = i64::MIN;
    refused(examples::prefetch(), spoil, Rule::V1, step(0), true);
    let spoil = |p: &mut Program| p.ins[1].after_out = 0;
    refused(examples::slot_reused(), spoil, Rule::V1, At::In(1), true);
}

#[test]
fn v2_step_order() {
    let spoil = |p: &mut Program| p.steps[2].counts.in_released = 0;
    refused(examples::round_trip(), spoil, Rule::V2, step(3), true);
}

#[test]
fn v3_copy_order() {
    let spoil = |p: &mut Program| {
        for step in &mut p.steps[..3] {
            step.counts.out_released = 0;
        }
        for step in &mut p.steps {
            step.counts.out_needed = 0;
        }
    };
    refused(examples::round_trip(), spoil, Rule::V3, At::In(0), true);
}

#[test]
fn v5_occupancy() {
    // The page is taken while the out still reads it.
    let spoil = |p: &mut Program| {
        p.steps[2].counts.out_needed = 0;
        p.steps[3].counts.out_needed = 0;
    };
    refused(examples::round_trip(), spoil, Rule::V5, step(2), true);
    // The same by an in, which fills another slot's content.
    let mut b = Builder::new(1, 2);
    let (a, c) = (b.persistent(PAGE), b.persistent(PAGE));
    let page = b.at(&[0]);
    b.step(&[(a, RW, page)]);
    b.out(a, pieces(0, 1), page, 0);
    b.copy_in(c, pieces(0, 1), page, PAGE, 1);
    b.step(&[(c, R, page)]);
    b.needs(0, 1);
    b.copy_in(a, pieces(0, 1), page, 0, 1);
    b.home(a, pieces(0, 1), Some(page), None);
    b.home(c, pieces(0, 1), None, Some(PAGE));
    let spoil = |p: &mut Program| p.ins[0].after_out = 0;
    refused(b.finish(), spoil, Rule::V5, At::In(0), true);
    // The page is taken while an in still writes it.
    let spoil = |p: &mut Program| {
        for step in &mut p.steps {
            step.counts.in_released = 1;
        }
    };
    refused(examples::clean_return(), spoil, Rule::V5, step(1), true);
    // The page is taken from a tensor that has no other copy.
    let mut b = Builder::new(2, 1);
    let (a, c) = (b.transient(PAGE), b.persistent(PAGE));
    let (first, second) = (b.at(&[0]), b.at(&[1]));
    b.step(&[(a, W, first)]);
    b.copy_in(c, pieces(0, 1), second, 0, 0);
    b.step(&[(a, R, first)]);
    b.step(&[(c, R, second)]);
    b.needs(0, 1);
    b.home(c, pieces(0, 1), None, Some(0));
    let spoil = |p: &mut Program| {
        p.ins[0].destination = p.places[1];
        p.places[2] = p.places[1];
    };
    refused(b.finish(), spoil, Rule::V5, At::In(0), true);
}

#[test]
fn v6_residency() {
    // The in is not waited for.
    let spoil = |p: &mut Program| p.steps[2].counts.in_needed = 0;
    refused(examples::clean_return(), spoil, Rule::V6, step(2), true);
    // The window shows a page that the piece was not brought to.
    let spoil = |p: &mut Program| p.places[2] = p.places[0];
    refused(examples::new_window(), spoil, Rule::V6, step(2), true);
    // There is no in at all.
    let spoil = |p: &mut Program| {
        p.ins.clear();
        for step in &mut p.steps {
            step.counts.in_needed = 0;
            step.counts.in_released = 0;
        }
    };
    refused(examples::clean_return(), spoil, Rule::V6, step(2), true);
}

#[test]
fn v7_versions() {
    // The in does not wait for the out that fills its slot.
    let spoil = |p: &mut Program| p.ins[0].after_out = 0;
    refused(examples::new_window(), spoil, Rule::V7, At::In(0), true);
    // A write does not wait for the out that still reads the piece.
    let (mut skeleton, program) = examples::round_trip();
    skeleton.accesses[1].mode = RW;
    verdict(&(skeleton, program), Rule::V7, step(1), true);
    // An out reads from where the piece is not.
    let spoil = |p: &mut Program| p.outs[0].source = p.places[0];
    refused(examples::new_window(), spoil, Rule::V7, At::Out(0), true);
    // A slot that nothing was written to.
    let spoil = |p: &mut Program| {
        p.spill_bytes = Bytes(2 * PAGE);
        p.ins[0].slot = PAGE;
    };
    refused(examples::round_trip(), spoil, Rule::V7, At::In(0), true);
}

#[test]
fn v8_slots() {
    // Two outs to one slot are under way at once. That they start in order is not enough.
    let spoil = |p: &mut Program| p.outs[1].slot = 0;
    refused(examples::regroup(), spoil, Rule::V8, At::Out(1), true);
    // The slot is overwritten while an in may still read it.
    let spoil = |p: &mut Program| {
        p.steps[0].counts.out_released = 1;
        p.steps[1].counts.out_released = 2;
    };
    refused(examples::slot_reused(), spoil, Rule::V8, At::Out(1), true);
    // The slot is overwritten while its content is needed again.
    let mut b = Builder::new(2, 2);
    let (a, c) = (b.persistent(PAGE), b.transient(PAGE));
    let (first, second) = (b.at(&[0]), b.at(&[1]));
    b.step(&[(c, W, second)]);
    b.out(c, pieces(0, 1), second, PAGE);
    b.copy_in(a, pieces(0, 1), first, 0, 1);
    b.step(&[(a, R, first)]);
    b.needs(1, 1);
    b.home(a, pieces(0, 1), None, Some(0));
    let spoil = |p: &mut Program| p.outs[0].slot = 0;
    refused(b.finish(), spoil, Rule::V8, At::Out(0), true);
    // Two homes in one slot.
    let spoil = |p: &mut Program| p.homes[1].slot = p.homes[0].slot;
    refused(examples::prefetch(), spoil, Rule::V8, At::Home(1), true);
}

#[test]
fn v9_stale_copies() {
    // The tensor is written after its out; the copy returns all the same.
    let (mut skeleton, mut program) = examples::round_trip();
    skeleton.accesses[1].mode = RW;
    program.steps[1].counts.out_needed = 1;
    verdict(&(skeleton, program), Rule::V9, At::In(0), true);
}

#[test]
fn v10_budget() {
    let spoil = |p: &mut Program| p.arena_pages = 2;
    refused(examples::new_window(), spoil, Rule::V10, At::Table, true);
    // Two tensors of a step in one page.
    let spoil = |p: &mut Program| p.places[3] = p.places[2];
    refused(examples::prefetch(), spoil, Rule::V10, step(2), true);
    let spoil = |p: &mut Program| p.places[1] = p.places[0];
    refused(examples::still(), spoil, Rule::V10, step(0), true);
    // One tensor twice in one page.
    let mut b = Builder::new(2, 0);
    let a = b.transient(2 * PAGE);
    let twice = b.at(&[1, 1]);
    b.step(&[(a, W, twice)]);
    verdict(&b.finish(), Rule::V10, step(0), true);
    let mut b = Builder::new(2, 2);
    let a = b.persistent(2 * PAGE);
    let twice = b.at(&[1, 1]);
    let t = b.transient(PAGE);
    let page = b.at(&[0]);
    b.step(&[(t, W, page)]);
    b.copy_in(a, pieces(0, 2), twice, 0, 0);
    b.home(a, pieces(0, 2), None, Some(0));
    verdict(&b.finish(), Rule::V10, At::In(0), true);
    // Two homes in one page.
    let spoil = |p: &mut Program| p.homes[1].place = p.homes[0].place;
    refused(examples::prefetch(), spoil, Rule::V10, At::Home(1), true);
}

#[test]
fn v11_boundary() {
    // HOME names a copy that the iteration leaves stale.
    let spoil = |p: &mut Program| {
        p.spill_bytes = Bytes(2 * PAGE);
        p.homes[0].slot = Some(PAGE);
    };
    refused(examples::round_trip(), spoil, Rule::V11, At::Home(0), true);
    // HOME names no copy of what is read next.
    let spoil = |p: &mut Program| p.homes[0].place = None;
    refused(examples::round_trip(), spoil, Rule::V11, At::Home(0), true);
    // The tensor ends elsewhere.
    let (skeleton, mut program) = examples::nowhere();
    program.homes[0].place = Some(program.places[0]);
    verdict(&(skeleton, program), Rule::V11, At::Home(0), true);
}

#[test]
fn v12_bounds() {
    let case = examples::round_trip;
    let spoil = |p: &mut Program| p.outs[0].bytes = Bytes(PAGE / 2);
    refused(case(), spoil, Rule::V12, At::Out(0), true);
    let spoil = |p: &mut Program| p.ins[0].pieces.count = 2;
    refused(case(), spoil, Rule::V12, At::In(0), false);
}

/// Faults of the tables that no executor could run; the place that the verdict names.
#[test]
fn v12_tables() {
    type Spoil = fn(&mut Program);
    let faults: &[(Spoil, At)] = &[
        (|p| p.outs[0].tensor = TensorId(9), At::Out(0)),
        (|p| p.outs[0].source.window = WindowId(1), At::Out(0)),
        (|p| p.outs[0].source.offset = 512, At::Out(0)),
        (|p| p.outs[0].source.offset = u64::MAX - 511, At::Out(0)),
        (|p| p.outs[0].slot = 512, At::Out(0)),
        (|p| p.outs[0].slot = PAGE, At::Out(0)),
        (|p| p.outs[0].slot = u64::MAX - 4095, At::Out(0)),
        (|p| p.ins[0].pieces = pieces(0, 0), At::In(0)),
        (|p| p.ins[0].pieces = pieces(u32::MAX, u32::MAX), At::In(0)),
        (|p| p.places[0].offset = 256, step(0)),
        (|p| p.places[0].window = WindowId(u32::MAX), step(0)),
        (|p| p.places.truncate(3), At::Table),
        (|p| p.steps[1].first_place = 0, step(1)),
        (|p| p.steps[1].kind = StepKind::App(OpIndex(0)), step(1)),
        (|p| p.steps.truncate(3), At::Table),
        (|p| p.windows[0].pages = 2, At::Table),
        (|p| p.windows[0].run_count = u32::MAX, At::Table),
        (|p| p.windows[0].first_run = u32::MAX, At::Table),
        (|p| p.runs[0].count = 0, At::Table),
        (|p| p.arena_pages = u32::MAX, At::Table),
        (|p| p.spill_bytes = Bytes(u64::MAX), At::Table),
        (|p| p.homes.clear(), At::Table),
        (|p| p.homes.push(p.homes[0]), At::Home(1)),
        (|p| p.homes[0].tensor = TensorId(1), At::Home(0)),
        (|p| p.homes[0].slot = Some(1), At::Home(0)),
    ];
    for (row, (spoil, at)) in faults.iter().enumerate() {
        let (skeleton, mut program) = examples::round_trip();
        spoil(&mut program);
        let violation = verify(&skeleton, &program).expect_err("a spoiled table");
        assert_eq!(
            (violation.rule, violation.at),
            (Rule::V12, *at),
            "{row}: {violation}"
        );
    }
    let (mut skeleton, program) = examples::round_trip();
    skeleton.accesses[2].tensor = TensorId(0);
    assert_eq!(
        verify(&skeleton, &program).map_err(|v| v.rule),
        Err(Rule::V12)
    );
}

/// Offsets are whole 4096ths of a page, so that a run on scaled pages is exact.
#[test]
fn v12_alignment_grows_with_the_page() {
    for (offset, fits) in [(0, true), (512, false), (1024, false), (2048, true)] {
        let mut b = Builder::new(1, 0);
        b.program.page_bytes = PageBytes::new(8 << 20).expect("a power of two");
        let a = b.transient(1024);
        let place = b.place(&[0], offset);
        b.step(&[(a, W, place)]);
        let (skeleton, program) = b.finish();
        let verdict = verify(&skeleton, &program)
            .map(|_| ())
            .map_err(|v| (v.rule, v.at));
        let expected = if fits {
            Ok(())
        } else {
            Err((Rule::V12, step(0)))
        };
        assert_eq!(verdict, expected, "offset {offset}");
    }
}

/// Only a proof makes a verified plan.
#[test]
fn a_plan_is_verified_or_comes_back_as_a_violation() {
    let (skeleton, program) = examples::round_trip();
    let plan = Plan {
        origin: Origin {
            planner: String::new(),
            trace_digest: [0; 32],
            model: String::new(),
            policy: String::new(),
            budget: Bytes(PAGE),
            peak: Bytes(PAGE),
            largest_op: Bytes(PAGE),
            seed: 0,
            evaluations_max: 0,
        },
        profile: Profile {
            name: String::new(),
            class: 'A',
            spill: lgm::profile::SpillTier::Storage,
            link: Link {
                out_bps: 1.0,
                in_bps: 1.0,
                copy_latency_ns: 0,
                duplex: true,
            },
            page_bytes: program.page_bytes,
        },
        skeleton,
        replays: None,
        program,
    };
    let verified = VerifiedPlan::new(plan.clone()).expect("a valid example");
    assert_eq!(verified.facts().pages_used, 1);
    assert_eq!(verified.program, plan.program);
    let mut plan = verified.into_inner();
    plan.program.ins[0].after_out = 0;
    plan.program.steps[2].counts.out_needed = 0;
    plan.program.steps[3].counts.out_needed = 0;
    let violation = VerifiedPlan::new(plan).expect_err("a spoiled plan");
    assert!(
        violation
            .to_string()
            .starts_with("V5 occupancy at step 2: "),
        "{violation}"
    );
}
