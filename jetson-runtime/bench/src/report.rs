//! What commands say, as JSON with fixed keys. The text is in `text`.
//!
//! The keys, their order and their units are a contract with programs that read them: seconds,
//! bytes, and ratios over the time of the step without a limit. Nothing is ever renamed.

use std::fmt;

use lgm::verify::Facts;
use serde::Serialize;

/// What `plan` says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanReport {
    /// What chose the moves.
    pub policy: String,
    /// How room is made: swap, recompute or both.
    pub methods: String,
    /// The budget that was asked for. Policy `none` does not keep it.
    pub budget_bytes: u64,
    /// Bytes that the step has live at its worst op, without a limit and without rounding.
    pub peak_bytes: u64,
    /// Bytes that the largest op touches.
    pub largest_op_bytes: u64,
    /// Seconds that one step computes: its time without a limit.
    pub compute_s: f64,
    /// Seconds that one step takes, as the cost model says.
    pub predicted_s: f64,
    /// `predicted_s` over `compute_s`.
    pub predicted_ratio: f64,
    /// What no plan can be below that only moves tensors, over `compute_s`.
    pub bound_ratio: f64,
    /// Bytes that leave in one step.
    pub moved_out_bytes: u64,
    /// Bytes that return in one step.
    pub moved_in_bytes: u64,
    /// Seconds of one step in which compute waits for copies, as the cost model says.
    pub stall_s: f64,
    /// Seconds of one step in which ops run again.
    pub recompute_s: f64,
    /// Bytes of contents that are made again in one step.
    pub recomputed_bytes: u64,
    /// Pages of the arena.
    pub pages: u64,
    /// Bytes of each.
    pub page_bytes: u64,
    /// Pages of the arena over the fewest that any layout of this schedule could use.
    pub page_overhead: f64,
    /// Seconds that planning took, the proof not included.
    pub plan_s: f64,
    /// `ok`, or the rule that the plan breaks and where.
    pub verdict: String,
    /// Bytes that never leave, beside the plan and its budget.
    pub kept_bytes: u64,
    /// Seconds that one step would take if they might; `null` if nothing is kept, or there is no
    /// such plan.
    pub predicted_unkept_s: Option<f64>,
    /// Bytes that one step writes to flash; `null` if the device's spill tier is none.
    pub written_per_step_bytes: Option<u64>,
    /// The same in a day of steps, one after another.
    pub written_per_day_bytes: Option<u64>,
}

impl PlanReport {
    /// The verdict on a plan that holds.
    pub const OK: &str = "ok";

    /// Bytes of the arena.
    #[must_use]
    pub const fn arena_bytes(&self) -> u64 {
        self.pages.saturating_mul(self.page_bytes)
    }
}

/// What the windows of a plan take from the kernel, executed at full size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// How many there are.
    pub count: u64,
    /// Their virtual memory.
    pub virtual_bytes: u64,
    /// Their mappings.
    pub mappings: u64,
    /// Why this machine could not execute the plan at full size, if it could not.
    pub refused: Option<String>,
}

/// What only the text of `plan` says.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanDetails {
    /// Copies of one step in both directions.
    pub copies: u64,
    /// The pieces that they move.
    pub pieces: u64,
    /// Bytes of the spill tier.
    pub spill_bytes: u64,
    /// What the windows take.
    pub windows: Windows,
    /// What the proof found out.
    pub facts: Facts,
    /// Seconds that the proof took.
    pub verify_s: f64,
}

/// What `replay` says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// What was executed.
    #[serde(flatten)]
    pub plan: PlanReport,
    /// Training steps that were executed.
    pub steps: u64,
    /// Seconds that one of them took at the executed size, the median.
    pub measured_s: f64,
    /// Bytes that were not what their last writer wrote.
    pub mismatches: u64,
    /// SHA-256, in hexadecimal, of what a training step did, in planned units: for each access of
    /// each op the tensor, the mode, the pages of the arena behind the address that the runtime
    /// gave, the version found or written, wrong bytes; and of the persistent contents at the end.
    /// Equal for every scale, spill tier, pace and number of steps.
    pub digest: String,
    /// Whether all training steps had the same digest.
    pub digests_equal: bool,
}

/// What `verify` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// `ok`, or the rule that the plan breaks and where.
    pub verdict: String,
    /// The trace's name for the model.
    pub model: String,
    /// The device that the plan is for.
    pub device: String,
    /// What chose the moves.
    pub policy: String,
    /// The budget that was asked for.
    pub budget_bytes: u64,
    /// Pages of the arena.
    pub pages: u64,
    /// Bytes of each.
    pub page_bytes: u64,
    /// Ops of one step.
    pub ops: u64,
    /// Copies of one step in both directions.
    pub copies: u64,
    /// Pages of the arena that the plan touches; 0 if the plan does not hold.
    pub pages_used: u64,
    /// Bytes of the spill tier that it touches; 0 if the plan does not hold.
    pub spill_used_bytes: u64,
}

/// A report as what a command prints.
#[must_use]
pub fn render<R: Serialize + fmt::Display>(report: &R, json: bool) -> String {
    if json {
        to_json(report)
    } else {
        report.to_string()
    }
}

/// A report as one JSON object.
#[must_use]
pub fn to_json<R: Serialize>(report: &R) -> String {
    serde_json::to_string(report).expect("reports have text keys and plain numbers")
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    pub(crate) fn plan() -> PlanReport {
        PlanReport {
            policy: "vtensor".into(),
            methods: "both".into(),
            budget_bytes: 1 << 30,
            peak_bytes: 2 << 30,
            largest_op_bytes: 300 << 20,
            compute_s: 0.4365,
            predicted_s: 0.44,
            predicted_ratio: 1.008,
            bound_ratio: 1.002,
            moved_out_bytes: 3 << 28,
            moved_in_bytes: 1 << 28,
            stall_s: 0.0035,
            recompute_s: 0.001,
            recomputed_bytes: 5 << 20,
            pages: 512,
            page_bytes: 2 << 20,
            page_overhead: 1.0,
            plan_s: 12.34,
            verdict: "ok".into(),
            kept_bytes: 7 << 20,
            predicted_unkept_s: Some(0.418),
            written_per_step_bytes: Some(3 << 28),
            written_per_day_bytes: Some(9 << 40),
        }
    }

    pub(crate) fn replay() -> ReplayReport {
        ReplayReport {
            plan: plan(),
            steps: 3,
            measured_s: 0.45,
            mismatches: 0,
            digest: "00ff".into(),
            digests_equal: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{plan, replay};
    use super::*;

    /// The keys of a JSON object, as they come in the text.
    fn keys(json: &str) -> Vec<&str> {
        json.split('"')
            .skip(1)
            .step_by(2)
            .filter(|key| json.contains(&format!("\"{key}\":")))
            .collect()
    }

    #[test]
    fn keys_are_fixed() {
        let fixed = [
            "policy",
            "methods",
            "budget_bytes",
            "peak_bytes",
            "largest_op_bytes",
            "compute_s",
            "predicted_s",
            "predicted_ratio",
            "bound_ratio",
            "moved_out_bytes",
            "moved_in_bytes",
            "stall_s",
            "recompute_s",
            "recomputed_bytes",
            "pages",
            "page_bytes",
            "page_overhead",
            "plan_s",
            "verdict",
            "kept_bytes",
            "predicted_unkept_s",
            "written_per_step_bytes",
            "written_per_day_bytes",
        ];
        let json = to_json(&plan());
        assert_eq!(keys(&json), fixed);
        let more = [
            "steps",
            "measured_s",
            "mismatches",
            "digest",
            "digests_equal",
        ];
        let json = to_json(&replay());
        assert_eq!(keys(&json), [&fixed[..], &more].concat());
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["budget_bytes"], 1 << 30);
        assert_eq!(value["predicted_ratio"], 1.008);
        assert_eq!(value["digests_equal"], true);
    }
}
