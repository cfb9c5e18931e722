//! Random training steps: planned, proven and replayed. A failure names its seed; to run it alone:
//!
//! ```text
//! VTENSOR_SEED=17 cargo test -p vtensor-bench --test random -- --nocapture
//! ```

mod support;

use std::env;

use jetson_runtime::Spill;
use lgm::planner::{Methods, Request};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::synthetic::{Shape, training_step};
use support::{Fault, check_replay, in_parallel, prove};
use vtensor::{Bytes, PageBytes};

const SEEDS: u64 = 80;
const PERCENT: [u64; 4] = [100, 80, 60, 40];
/// The generator's sizes are around small pages, where tensors share pages and cross them.
const PAGE: u64 = 16 << 10;

/// What came of the budgets of one seed.
#[derive(Debug, Default)]
struct Tally {
    replayed: u32,
    too_small: u32,
}

fn work(seed: u64, profiles: &[Profile]) -> Result<Tally, Fault> {
    let trace = training_step(seed, &Shape::SMALL);
    let bug = |message: String| Fault::Bug(message);
    // The generator draws durations for devices of its own choice.
    let device = &trace.devices()[0];
    let skeleton = trace.skeleton(device).map_err(|e| bug(e.to_string()))?;
    let pick = usize::try_from(seed).expect("a small number");
    let mut tally = Tally::default();
    for (index, percent) in PERCENT.into_iter().enumerate() {
        for (turn, policy) in Policy::ALL.into_iter().enumerate() {
            // Of the published policies each seed meets a few.
            if policy.is_published() && policy != Policy::Lru && (pick + turn) % 5 != 0 {
                continue;
            }
            let budget = Bytes(trace.peak_bytes().0 / 100 * percent);
            let page = PAGE >> (seed % 3);
            let request = Request {
                skeleton: &skeleton,
                profile: &profiles[(pick + index) % profiles.len()],
                budget,
                policy,
                methods: Methods::Swap,
                page: Some(PageBytes::new(page).expect("a page")),
                trace_digest: trace.digest(),
                model: trace.model(),
            };
            let name = |fault| match fault {
                Fault::Bug(text) => bug(format!("{percent} % by {policy}: {text}")),
                fault => fault,
            };
            let (_, plan) = match prove(&request) {
                Ok(proven) => proven,
                // Rounding to pages can take more than such a budget has.
                Err(Fault::NoSchedule(_)) => {
                    tally.too_small += 1;
                    continue;
                }
                Err(Fault::Bug(text)) if text.starts_with("op ") => {
                    tally.too_small += 1;
                    continue;
                }
                Err(fault) => return Err(name(fault)),
            };
            let spill = match (pick + index) % 2 {
                0 => Spill::Ram,
                _ => Spill::File(env!("CARGO_TARGET_TMPDIR").into()),
            };
            check_replay(plan, spill, 3).map_err(name)?;
            tally.replayed += 1;
        }
    }
    Ok(tally)
}

#[test]
fn random_steps_plan_verify_and_replay() {
    let seeds: Vec<u64> = match env::var("VTENSOR_SEED") {
        Ok(seed) => vec![seed.parse().expect("VTENSOR_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    };
    let profiles: Vec<Profile> = Profiles::builtin().iter().cloned().collect();
    let results = in_parallel(&seeds, |&seed| work(seed, &profiles));
    let (mut replayed, mut too_small) = (0, 0);
    let mut bugs = Vec::new();
    for (seed, result) in seeds.iter().zip(results) {
        match result {
            Ok(tally) => {
                replayed += tally.replayed;
                too_small += tally.too_small;
            }
            Err(fault) => bugs.push(format!("VTENSOR_SEED={seed}: {fault:?}")),
        }
    }
    println!("{replayed} replayed, {too_small} refused as too small");
    assert!(
        bugs.is_empty(),
        "{} seeds:\n{}",
        bugs.len(),
        bugs.join("\n")
    );
    assert!(
        replayed > too_small,
        "{replayed} replayed, {too_small} refused: the budgets are too small to say much"
    );
}
