//! What commands say: as JSON with fixed keys, and as text with units.
//!
//! The keys, their order and their units are a contract with programs that read them: seconds,
//! bytes, and ratios over the time of the step without a limit. Nothing is ever renamed.

use std::fmt;

use serde::Serialize;
use vtensor::Bytes;

/// What `plan` says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanReport {
    /// What chose the moves.
    pub policy: String,
    /// The budget.
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
    /// What no plan of this kind can be below, over `compute_s`.
    pub bound_ratio: f64,
    /// Bytes that leave in one step.
    pub moved_out_bytes: u64,
    /// Bytes that return in one step.
    pub moved_in_bytes: u64,
    /// Seconds of one step in which compute waits for copies, as the cost model says.
    pub stall_s: f64,
    /// Pages of the arena.
    pub pages: u64,
    /// Bytes of each.
    pub page_bytes: u64,
    /// Pages of the arena over the fewest that any layout of this schedule could use.
    pub page_overhead: f64,
    /// Seconds that planning took.
    pub plan_s: f64,
    /// `ok`, or the rule that the plan breaks and where.
    pub verdict: String,
}

/// What `replay` says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// What was executed.
    #[serde(flatten)]
    pub plan: PlanReport,
    /// Training steps that were executed.
    pub steps: u64,
    /// Seconds that one of them took, the median.
    pub measured_s: f64,
    /// Bytes that were not what their last writer wrote.
    pub mismatches: u64,
    /// Digest of all persistent bytes after the last step, in hexadecimal.
    pub digest: String,
    /// Whether it equals that of a run without a limit.
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
    /// Copies of one step in both directions.
    pub copies: u64,
}

/// A report as what a command prints.
#[must_use]
pub fn render<R: Serialize + fmt::Display>(report: &R, json: bool) -> String {
    if json {
        serde_json::to_string(report).expect("reports have text keys and plain numbers")
    } else {
        report.to_string()
    }
}

/// One row of a text report.
fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<14}{value}")
}

/// Seconds with a unit that keeps the number readable.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s >= 10.0 => write!(f, "{s:.1} s"),
            s if s >= 1.0 => write!(f, "{s:.2} s"),
            s if s >= 1e-3 => write!(f, "{:.1} ms", s * 1e3),
            s => write!(f, "{:.1} µs", s * 1e6),
        }
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.budget_bytes as f64 / self.peak_bytes.max(1) as f64;
        let arena = Bytes(self.pages.saturating_mul(self.page_bytes));
        row(f, "policy", &self.policy)?;
        row(f, "peak", Bytes(self.peak_bytes))?;
        row(
            f,
            "budget",
            format_args!("{} ({percent:.1} % of the peak)", Bytes(self.budget_bytes)),
        )?;
        row(f, "largest op", Bytes(self.largest_op_bytes))?;
        row(
            f,
            "arena",
            format_args!(
                "{arena} in {} pages of {}, {:.4} of the fewest pages",
                self.pages,
                Bytes(self.page_bytes),
                self.page_overhead
            ),
        )?;
        let moved = format!(
            "{} out, {} in, each step",
            Bytes(self.moved_out_bytes),
            Bytes(self.moved_in_bytes)
        );
        row(f, "moved", moved)?;
        row(
            f,
            "step",
            format_args!("{} without a limit", Seconds(self.compute_s)),
        )?;
        row(
            f,
            "predicted",
            format_args!(
                "{}, {:.4} of that; the bound is {:.4}",
                Seconds(self.predicted_s),
                self.predicted_ratio,
                self.bound_ratio
            ),
        )?;
        row(
            f,
            "stall",
            format_args!("{} in each step", Seconds(self.stall_s)),
        )?;
        row(f, "planned in", Seconds(self.plan_s))?;
        row(f, "verdict", &self.verdict)
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)?;
        row(
            f,
            "replayed",
            format_args!("{} steps, {} each", self.steps, Seconds(self.measured_s)),
        )?;
        row(f, "mismatches", format_args!("{} bytes", self.mismatches))?;
        let equal = if self.digests_equal {
            "equal to"
        } else {
            "DIFFERS FROM"
        };
        row(
            f,
            "digest",
            format_args!("{}, {equal} the run without a limit", self.digest),
        )
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "verdict", &self.verdict)?;
        row(f, "model", &self.model)?;
        row(f, "device", &self.device)?;
        row(f, "policy", &self.policy)?;
        row(f, "budget", Bytes(self.budget_bytes))?;
        let pages = format!("{} pages of {}", self.pages, Bytes(self.page_bytes));
        row(f, "arena", pages)?;
        row(f, "copies", format_args!("{} in each step", self.copies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> PlanReport {
        PlanReport {
            policy: "vtensor".into(),
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
            pages: 512,
            page_bytes: 2 << 20,
            page_overhead: 1.0,
            plan_s: 12.34,
            verdict: "ok".into(),
        }
    }

    fn replay() -> ReplayReport {
        ReplayReport {
            plan: plan(),
            steps: 3,
            measured_s: 0.45,
            mismatches: 0,
            digest: "00ff".into(),
            digests_equal: true,
        }
    }

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
            "pages",
            "page_bytes",
            "page_overhead",
            "plan_s",
            "verdict",
        ];
        let json = render(&plan(), true);
        assert_eq!(keys(&json), fixed);
        let more = [
            "steps",
            "measured_s",
            "mismatches",
            "digest",
            "digests_equal",
        ];
        let json = render(&replay(), true);
        assert_eq!(keys(&json), [&fixed[..], &more].concat());
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["budget_bytes"], 1 << 30);
        assert_eq!(value["predicted_ratio"], 1.008);
        assert_eq!(value["digests_equal"], true);
    }

    #[test]
    fn text_has_units() {
        let text = render(&replay(), false);
        for wanted in [
            "1 GiB (50.0 % of the peak)",
            "1 GiB in 512 pages of 2 MiB",
            "768 MiB out, 256 MiB in, each step",
            "436.5 ms without a limit",
            "1.0080 of that; the bound is 1.0020",
            "3.5 ms in each step",
            "12.3 s",
            "3 steps, 450.0 ms each",
            "equal to the run without a limit",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        let differs = ReplayReport {
            digests_equal: false,
            ..replay()
        };
        assert!(render(&differs, false).contains("DIFFERS"));
    }
}
