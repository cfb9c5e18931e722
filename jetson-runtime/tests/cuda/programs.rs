//! The plans of the suite: made by hand, and planned from random training steps.

use std::collections::BTreeMap;
use std::sync::Mutex;

use lgm::plan::Plan;
use lgm::planner::{self, Methods, Request};
use lgm::policy::Policy;
use lgm::profile::Profiles;
use lgm::synthetic::{Shape, training_step};
use vtensor::{Bytes, PageBytes, PageRun, WindowId};

use crate::plans;

/// Plans by name.
type Plans = Vec<(String, Plan)>;

/// The plans by name; without windows that scatter pages where a backend cannot have them.
pub(crate) fn all(page: u64, scatters: bool) -> Plans {
    let mut found = by_hand(page, scatters);
    found.extend(random(page, scatters));
    found
}

/// Those that are made by hand.
pub(crate) fn by_hand(page: u64, scatters: bool) -> Plans {
    let mut found = Vec::new();
    for (name, plan) in plans::all(page) {
        match scatters {
            true => found.push((name.into(), plan)),
            false => found.extend(straight(plan).map(|plan| (name.into(), plan))),
        }
    }
    found
}

/// Training steps at half of their peak, where pages are small enough for them. Planned once.
fn random(page: u64, scatters: bool) -> Plans {
    static PLANNED: Mutex<BTreeMap<(u64, bool), Plans>> = Mutex::new(BTreeMap::new());
    if page > 64 << 10 {
        return Vec::new();
    }
    let policy = match scatters {
        true => Policy::Vtensor,
        false => Policy::Whole,
    };
    let mut found = PLANNED.lock().unwrap();
    let planned = || [4, 9].map(|seed| (format!("random {seed}"), planned(seed, page, policy, 50)));
    let found = found.entry((page, scatters));
    found.or_insert_with(|| planned().into()).clone()
}

/// A random training step at a share of its peak.
pub(crate) fn planned(seed: u64, page: u64, policy: Policy, percent: u64) -> Plan {
    let trace = training_step(seed, &Shape::SMALL);
    let skeleton = trace.skeleton(&trace.devices()[0]).unwrap();
    let profiles = Profiles::builtin();
    let request = Request {
        skeleton: &skeleton,
        profile: profiles.get("rtx3060").unwrap(),
        budget: Bytes(trace.peak_bytes().0 * percent / 100),
        policy,
        methods: Methods::Swap,
        page: Some(PageBytes::new(page).unwrap()),
        trace_digest: trace.digest(),
        model: trace.model(),
    };
    planner::plan(&request).unwrap().plan
}

/// The plan with its pages in another order, such that those of each window follow one another;
/// `None` if there is no such order.
fn straight(mut plan: Plan) -> Option<Plan> {
    let program = &mut plan.program;
    let mut new = vec![None; program.arena_pages as usize];
    let mut next = 0;
    for window in 0..program.windows.len() {
        let runs = program.runs_of(WindowId::from_index(window)).iter();
        let pages: Vec<u32> = runs
            .flat_map(|run| (0..run.count).map(|page| run.first + page))
            .collect();
        for page in &pages {
            if new[*page as usize].is_none() {
                new[*page as usize] = Some(next);
                next += 1;
            }
        }
        let moved = |page: &u32| new[*page as usize].expect("each page was given a number");
        if !pages
            .windows(2)
            .all(|pair| moved(&pair[0]) + 1 == moved(&pair[1]))
        {
            return None;
        }
    }
    for run in &mut program.runs {
        assert_eq!(run.count, 1, "plans made by hand have one page a run");
        let first = new[run.first as usize].expect("each page was given a number");
        *run = PageRun { first, count: 1 };
    }
    Some(plan)
}
