//! Contiguous plans: whole tensors at offsets of one window, proven, within the budget.
//!
//! Random steps, so that tensors of all sizes meet and lives wrap; every policy as published.

use lgm::planner::{self, Methods, PlanError, Planned, Request};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::synthetic::{Shape, training_step};
use lgm::verify::verify;
use vtensor::limits::TENSOR_ALIGN;
use vtensor::{Bytes, PageBytes, WindowId};

const SEEDS: u64 = 60;

fn contiguous() -> impl Iterator<Item = Policy> {
    Policy::ALL
        .into_iter()
        .filter(|policy| policy.is_contiguous())
}

fn profile(device: &str, page: u64) -> Profile {
    let profiles = Profiles::builtin();
    let mut profile = profiles.get("agx_orin").expect("is built in").clone();
    profile.name = device.into();
    profile.page_bytes = PageBytes::new(page).expect("a page");
    profile
}

/// What must hold of every contiguous program, whatever its policy.
fn check(planned: &Planned, budget: u64, title: &str) {
    let (skeleton, program) = (&planned.plan.skeleton, &planned.plan.program);
    verify(skeleton, program).unwrap_or_else(|violation| panic!("{title}: {violation}"));
    let arena = u64::from(program.arena_pages) * program.page_bytes.get();
    assert!(arena <= budget, "{title}: an arena of {arena} bytes");
    assert_eq!(
        (program.windows.len(), program.runs.len()),
        (1, 1),
        "{title}"
    );
    for place in &program.places {
        assert_eq!(place.window, WindowId(0), "{title}");
        assert!(place.offset.is_multiple_of(TENSOR_ALIGN), "{title}");
    }
    // What moves is whole.
    let outs = program.outs.iter().map(|out| (out.tensor, out.bytes));
    let ins = program.ins.iter().map(|copy| (copy.tensor, copy.bytes));
    for (tensor, bytes) in outs.chain(ins) {
        assert_eq!(bytes, skeleton.tensor(tensor).bytes, "{title}");
    }
    assert!(
        planned.page_overhead >= 0.99,
        "{title}: {}",
        planned.page_overhead
    );
    assert!(
        planned.timeline.iteration_ns >= skeleton.compute_ns(),
        "{title}"
    );
}

#[test]
fn random_steps_have_sound_contiguous_plans() {
    let (mut plans, mut moving, mut none) = (0, 0, 0);
    for seed in 0..SEEDS {
        let trace = training_step(seed, &Shape::SMALL);
        let device = &trace.devices()[0];
        let skeleton = trace.skeleton(device).expect("is generated");
        let profile = profile(device, 16 << 10);
        for percent in [100, 80, 60] {
            let budget = trace.peak_bytes().0 / 100 * percent;
            for policy in contiguous() {
                let request = Request {
                    skeleton: &skeleton,
                    profile: &profile,
                    budget: Bytes(budget),
                    policy,
                    methods: Methods::Swap,
                    page: None,
                    trace_digest: trace.digest(),
                    model: trace.model(),
                };
                match planner::plan(&request) {
                    Ok(planned) => {
                        check(
                            &planned,
                            budget,
                            &format!("seed {seed}, {percent} %, {policy}"),
                        );
                        plans += 1;
                        moving += u32::from(!planned.plan.program.outs.is_empty());
                    }
                    Err(PlanError::NoSchedule { .. } | PlanError::OpTooLarge { .. }) => none += 1,
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
        }
    }
    println!("{plans} plans, of which {moving} move something; {none} do not fit");
    assert!(moving > 500 && plans > none, "{moving} of {plans}, {none}");
}

/// vDNN's rule: the op behind the last reader waits until the feature map has left.
#[test]
fn vdnn_waits_for_every_copy_out() {
    let mut waits = 0;
    for seed in 0..SEEDS {
        let trace = training_step(seed, &Shape::SMALL);
        let device = &trace.devices()[0];
        let skeleton = trace.skeleton(device).expect("is generated");
        let profile = profile(device, 16 << 10);
        let request = Request {
            skeleton: &skeleton,
            profile: &profile,
            budget: Bytes(trace.peak_bytes().0 / 100 * 90),
            policy: Policy::VdnnAll,
            methods: Methods::Swap,
            page: None,
            trace_digest: trace.digest(),
            model: trace.model(),
        };
        let Ok(planned) = planner::plan(&request) else {
            continue;
        };
        let steps = &planned.plan.program.steps;
        for pair in steps.windows(2) {
            assert!(
                pair[1].counts.out_needed >= pair[0].counts.out_released,
                "seed {seed}"
            );
        }
        waits += steps[steps.len() - 1].counts.out_released;
    }
    assert!(waits > 50, "{waits} copies out");
}

/// Where everything fits, nothing moves and nothing waits, although there are holes.
#[test]
fn enough_memory_costs_nothing() {
    let trace = training_step(7, &Shape::SMALL);
    let device = &trace.devices()[0];
    let skeleton = trace.skeleton(device).expect("is generated");
    let profile = profile(device, 16 << 10);
    for policy in contiguous() {
        let request = Request {
            skeleton: &skeleton,
            profile: &profile,
            budget: Bytes(trace.peak_bytes().0 * 2),
            policy,
            methods: Methods::Swap,
            page: None,
            trace_digest: trace.digest(),
            model: trace.model(),
        };
        let planned = planner::plan(&request).expect("it fits");
        check(&planned, request.budget.0, policy.name());
        // vDNN moves feature maps whether or not there is room.
        if !matches!(policy, Policy::VdnnAll | Policy::VdnnConv) {
            assert_eq!(
                planned.timeline.iteration_ns,
                skeleton.compute_ns(),
                "{policy}"
            );
        }
    }
}
