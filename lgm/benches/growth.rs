//! How the time of planning and of proving grows with the step, in seconds.
//!
//! `cargo bench -p lgm`. Random steps, each of twice as many ops as the one before, at half of
//! their memory on AGX Orin: the best of three runs. The goal is below 10 s for 10,000 ops by
//! swapping.

use std::time::Instant;

use lgm::planner::{Methods, PlanError, Planned, Request, plan};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::skeleton::Skeleton;
use lgm::synthetic::{Shape, training_step};
use lgm::verify::verify_plan;
use vtensor::Bytes;

const DEVICE: &str = "agx_orin";
const OPS: [usize; 5] = [625, 1_250, 2_500, 5_000, 10_000];
const RUNS: usize = 3;

fn main() {
    let profiles = Profiles::builtin();
    let profile = profiles.get(DEVICE).expect("it is built in");
    println!("   ops  accesses  swap s (x)       both s (x)       proof s (x)");
    let mut before: Option<[f64; 3]> = None;
    for ops in OPS {
        let skeleton = step(ops);
        let (swap_s, swapping) = best(|| planned(&skeleton, profile, Methods::Swap));
        let (both_s, both) = best(|| planned(&skeleton, profile, Methods::Both));
        both.expect("swapping alone has a plan");
        let swapping = swapping.expect("half of the memory is enough");
        let (proof_s, proof) = best(|| verify_plan(&swapping.plan));
        proof.expect("a plan that was made holds");
        let now = [swap_s, both_s, proof_s];
        let cells = now.iter().enumerate().map(|(column, seconds)| {
            let grown = before.map(|before| seconds / before[column]);
            let grown = grown.map_or(String::new(), |grown| format!("({grown:.1})"));
            format!("{seconds:7.3} {grown:<8}")
        });
        let cells: Vec<String> = cells.collect();
        println!(
            "{ops:6}  {:8}  {}",
            skeleton.accesses.len(),
            cells.join(" ")
        );
        before = Some(now);
    }
}

/// A random step, of which every op may run again.
fn step(ops: usize) -> Skeleton {
    let shape = Shape {
        ops,
        ..Shape::LARGE
    };
    let trace = training_step(1, &shape);
    let mut skeleton = trace.skeleton(DEVICE).expect("random steps have its times");
    skeleton.ops.iter_mut().for_each(|op| op.replayable = true);
    skeleton
}

fn planned(skeleton: &Skeleton, profile: &Profile, methods: Methods) -> Result<Planned, PlanError> {
    let peak = skeleton.live_bytes().into_iter().max();
    plan(&Request {
        skeleton,
        profile,
        budget: Bytes(peak.expect("it has ops") / 2),
        policy: Policy::Vtensor,
        methods,
        page: None,
        trace_digest: [0; 32],
        model: "",
    })
}

/// The shortest of some runs, in seconds, and what it returns.
fn best<T>(run: impl Fn() -> T) -> (f64, T) {
    let runs = (0..RUNS).map(|_| {
        let start = Instant::now();
        let result = run();
        (start.elapsed().as_secs_f64(), result)
    });
    runs.min_by(|(a, _), (b, _)| a.total_cmp(b)).expect("runs")
}
