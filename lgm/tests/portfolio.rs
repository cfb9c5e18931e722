//! Searches beyond the grid: never slower for it, and the same each time.

use std::fs::File;

use lgm::planner::{Methods, Planned, Request, plan, plan_with};
use lgm::policy::Policy;
use lgm::profile::Profiles;
use lgm::skeleton::Skeleton;
use lgm::trace::{self, Trace};
use lgm::tricks::Tricks;
use lgm::verify::{verify, verify_plan};
use vtensor::Bytes;

const DEVICE: &str = "rtx3060";

fn open(name: &str) -> (Trace, Skeleton) {
    let path = format!("{}/../traces/{name}.json.gz", env!("CARGO_MANIFEST_DIR"));
    let trace = trace::read(File::open(path).expect("it comes with the workspace"));
    let trace = trace.expect("a sound trace");
    let skeleton = trace.skeleton(DEVICE).expect("it has durations");
    (trace, skeleton)
}

fn request<'a>(
    profiles: &'a Profiles,
    trace: &Trace,
    skeleton: &'a Skeleton,
    policy: Policy,
) -> Request<'a> {
    Request {
        skeleton,
        profile: profiles.get(DEVICE).expect("built in"),
        budget: Bytes(trace.peak_bytes().0 / 100 * 70),
        policy,
        methods: Methods::Swap,
        page: None,
        trace_digest: [0; 32],
        model: "",
    }
}

fn planned(trace: &Trace, skeleton: &Skeleton, policy: Policy, tricks: Tricks) -> Planned {
    let profiles = Profiles::builtin();
    let request = request(&profiles, trace, skeleton, policy);
    let planned = plan_with(&request, tricks).expect("it has a plan");
    verify(skeleton, &planned.plan.program).expect("the plan holds");
    if tricks == Tricks::default() {
        let again = plan(&request).expect("it has a plan");
        assert_eq!(again.plan.program, planned.plan.program, "{policy}");
    }
    planned
}

#[test]
fn a_portfolio_that_runs_ops_again_beats_what_swaps() {
    let (trace, skeleton) = open("densenet121_b32_sgdm");
    let profiles = Profiles::builtin();
    let time = |policy, methods| {
        let planned = plan(&Request {
            methods,
            ..request(&profiles, &trace, &skeleton, policy)
        });
        let planned = planned.expect("it has a plan");
        verify_plan(&planned.plan).expect("the plan holds");
        planned.timeline.iteration_ns
    };
    let both = time(Policy::Portfolio, Methods::Both);
    assert!(both < time(Policy::Portfolio, Methods::Swap));
    // Its scripts are chosen by the planner's own schedules, so it may differ a little.
    let own = time(Policy::Vtensor, Methods::Both);
    assert!(both <= own + own / 100, "{both} ns over {own} ns");
}

#[test]
fn a_portfolio_is_as_fast_as_whatever_is_in_it() {
    // Few pages, many of which hold small tensors: whole tensors side by side do better.
    let (trace, skeleton) = open("lstm_lm_unrolled_b32_sgdm");
    let time = |policy, tricks| {
        let planned = planned(&trace, &skeleton, policy, tricks);
        planned.timeline.iteration_ns
    };
    let all = Tricks::default();
    let own = time(Policy::Vtensor, all);
    let paged = time(Policy::Vtensor, Tricks::without("packed").expect("a trick"));
    assert!(own <= paged && own <= time(Policy::Whole, all));
    let portfolio = time(Policy::Portfolio, all);
    for policy in [Policy::Autoswap, Policy::AutoswapPaged, Policy::Capuchin] {
        assert!(portfolio <= time(policy, all), "{policy}");
    }
    let unseeded = Tricks::without("seeds").expect("a trick");
    assert!(portfolio <= time(Policy::Portfolio, unseeded));
}

#[test]
fn local_search_and_other_ways_to_share_pages_save_time() {
    let (trace, skeleton) = open("squeezenet1_1_b32_sgdm");
    let time = |tricks| {
        let planned = planned(&trace, &skeleton, Policy::Vtensor, tricks);
        planned.timeline.iteration_ns
    };
    let all = time(Tricks::default());
    for name in ["local", "grounds"] {
        let without = time(Tricks::without(name).expect("a trick"));
        assert!(all < without, "{name}: {all} ns, {without} ns without");
    }
}
