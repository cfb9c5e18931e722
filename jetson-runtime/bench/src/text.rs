//! What commands say, as text: a row for each fact, with units.

use std::fmt;
use std::fs;

use vtensor::Bytes;

use crate::report::{PlanDetails, PlanReport, ReplayReport, VerifyReport};

/// One row of a text report.
pub(crate) fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<14}{value}")
}

/// Seconds with a unit that keeps the number readable.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            s if s >= 10.0 => format!("{s:.1} s"),
            s if s >= 1.0 => format!("{s:.2} s"),
            s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
            0.0 => "0 s".into(),
            s => format!("{:.1} µs", s * 1e6),
        };
        f.pad(&text)
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (peak, budget) = (Bytes(self.peak_bytes), Bytes(self.budget_bytes));
        let percent = |bytes: u64| 100.0 * bytes as f64 / self.peak_bytes.max(1) as f64;
        let unlimited = self.policy == "none";
        row(f, "policy", &self.policy)?;
        let arena = Bytes(self.arena_bytes());
        row(
            f,
            "peak",
            format_args!("{peak} before, {arena} after ({:.1} %)", percent(arena.0)),
        )?;
        let share = percent(self.budget_bytes);
        let limit = if unlimited { ", not a limit here" } else { "" };
        row(
            f,
            "budget",
            format_args!("{budget} ({share:.1} % of the peak{limit})"),
        )?;
        let demand = self.peak_bytes.saturating_sub(self.budget_bytes);
        row(
            f,
            "demand",
            format_args!(
                "{} of the peak do not fit, before rounding to pages",
                Bytes(demand)
            ),
        )?;
        row(f, "largest op", Bytes(self.largest_op_bytes))?;
        row(
            f,
            "arena",
            format_args!(
                "{} pages of {}, {:.4} of the fewest for this schedule",
                self.pages,
                Bytes(self.page_bytes),
                self.page_overhead
            ),
        )?;
        let (out, back) = (Bytes(self.moved_out_bytes), Bytes(self.moved_in_bytes));
        row(f, "moved", format_args!("{out} out, {back} in, each step"))?;
        if let (Some(_), Some(day)) = (self.written_per_step_bytes, self.written_per_day_bytes) {
            let day = Bytes(day);
            row(
                f,
                "wear",
                format_args!("{out} to storage each step, {day} a day"),
            )?;
        }
        row(
            f,
            "step",
            format_args!("{} without a limit", Seconds(self.compute_s)),
        )?;
        if self.recomputed_bytes > 0 {
            let bytes = Bytes(self.recomputed_bytes);
            row(
                f,
                "made again",
                format_args!("{bytes} each step, in {}", Seconds(self.recompute_s)),
            )?;
        }
        row(
            f,
            "predicted",
            format_args!(
                "{}, {:.4} of that, of it stall {}",
                Seconds(self.predicted_s),
                self.predicted_ratio,
                Seconds(self.stall_s)
            ),
        )?;
        if self.kept_bytes > 0 {
            let gain = match self.predicted_unkept_s {
                Some(unkept) => format!(
                    "; if all might leave, a step would take {}, {:+.1} %",
                    Seconds(unkept),
                    100.0 * (unkept / self.predicted_s - 1.0)
                ),
                None => "; there is no plan if all may leave".into(),
            };
            let kept = Bytes(self.kept_bytes);
            row(f, "kept", format_args!("{kept} beside this{gain}"))?;
        }
        let above = 100.0 * (self.predicted_ratio / self.bound_ratio - 1.0);
        let from_it = if self.recomputed_bytes == 0 {
            format!("at most {above:.2} % from optimal")
        } else if above < 0.0 {
            "no plan that only moves tensors can be as fast".into()
        } else {
            format!("{above:.2} % above what only moving tensors could reach")
        };
        row(
            f,
            "lower bound",
            format_args!("{:.4} of that: {from_it}", self.bound_ratio),
        )?;
        row(f, "planned in", Seconds(self.plan_s))?;
        row(f, "verdict", &self.verdict)
    }
}

impl fmt::Display for PlanDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (copies, pieces) = (self.copies, self.pieces);
        row(
            f,
            "copies",
            format_args!("{copies}, which move {pieces} pieces, each step"),
        )?;
        row(
            f,
            "spill tier",
            format_args!(
                "{}, of which {} used",
                Bytes(self.spill_bytes),
                self.facts.spill_used
            ),
        )?;
        row(
            f,
            "in flight",
            format_args!(
                "at most {} outs and {} ins",
                self.facts.outs_pending_max, self.facts.ins_pending_max
            ),
        )?;
        let windows = &self.windows;
        let limit = match mappings_limit() {
            Some(limit) => format!("; this machine allows {limit} to a process"),
            None => String::new(),
        };
        row(
            f,
            "windows",
            format_args!(
                "{}, {} of virtual memory in {} mappings{limit}",
                windows.count,
                Bytes(windows.virtual_bytes),
                windows.mappings
            ),
        )?;
        if let Some(refused) = &windows.refused {
            row(f, "", format_args!("not at full size here: {refused}"))?;
        }
        row(f, "proven in", Seconds(self.verify_s))
    }
}

/// What the kernel grants to a process, if it tells.
fn mappings_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    text.trim().parse().ok()
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
            "the same in every step"
        } else {
            "steps DIFFER"
        };
        row(f, "digest", format_args!("{}, {equal}", self.digest))
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "verdict", &self.verdict)?;
        row(f, "model", &self.model)?;
        row(f, "device", &self.device)?;
        row(f, "policy", &self.policy)?;
        row(f, "budget", Bytes(self.budget_bytes))?;
        row(
            f,
            "arena",
            format_args!(
                "{} pages of {}, {} used",
                self.pages,
                Bytes(self.page_bytes),
                self.pages_used
            ),
        )?;
        row(
            f,
            "spill tier",
            format_args!("{} used", Bytes(self.spill_used_bytes)),
        )?;
        row(
            f,
            "each step",
            format_args!("{} ops, {} copies", self.ops, self.copies),
        )
    }
}

#[cfg(test)]
mod tests {
    use lgm::verify::Facts;

    use super::*;
    use crate::report::{Windows, samples};

    #[test]
    fn text_has_units() {
        let text = samples::replay().to_string();
        for wanted in [
            "2 GiB before, 1 GiB after (50.0 %)",
            "1 GiB (50.0 % of the peak)",
            "1 GiB of the peak do not fit, before rounding to pages",
            "512 pages of 2 MiB",
            "768 MiB out, 256 MiB in, each step",
            "436.5 ms without a limit",
            "1.0080 of that, of it stall 3.5 ms",
            "5 MiB each step, in 1.0 ms",
            "768 MiB to storage each step, 9 TiB a day",
            "7 MiB beside this; if all might leave, a step would take 418.0 ms, -5.0 %",
            "1.0020 of that: 0.60 % above what only moving tensors could reach",
            "12.3 s",
            "3 steps, 450.0 ms each",
            "the same in every step",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        let differs = ReplayReport {
            digests_equal: false,
            ..samples::replay()
        };
        assert!(differs.to_string().contains("DIFFER"));
        let unlimited = PlanReport {
            policy: "none".into(),
            recomputed_bytes: 0,
            ..samples::plan()
        };
        let text = unlimited.to_string();
        assert!(text.contains("not a limit"));
        assert!(text.contains("1.0020 of that: at most 0.60 % from optimal"));
        assert!(!text.contains("made again"));
    }

    #[test]
    fn details_name_what_this_machine_refuses() {
        let mut details = PlanDetails {
            copies: 10,
            pieces: 90,
            spill_bytes: 3 << 20,
            windows: Windows {
                count: 5,
                virtual_bytes: 1 << 34,
                mappings: 70_000,
                refused: None,
            },
            facts: Facts::default(),
            verify_s: 0.012,
        };
        let text = details.to_string();
        for wanted in [
            "move 90 pieces",
            "3 MiB",
            "16 GiB of virtual memory in 70000",
            "12.0 ms",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        details.windows.refused = Some("too many".into());
        assert!(
            details
                .to_string()
                .contains("not at full size here: too many")
        );
    }

    #[test]
    fn seconds_keep_their_column() {
        assert_eq!(format!("{:>9}|", Seconds(0.25)), " 250.0 ms|");
        assert_eq!(Seconds(0.0).to_string(), "0 s");
        assert_eq!(Seconds(2e-6).to_string(), "2.0 µs");
    }
}
