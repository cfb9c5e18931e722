//! What the planner makes: proven for every recorded step, within its promises, the same each time;
//! safe in every timing where all timings can be tried; and no fault planted in it goes unseen.

mod verify_common;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use lgm::bound::lower_bound_ns;
use lgm::planner::{Methods, PlanError, Planned, Request, plan};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::skeleton::Skeleton;
use lgm::synthetic::{Shape, training_step};
use lgm::trace::{self, Trace};
use lgm::verify::{Rule, verify};
use vtensor::{Bytes, PageBytes};

use verify_common::brute::{Engines, Outcome, search};
use verify_common::mutate::mutations;

fn traces() -> Vec<(String, Trace)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let mut all: Vec<(String, Trace)> = std::fs::read_dir(folder)
        .expect("the traces come with the workspace")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|end| end == "gz"))
        .map(|path| {
            let name = path
                .file_name()
                .expect("a file")
                .to_string_lossy()
                .into_owned();
            let trace = trace::read(File::open(path).expect("a readable file"));
            (name, trace.expect("a sound trace"))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn planned(
    skeleton: &Skeleton,
    profile: &Profile,
    budget: u64,
    policy: Policy,
) -> Result<Planned, PlanError> {
    plan(&Request {
        skeleton,
        profile,
        budget: Bytes(budget),
        policy,
        methods: Methods::Swap,
        page: None,
        trace_digest: [0; 32],
        model: "",
    })
}

/// The budgets that are promised: shares of the peak of at least 1.25 times the largest op.
fn budgets(trace: &Trace) -> impl Iterator<Item = u64> {
    let (peak, largest) = (trace.peak_bytes().0, trace.largest_op().bytes.0);
    let shares = [100, 70, 50, 35].map(|percent| peak / 100 * percent);
    shares
        .into_iter()
        .filter(move |&budget| budget >= largest / 4 * 5)
}

#[test]
fn every_recorded_step_has_a_proven_plan_within_the_promises() {
    let mut plans = 0;
    for (name, trace) in traces() {
        for profile in Profiles::builtin().iter() {
            let skeleton = trace
                .skeleton(&profile.name)
                .expect("the traces know the devices");
            for budget in budgets(&trace) {
                let cell = format!("{name}, {}, {}", profile.name, Bytes(budget));
                let made = planned(&skeleton, profile, budget, Policy::Vtensor)
                    .unwrap_or_else(|error| panic!("{cell}: {error}"));
                let program = &made.plan.program;
                verify(&skeleton, program).unwrap_or_else(|violation| {
                    panic!("{cell}: {violation}");
                });
                let arena = u64::from(program.arena_pages) * program.page_bytes.get();
                assert!(arena <= budget, "{cell}: an arena of {arena} bytes");
                assert!(
                    made.timeline.steady,
                    "{cell}: no two iterations take the same time"
                );
                let bound = lower_bound_ns(&skeleton, &profile.link, Bytes(budget));
                let predicted = made.timeline.iteration_ns;
                assert!(
                    bound <= predicted,
                    "{cell}: {predicted} ns beats the bound {bound} ns"
                );
                plans += 1;
            }
        }
    }
    assert!(plans > 150, "{plans} plans");
}

#[test]
fn a_plan_is_a_function_of_its_inputs() {
    let (_, trace) = traces()
        .into_iter()
        .find(|(name, _)| name.contains("resnet18"))
        .expect("is");
    let profile = Profiles::builtin()
        .get("agx_orin")
        .expect("is built in")
        .clone();
    let skeleton = trace.skeleton("agx_orin").expect("is recorded");
    let budget = trace.peak_bytes().0 / 2;
    for policy in [
        Policy::None,
        Policy::Lru,
        Policy::LruPaged,
        Policy::Autoswap,
        Policy::Whole,
        Policy::WholePaged,
        Policy::Vtensor,
    ] {
        let twice = [(); 2].map(|()| planned(&skeleton, &profile, budget, policy).expect("fits"));
        assert!(twice[0].plan == twice[1].plan, "{policy}");
    }
}

/// Random steps whose plans are searched for harm.
const SEEDS: u64 = 1500;

/// Tiny random steps on tiny pages: every timing of every plan is tried.
#[test]
fn no_timing_harms_a_tiny_plan() {
    let (mut programs, mut searched) = (0, 0);
    for seed in 0..SEEDS {
        let shape = Shape {
            ops: 8,
            bytes_min: 2000,
            bytes_max: 14_000,
            ..Shape::SMALL
        };
        let trace = training_step(seed, &shape);
        let mut profile = Profiles::builtin()
            .get("rtx3060")
            .expect("is built in")
            .clone();
        profile.page_bytes = PageBytes::MIN;
        profile.name = trace.devices()[0].clone();
        let mut skeleton = trace.skeleton(&profile.name).expect("is generated");
        // The search looks at every unit that all sizes are made of: large ones are quick.
        let sizes = skeleton
            .tensors
            .iter_mut()
            .map(|tensor| &mut tensor.bytes.0);
        sizes.for_each(|bytes| *bytes = bytes.next_multiple_of(1024));
        for percent in [90, 50] {
            let budget = trace.peak_bytes().0 / 100 * percent;
            for policy in [
                Policy::Vtensor,
                Policy::WholePaged,
                Policy::LruPaged,
                Policy::Whole,
                Policy::Lru,
                Policy::Deepum,
            ] {
                let Ok(made) = planned(&skeleton, &profile, budget, policy) else {
                    continue;
                };
                let program = &made.plan.program;
                let case = format!("seed {seed}, {percent} %, {policy}");
                verify(&skeleton, program).unwrap_or_else(|violation| {
                    panic!("{case}: {violation}");
                });
                if program.outs.is_empty() && program.ins.is_empty() {
                    continue;
                }
                programs += 1;
                for engines in [Engines::Two, Engines::One] {
                    match search(&skeleton, program, engines, 2, 20_000) {
                        Outcome::Safe { .. } => searched += 1,
                        Outcome::Unknown => {}
                        Outcome::Harm(harm) => panic!("{case}: {harm}"),
                    }
                }
            }
        }
    }
    println!("{programs} plans that move something, {searched} searches complete");
    assert!(
        programs > 3000 && searched > 6000,
        "{programs} plans, {searched} searches"
    );
}

/// Faults planted in plans of real steps. Some harm nothing, such as one wait less where another
/// covers it; each kind is caught somewhere, and faults in what is copied and where are caught
/// always.
#[test]
fn faults_planted_in_real_plans_are_seen() {
    // A wait or a release may have room to spare, and another page may be just as free. What comes
    // back because it shares a page may leave again before it is used.
    const MAY_BE_HARMLESS: [&str; 11] = [
        "lose an in",
        "shift a page",
        "drop a wait for outs",
        "drop a wait for ins",
        "shorten an in's wait",
        "wait for more",
        "swap outs",
        "swap ins",
        "release outs earlier",
        "release ins earlier",
        "release later",
    ];
    let mut seen: BTreeMap<String, (u32, u32, BTreeMap<Rule, u32>)> = BTreeMap::new();
    for (name, trace) in traces() {
        if !["resnet18", "vgg16", "lstm", "squeezenet"]
            .iter()
            .any(|part| name.contains(part))
        {
            continue;
        }
        let profile = Profiles::builtin()
            .get("agx_orin")
            .expect("is built in")
            .clone();
        let skeleton = trace.skeleton("agx_orin").expect("is recorded");
        let budget = trace.peak_bytes().0 / 100 * 60;
        let made = planned(&skeleton, &profile, budget, Policy::Vtensor).expect("fits");
        for seed in 0..12 {
            for (fault, mutant) in mutations(&skeleton, &made.plan.program, seed) {
                let row = seen.entry(fault.clone()).or_default();
                row.0 += 1;
                match verify(&skeleton, &mutant) {
                    Ok(_) => assert!(
                        MAY_BE_HARMLESS.contains(&fault.as_str()),
                        "{name}, seed {seed}: `{fault}` is not seen"
                    ),
                    Err(violation) => {
                        row.1 += 1;
                        *row.2.entry(violation.rule).or_default() += 1;
                    }
                }
            }
        }
    }
    for (fault, (planted, caught, rules)) in &seen {
        println!("{fault}: {caught} of {planted} refused, {rules:?}");
        // To release later costs time and nothing else.
        assert!(
            *caught > 0 || fault == "release later",
            "`{fault}` is never seen"
        );
    }
    assert!(seen.len() >= 20, "{} kinds of faults", seen.len());
}

#[test]
fn a_step_whose_ops_use_no_memory_is_refused() {
    let document = r#"{"header": {"schema": 1, "model": "m", "batch": 1, "optimizer": "none"},
        "tensors": [{"id": 0, "bytes": 3145728, "kind": "param", "persistent": true}],
        "ops": [{"name": "wait", "ph": "fwd", "reads": [], "writes": [], "allocs": [],
                 "frees": [], "dur_us": {"a": 1}}]}"#;
    let skeleton = trace::read(document.as_bytes())
        .expect("sound")
        .skeleton("a")
        .expect("it has durations");
    let profiles = Profiles::builtin();
    let profile = profiles.get("rtx3060").expect("built in");
    let refused = planned(&skeleton, profile, 3 << 20, Policy::Vtensor);
    let error = refused.expect_err("there is nothing to plan").to_string();
    assert!(error.contains("nothing to plan"), "{error}");
}
