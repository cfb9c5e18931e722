//! Every trace, at four budgets, on every device: planned, proven, replayed at the smallest size.
//!
//! `cargo test` runs a spread of the cells in which every trace meets every budget, and every
//! policy and device occurs with both spill tiers. The complete matrix, some ten times as much:
//!
//! ```text
//! VTENSOR_MATRIX=full cargo test --release -p vtensor-bench --test matrix -- --nocapture
//! ```

mod support;

use std::collections::BTreeMap;
use std::env;
use std::time::Instant;

use jetson_runtime::Spill;
use lgm::planner::{Methods, Request};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::skeleton::Skeleton;
use lgm::trace::Trace;
use support::{Fault, check_replay, in_parallel, prove, traces};
use vtensor::Bytes;
use vtensor_bench::trace_file;

const PERCENT: [u64; 4] = [100, 70, 50, 35];

/// Iterations of each replay: the second begins where the first left everything.
const STEPS: u32 = 2;

struct Cell<'a> {
    name: &'a str,
    trace: &'a Trace,
    profile: &'a Profile,
    percent: u64,
    policy: Policy,
    methods: Methods,
    tiers: Vec<Spill>,
}

impl Cell<'_> {
    fn budget(&self) -> Bytes {
        Bytes(self.trace.peak_bytes().0 / 100 * self.percent)
    }

    /// Whether the matrix promises that the cell works.
    fn promised(&self) -> bool {
        self.budget().0 / 5 * 4 >= self.trace.largest_op().bytes.0
    }

    fn title(&self) -> String {
        let Self {
            name,
            profile,
            percent,
            policy,
            methods,
            ..
        } = self;
        format!(
            "{name} {percent} % on {} by {policy}, {methods}",
            profile.name
        )
    }
}

/// What a cell came to.
struct Worked {
    ratio: f64,
    recomputed: Bytes,
    page_overhead: f64,
}

/// Does a cell, and prints at once what it came to.
fn work(cell: &Cell<'_>) -> Result<Worked, Fault> {
    let start = Instant::now();
    let result = plan_and_replay(cell);
    let (title, seconds) = (cell.title(), start.elapsed().as_secs_f64());
    match &result {
        Ok(Worked {
            ratio,
            recomputed,
            page_overhead,
        }) => println!(
            "{title}: ratio {ratio:.3}, {recomputed} made again, pages {page_overhead:.4}, \
             {seconds:.2} s"
        ),
        Err(fault) => println!("{title}: {fault:?}, {seconds:.2} s"),
    }
    result
}

fn plan_and_replay(cell: &Cell<'_>) -> Result<Worked, Fault> {
    let skeleton: Skeleton = match cell.trace.skeleton(&cell.profile.name) {
        Ok(skeleton) => skeleton,
        Err(error) => return Err(Fault::Bug(error.to_string())),
    };
    let request = Request {
        skeleton: &skeleton,
        profile: cell.profile,
        budget: cell.budget(),
        policy: cell.policy,
        methods: cell.methods,
        page: None,
        trace_digest: cell.trace.digest(),
        model: cell.trace.model(),
    };
    let (planned, plan) = prove(&request)?;
    let mut digest = None;
    for tier in &cell.tiers {
        let outcome = check_replay(plan.clone(), tier.clone(), STEPS)?;
        if digest.get_or_insert_with(|| outcome.digest.clone()) != &outcome.digest {
            return Err(Fault::Bug("DIGESTS of tiers differ".into()));
        }
    }
    Ok(Worked {
        recomputed: plan.recomputed(),
        ratio: planned.timeline.iteration_ns as f64 / skeleton.compute_ns().max(1) as f64,
        page_overhead: planned.page_overhead,
    })
}

/// The cells: all, or each with `chosen`, a number that tells budgets and devices apart.
fn cells<'a>(traces: &'a [(String, Trace)], profiles: &'a Profiles, full: bool) -> Vec<Cell<'a>> {
    let file = || Spill::File(env!("CARGO_TARGET_TMPDIR").into());
    let mut cells = Vec::new();
    for (row, (name, trace)) in traces.iter().enumerate() {
        for (column, percent) in PERCENT.into_iter().enumerate() {
            for (layer, profile) in profiles.iter().enumerate() {
                for (index, policy) in Policy::ALL.into_iter().enumerate() {
                    let spread = (row + column + layer) % 3;
                    let chosen = match policy {
                        Policy::Vtensor => spread == 0,
                        Policy::None => column == 0 && spread == 1,
                        Policy::Lru => column == 1 + row % 3 && spread == 1,
                        Policy::Whole => column == 1 + row % 3 && spread == 2,
                        _ => column == 1 + row % 2 && spread == 2 && (row + index) % 4 == 0,
                    };
                    let own = policy == Policy::Vtensor;
                    let spread = (row + layer) % 4 == 0;
                    let both = own && (full || (column == 1 + row % 3 && spread));
                    let tiers = match (full, (row + column) % 2) {
                        (true, _) => vec![Spill::Ram, file()],
                        (false, 0) => vec![Spill::Ram],
                        (false, _) => vec![file()],
                    };
                    let cell = |methods| Cell {
                        name,
                        trace,
                        profile,
                        percent,
                        policy,
                        methods,
                        tiers: tiers.clone(),
                    };
                    if full || chosen {
                        cells.push(cell(Methods::Swap));
                    }
                    if both {
                        cells.push(cell(Methods::Both));
                    }
                }
            }
        }
    }
    cells.retain(Cell::promised);
    cells
}

#[test]
fn every_trace_plans_verifies_and_replays() {
    let full = env::var("VTENSOR_MATRIX").is_ok_and(|value| value == "full");
    let profiles = Profiles::builtin();
    let read = |name: String| {
        let trace = trace_file::open(support::trace(&name).as_ref()).expect("a sound trace");
        (name, trace)
    };
    let traces: Vec<(String, Trace)> = traces().into_iter().map(read).collect();
    assert!(traces.len() >= 14, "{} traces", traces.len());
    let cells = cells(&traces, &profiles, full);
    let results = in_parallel(&cells, work);
    let mut bugs = Vec::new();
    let mut counts: BTreeMap<(&str, &str, &str), u32> = BTreeMap::new();
    for (cell, result) in cells.iter().zip(&results) {
        let title = cell.title();
        let outcome = match result {
            Ok(_) => "work",
            Err(Fault::NoSchedule(_)) if cell.policy != Policy::Vtensor => "find no plan",
            Err(Fault::NoSchedule(message) | Fault::Bug(message)) => {
                bugs.push(format!("{title}: {message}"));
                "FAIL"
            }
        };
        let (policy, methods) = (cell.policy.name(), cell.methods.name());
        *counts.entry((policy, methods, outcome)).or_default() += 1;
    }
    for ((policy, methods, outcome), count) in counts {
        println!("{policy}, {methods}: {count} {outcome}");
    }
    assert!(
        bugs.is_empty(),
        "{} cells:\n{}",
        bugs.len(),
        bugs.join("\n")
    );
}
