//! What one policy came to in one cell.

use lgm::planner::Methods;
use lgm::policy::Policy;
use serde::Serialize;

/// The planner by the methods that it uses, as in [`Cell::policy`].
pub(super) const SWAP: &str = Policy::Vtensor.name();
pub(super) const BOTH: &str = "vtensor-both";

/// What a policy with its methods is called. With swapping alone it has its own name.
pub(super) fn label(policy: Policy, methods: Methods) -> String {
    match methods {
        Methods::Swap => policy.name().into(),
        methods => format!("{policy}-{methods}"),
    }
}

/// What one policy came to with one trace, device and budget. Keys and units are fixed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The trace, by the name of its file.
    pub trace: String,
    /// The device.
    pub device: String,
    /// The budget over the trace's peak.
    pub budget_fraction: f64,
    /// The budget.
    pub budget_bytes: u64,
    /// The policy; behind a dash, how else than by swapping it makes room.
    pub policy: String,
    /// Whether the policy found a plan, and it holds.
    pub feasible: bool,
    /// Predicted time over the time without a limit.
    pub ratio: Option<f64>,
    /// What no plan of this kind can be below.
    pub bound_ratio: f64,
    /// What no plan that only swaps can be below by linear programming, where that is known.
    pub lp_bound_ratio: Option<f64>,
    /// Bytes that leave in one step.
    pub moved_out_bytes: Option<u64>,
    /// Bytes that return in one step.
    pub moved_in_bytes: Option<u64>,
    /// Seconds of one step in which ops run again.
    pub recompute_s: Option<f64>,
    /// Bytes of contents that are made again in one step.
    pub recomputed_bytes: Option<u64>,
    /// Pages of the arena over the fewest that any layout of the schedule could use.
    pub page_overhead: Option<f64>,
    /// Seconds that planning took, the proof not included.
    pub plan_s: f64,
    /// `ok`, why there is no plan, or the rule that the plan breaks.
    pub verdict: String,
    /// Whether a plan was found that breaks a rule.
    #[serde(skip)]
    pub broken: bool,
}

impl Cell {
    /// Whether something is wrong: the planner found no plan, or a plan of any policy does not
    /// hold. That another policy finds none is a result like others.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        let ours = [SWAP, BOTH].contains(&self.policy.as_str());
        self.broken || (ours && !self.feasible)
    }

    /// The highest known bound on the time of any plan here.
    pub(super) fn best_bound(&self) -> f64 {
        self.lp_bound_ratio.unwrap_or(1.0).max(self.bound_ratio)
    }

    /// Whether both stand for the same trace, device and budget.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        self.trace == other.trace
            && self.device == other.device
            && self.budget_bytes == other.budget_bytes
    }
}

/// The time of a policy in a cell, if it has a plan there.
pub(super) fn find(group: &[Cell], policy: &str) -> Option<f64> {
    let cell = group.iter().find(|cell| cell.policy == policy)?;
    cell.ratio.filter(|_| cell.feasible)
}

/// A budget that was not tried, since the largest op takes nearly all of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skipped {
    /// The trace, by the name of its file.
    pub trace: String,
    /// The budget over the trace's peak.
    pub budget_fraction: f64,
    /// The budget.
    pub budget_bytes: u64,
    /// Bytes that the largest op touches.
    pub largest_op_bytes: u64,
}

/// A cell for tests, at half of the memory of some trace on device `d`.
#[cfg(test)]
pub(crate) fn sample(trace: &str, policy: &str, ratio: Option<f64>) -> Cell {
    Cell {
        trace: trace.into(),
        device: "d".into(),
        budget_fraction: 0.5,
        budget_bytes: 1000,
        policy: policy.into(),
        feasible: ratio.is_some(),
        ratio,
        bound_ratio: 1.0,
        lp_bound_ratio: None,
        moved_out_bytes: ratio.map(|_| 10),
        moved_in_bytes: ratio.map(|_| 20),
        recompute_s: ratio.map(|_| 0.25),
        recomputed_bytes: ratio.map(|_| 30),
        page_overhead: ratio.map(|_| 1.0),
        plan_s: 0.5,
        verdict: ratio.map_or("no, \"none\"".into(), |_| "ok".into()),
        broken: false,
    }
}
