//! Tests of the order that the backend makes, and of copies by way of a file, from the inside.

mod elided;
mod order;
mod seen;
mod staged;

use lgm::plan::Plan;
use lgm::planner::{self, Methods, Request};
use lgm::policy::Policy;
use lgm::profile::Profiles;
use lgm::synthetic::{Shape, training_step};
use vtensor::{Bytes, OpIndex, PageBytes};

use crate::tests::plans;

/// Plans made by hand, and a random training step at half of its peak.
fn programs() -> Vec<(&'static str, Plan)> {
    let mut found = plans::all(plans::page());
    found.push(("planned", planned(4, 50)));
    found
}

/// A random training step at a share of its peak, but at least what its largest op needs.
fn planned(seed: u64, percent: u64) -> Plan {
    let trace = training_step(seed, &Shape::SMALL);
    let skeleton = trace.skeleton(&trace.devices()[0]).unwrap();
    let ops = (0..skeleton.ops.len()).map(OpIndex::from_index);
    let touched = |op| {
        skeleton
            .accesses_of(op)
            .iter()
            .map(|a| skeleton.tensor(a.tensor).bytes.0)
    };
    let least = ops.map(|op| touched(op).sum::<u64>()).max().unwrap_or(0) * 5 / 4;
    let profiles = Profiles::builtin();
    let request = Request {
        skeleton: &skeleton,
        profile: profiles.get("rtx3060").unwrap(),
        budget: Bytes((trace.peak_bytes().0 * percent / 100).max(least)),
        policy: Policy::Vtensor,
        methods: Methods::Swap,
        page: Some(PageBytes::new(plans::page()).unwrap()),
        trace_digest: trace.digest(),
        model: trace.model(),
    };
    planner::plan(&request).unwrap().plan
}
