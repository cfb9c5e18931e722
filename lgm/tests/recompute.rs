//! Running ops again: scripts give every op what it would find without them, V13 proves that, and
//! mixed plans keep their promises on the recorded steps.
//!
//! Whether a script is right is found out by computing with it: a content is a number, an op makes
//! numbers of numbers, and one that may not run again makes other ones each time. That shares
//! nothing with V13.

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use fastrand::Rng;
use lgm::plan::Plan;
use lgm::planner::{Methods, PlanError, Planned, Request, plan};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::recompute::{History, Script, rewrite, trajectory};
use lgm::skeleton::Skeleton;
use lgm::synthetic::{Shape, training_step};
use lgm::trace;
use lgm::verify::{Rule, verify_plan};
use vtensor::{Bytes, Mode, OpIndex, PageBytes, StepKind, TensorId};

/// An iteration of random ops, of which so many of 100 may run again.
fn iteration(seed: u64, replayable_percent: u8) -> Skeleton {
    let shape = Shape {
        bytes_min: 1 << 16,
        bytes_max: 1 << 20,
        ..Shape::SMALL
    };
    let trace = training_step(seed, &shape);
    let mut skeleton = trace.skeleton(&trace.devices()[0]).expect("sound");
    let mut rng = Rng::with_seed(seed);
    for op in &mut skeleton.ops {
        op.replayable = rng.u8(0..100) < replayable_percent;
    }
    skeleton
}

/// What every op of the application reads in three iterations, and what persists.
fn computed(original: &Skeleton, steps: &Skeleton, kinds: &[StepKind]) -> Vec<u64> {
    let mut contents: Vec<u64> = (0..steps.tensors.len() as u64).collect();
    let (mut garbage, mut run, mut rerun) = (1_u64 << 62, 0, 1_u64 << 61);
    let mut seen = Vec::new();
    for _ in 0..3 {
        for (row, tensor) in steps.tensors.iter().enumerate() {
            if !tensor.persistent {
                garbage += 1;
                contents[row] = garbage;
            }
        }
        for (step, kind) in kinds.iter().enumerate() {
            let (op, app) = match *kind {
                StepKind::App(op) => (op, true),
                StepKind::Replay(op) => (op, false),
                _ => unreachable!("there are two kinds"),
            };
            let own = original.accesses_of(op);
            let now = steps.accesses_of(OpIndex::from_index(step));
            let content = |at: usize| contents[now[at].tensor.index()];
            let reads: Vec<u64> = (0..own.len())
                .filter(|&at| own[at].mode == Mode::Read)
                .map(content)
                .collect();
            if app {
                seen.extend(
                    (0..own.len())
                        .filter(|&at| own[at].mode.reads())
                        .map(content),
                );
            }
            let pure = original.ops[op.index()].replayable;
            let chance = match app {
                true => &mut run,
                false => &mut rerun,
            };
            *chance += 1;
            let chance = (!pure).then_some(*chance);
            let written: Vec<(TensorId, u64)> = (0..own.len())
                .filter(|&at| own[at].mode.writes())
                .map(|at| {
                    let before = (own[at].mode == Mode::ReadWrite).then(|| content(at));
                    let mut hash = DefaultHasher::new();
                    (op, at, &reads, before, chance).hash(&mut hash);
                    (now[at].tensor, hash.finish())
                })
                .collect();
            for (tensor, content) in written {
                contents[tensor.index()] = content;
            }
        }
        let persistent = steps.tensors.iter().zip(&contents);
        seen.extend(
            persistent
                .filter(|(t, _)| t.persistent)
                .map(|(_, content)| *content),
        );
    }
    seen
}

fn own_kinds(original: &Skeleton) -> Vec<StepKind> {
    let ops = 0..original.ops.len();
    ops.map(|op| StepKind::App(OpIndex::from_index(op)))
        .collect()
}

fn is_right(original: &Skeleton, steps: &Skeleton, kinds: &[StepKind]) -> bool {
    computed(original, original, &own_kinds(original)) == computed(original, steps, kinds)
}

fn profile() -> Profile {
    Profiles::builtin()
        .get("agx_orin")
        .expect("built in")
        .clone()
}

fn mixed(skeleton: &Skeleton, budget: u64, methods: Methods) -> Result<Planned, PlanError> {
    plan_on(&profile(), 4096, skeleton, budget, methods)
}

fn plan_on(
    profile: &Profile,
    page: u64,
    skeleton: &Skeleton,
    budget: u64,
    methods: Methods,
) -> Result<Planned, PlanError> {
    plan(&Request {
        skeleton,
        profile,
        budget: Bytes(budget),
        policy: Policy::Vtensor,
        methods,
        page: Some(PageBytes::new(page).expect("a power of two")),
        trace_digest: [0; 32],
        model: "",
    })
}

#[test]
fn every_script_of_a_trajectory_computes_what_the_iteration_does() {
    let (mut scripts, mut again) = (0, 0);
    for seed in 0..60 {
        let skeleton = iteration(seed, 80);
        let history = History::new(&skeleton);
        let peak = skeleton.live_bytes().into_iter().max().expect("ops");
        for given in trajectory(&history, peak / 2) {
            let Script { steps, kinds, .. } = given.script(&history);
            steps.check().expect("a sound skeleton");
            assert!(is_right(&skeleton, &steps, &kinds), "seed {seed}");
            scripts += 1;
            again += kinds.len() - skeleton.ops.len();
        }
    }
    assert!(
        scripts > 300 && again > 1000,
        "{scripts} scripts, {again} steps"
    );
}

#[test]
fn any_choice_that_can_be_made_again_is_right() {
    let mut right = 0;
    for seed in 0..200 {
        let skeleton = iteration(seed, 90);
        let history = History::new(&skeleton);
        let mut rng = Rng::with_seed(seed);
        let rows: BTreeSet<usize> = skeleton
            .accesses
            .iter()
            .enumerate()
            .filter(|(_, access)| {
                let transient = !skeleton.tensor(access.tensor).persistent;
                access.mode.reads() && transient && rng.u8(0..4) == 0
            })
            .map(|(row, _)| row)
            .collect();
        // Where some cannot be made again, those that can by themselves.
        let alone = |row: &usize| rewrite(&history, [*row]).is_some();
        let able: Vec<usize> = rows.into_iter().filter(alone).collect();
        if let Some(script) = rewrite(&history, able) {
            assert!(
                is_right(&skeleton, &script.steps, &script.kinds),
                "seed {seed}"
            );
            right += usize::from(script.kinds.len() > skeleton.ops.len());
        }
    }
    assert!(right > 30, "only {right} scripts ran an op again");
}

#[test]
fn no_fault_planted_in_what_runs_again_goes_unseen() {
    let (mut caught, mut harmless, mut by_v13) = (0, 0, 0);
    for seed in 0..80 {
        let skeleton = iteration(seed, 90);
        let peak = skeleton.live_bytes().into_iter().max().expect("ops");
        let Ok(planned) = mixed(&skeleton, peak / 10 * 8, Methods::Recompute) else {
            continue;
        };
        let plan = planned.plan;
        if plan.replays.is_none() {
            continue;
        }
        verify_plan(&plan).expect("a sound plan");
        let mut rng = Rng::with_seed(seed);
        for _ in 0..150 {
            let mut spoiled = plan.clone();
            if !spoil(&mut spoiled, &mut rng) {
                continue;
            }
            let original = &spoiled.replays.as_ref().expect("replays stay").original;
            let kinds: Vec<StepKind> = spoiled.program.steps.iter().map(|s| s.kind).collect();
            match verify_plan(&spoiled) {
                Err(violation) => {
                    caught += 1;
                    by_v13 += usize::from(violation.rule == Rule::V13);
                }
                // What is accepted must be right all the same: a spare step, an equal life.
                Ok(_) => {
                    assert!(is_right(original, &spoiled.skeleton, &kinds), "seed {seed}");
                    harmless += 1;
                }
            }
        }
    }
    assert!(
        caught > 800 && by_v13 > 500 && harmless < caught / 10,
        "{caught} caught, {by_v13} by V13, {harmless} harmless"
    );
}

/// Changes one thing about a step that runs an op again, or about the lives; `false` if there was
/// nothing to change.
fn spoil(plan: &mut Plan, rng: &mut Rng) -> bool {
    let replays = plan.replays.as_mut().expect("the caller looked");
    let steps = plan.program.steps.len();
    let again: Vec<usize> = (0..steps)
        .filter(|&step| matches!(plan.program.steps[step].kind, StepKind::Replay(_)))
        .collect();
    let step = again[rng.usize(0..again.len())];
    let StepKind::Replay(op) = plan.program.steps[step].kind else {
        unreachable!("only such steps were chosen");
    };
    let ops = replays.original.ops.len();
    match rng.u8(0..7) {
        0 => plan.program.steps[step].kind = StepKind::App(op),
        1 => {
            let other = OpIndex::from_index(rng.usize(0..ops));
            plan.program.steps[step].kind = StepKind::Replay(other);
            return other != op;
        }
        2 => replays.original.ops[op.index()].replayable = false,
        3 => {
            let row = rng.usize(0..replays.lives.len());
            let other = TensorId::from_index(rng.usize(0..replays.original.tensors.len()));
            let old = std::mem::replace(&mut replays.lives[row], other);
            return old != other;
        }
        4 => plan.program.steps.swap(step, (step + 1) % steps),
        // Another life of the same tensor, in a step that runs again or in one of the application.
        _ => {
            let step = if rng.bool() {
                step
            } else {
                rng.usize(0..steps)
            };
            let first = plan.skeleton.ops[step].first_access as usize;
            let count = plan.skeleton.ops[step].access_count as usize;
            if count == 0 {
                return false;
            }
            let access = &mut plan.skeleton.accesses[first + rng.usize(0..count)];
            let of = replays.lives[access.tensor.index()];
            let others = replays.lives.iter().enumerate();
            let others: Vec<usize> = others
                .filter(|&(row, life)| *life == of && row != access.tensor.index())
                .map(|(row, _)| row)
                .collect();
            if others.is_empty() {
                return false;
            }
            access.tensor = TensorId::from_index(others[rng.usize(0..others.len())]);
        }
    }
    true
}

#[test]
fn mixed_plans_of_recorded_steps_are_never_slower_than_either_method() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let mut gained = 0;
    for name in [
        "mobilenet_v2_b32_sgdm",
        "resnet18_b32_sgdm",
        "vgg16_b32_sgdm",
    ] {
        let file = File::open(folder.join(format!("{name}.json.gz"))).expect("it is there");
        let trace = trace::read(file).expect("a sound trace");
        for profile in Profiles::builtin().iter() {
            let skeleton = trace.skeleton(&profile.name).expect("known devices");
            let time = |methods| {
                let planned = plan(&Request {
                    skeleton: &skeleton,
                    profile,
                    budget: Bytes(trace.peak_bytes().0 / 100 * 70),
                    policy: Policy::Vtensor,
                    methods,
                    page: None,
                    trace_digest: trace.digest(),
                    model: trace.model(),
                });
                let planned = planned.ok()?;
                verify_plan(&planned.plan).expect("a sound plan");
                Some(planned.timeline.iteration_ns)
            };
            let both = time(Methods::Both).expect("swap alone has a plan");
            let swap = time(Methods::Swap).expect("swap alone has a plan");
            assert!(both <= swap, "{name}, {}: {both} {swap}", profile.name);
            gained += usize::from(both < swap);
            if let Some(recompute) = time(Methods::Recompute) {
                assert!(both <= recompute, "{name}, {}", profile.name);
            }
        }
    }
    assert!(gained >= 5, "only {gained} plans were faster");
}

#[test]
fn recomputing_alone_says_what_it_lacks() {
    // Nothing may run again.
    let skeleton = iteration(3, 0);
    let peak = skeleton.live_bytes().into_iter().max().expect("ops");
    let error = mixed(&skeleton, peak / 10 * 6, Methods::Recompute).expect_err("too little");
    assert!(matches!(error, PlanError::NotByRecompute { .. }), "{error}");
    assert!(error.to_string().contains("methods `both`"), "{error}");
}

/// Odd traces, pages and devices, at budgets down to a third of the peak: each plan is proven and
/// right, and with both methods no slower than with one.
#[test]
fn both_methods_are_never_slower_than_one() {
    let (mut planned, mut mixes) = (0, 0);
    // The last two once were slower: than by recomputing, and than whole tensors.
    for seed in (0..40).chain([100_571, 100_940]) {
        let mut rng = Rng::with_seed(seed);
        let page = *rng
            .choice(&[1 << 12, 1 << 14, 1 << 16, 1 << 18])
            .expect("some");
        let profiles = Profiles::builtin();
        let profiles: Vec<&Profile> = profiles.iter().collect();
        let profile = *rng.choice(&profiles).expect("built in");
        let replayable = *rng.choice(&[0, 50, 90, 100]).expect("some");
        let mut skeleton = iteration(seed, replayable);
        for tensor in &mut skeleton.tensors {
            tensor.fixed = rng.u8(0..30) == 0;
        }
        let slower = rng.u64(1..=8);
        for op in &mut skeleton.ops {
            op.duration_ns *= rng.u64(0..=slower);
        }
        let peak = skeleton.live_bytes().into_iter().max().expect("ops");
        let percent = rng.u64(30..=105);
        let budget = peak / 100 * percent;
        let made = Methods::ALL.map(|methods| {
            let made = plan_on(profile, page, &skeleton, budget, methods).ok()?;
            verify_plan(&made.plan).unwrap_or_else(|v| panic!("seed {seed}, {methods}: {v}"));
            let kinds: Vec<StepKind> = made.plan.program.steps.iter().map(|s| s.kind).collect();
            assert!(
                is_right(&skeleton, &made.plan.skeleton, &kinds),
                "seed {seed}"
            );
            planned += 1;
            mixes += usize::from(made.plan.replays.is_some());
            Some(made.timeline.iteration_ns)
        });
        let [swap, recompute, both] = made;
        for one in [swap, recompute].into_iter().flatten() {
            let both = both.unwrap_or_else(|| panic!("seed {seed}: both find nothing"));
            assert!(both <= one, "seed {seed}, {percent} %: {made:?}");
        }
    }
    assert!(
        planned > 60 && mixes > 5,
        "{planned} plans, {mixes} run ops again"
    );
}
