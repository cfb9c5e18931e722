//! A comparison as text: a table for each device, and the planner against each other policy.

use std::fmt::Write as _;

use lgm::policy::Policy;
use vtensor::Bytes;

use super::cell::SWAP;
use super::{Cell, Comparison, Contiguity, Over, Rival, Summary};

/// Characters of a column at the least.
const WIDTH: usize = 9;

/// The comparison as text.
#[must_use]
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    let mut devices: Vec<&str> = Vec::new();
    for cell in &comparison.cells {
        if !devices.contains(&cell.device.as_str()) {
            devices.push(&cell.device);
        }
    }
    for device in devices {
        for kind in Kind::ALL {
            device_table(&mut text, device, kind, &comparison.cells);
        }
    }
    summary(&mut text, &comparison.summary);
    failures(&mut text, &comparison.cells);
    text
}

/// What is in one table: there are too many policies for a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Contiguous,
    Paged,
    Again,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Contiguous, Self::Paged, Self::Again];

    const fn title(self) -> &'static str {
        match self {
            Self::Contiguous => "whole tensors in one contiguous arena, as published",
            Self::Paged => "tensors on pages",
            Self::Again => "ops that run again",
        }
    }

    /// Whether a policy is of this kind. The planner is beside both.
    fn has(self, policy: &str) -> bool {
        let kind = match policy.parse() {
            Err(_) | Ok(Policy::Checkpoint) => Self::Again,
            Ok(policy) if policy.is_contiguous() => Self::Contiguous,
            Ok(_) => Self::Paged,
        };
        self == kind
    }
}

// Writing to a string cannot fail, so the results of `write!` say nothing here.
fn device_table(text: &mut String, device: &str, kind: Kind, all: &[Cell]) {
    let groups = all.chunk_by(Cell::is_beside);
    let groups: Vec<_> = groups.filter(|group| group[0].device == device).collect();
    let Some(first) = groups.first() else { return };
    let own = SWAP;
    let others = first.iter().filter(|cell| cell.policy != own);
    let any = |kind: Kind| others.clone().any(|cell| kind.has(&cell.policy));
    // The planner alone is on pages.
    let alone = kind == Kind::Paged && !any(Kind::Contiguous) && !any(Kind::Again);
    if !any(kind) && !alone {
        return;
    }
    let shown = |cell: &&Cell| kind.has(&cell.policy) || cell.policy == own;
    let names: Vec<&str> = first
        .iter()
        .filter(shown)
        .map(|cell| cell.policy.trim_end_matches("-paged"))
        .collect();
    let traces = groups.iter().map(|group| group[0].trace.chars().count());
    let left = traces.max().unwrap_or(0).max(8);
    let _ = writeln!(
        text,
        "{device}, {}: time of a step over its time without a limit; * the fastest of all, \
         - no plan\n",
        kind.title()
    );
    let fluid = groups.iter().any(|group| group[0].lp_bound_ratio.is_some());
    let lines = names.iter().map(|name| name.split('-').count()).max();
    for line in 0..lines.unwrap_or(1) {
        let ends = match line {
            0 => ("trace", "budget", "bound", "lp"),
            _ => ("", "", "", ""),
        };
        let _ = write!(text, "{:<left$}{:>8}{:>WIDTH$}", ends.0, ends.1, ends.2);
        if fluid {
            let _ = write!(text, "{:>WIDTH$}", ends.3);
        }
        for name in &names {
            let part = name.split('-').nth(line).unwrap_or("");
            let _ = write!(text, "{part:>0$}", width(name));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    for group in groups {
        let cell = &group[0];
        let percent = format!("{:.0} %", cell.budget_fraction * 100.0);
        let bound = cell.bound_ratio;
        let _ = write!(text, "{:<left$}{percent:>8}{bound:>WIDTH$.3}", cell.trace);
        if fluid {
            let bound = cell.lp_bound_ratio;
            let bound = bound.map_or("-".into(), |bound| format!("{bound:.3}"));
            let _ = write!(text, "{bound:>WIDTH$}");
        }
        let times = group.iter().filter(|cell| cell.feasible);
        let best = times.filter_map(|cell| cell.ratio).reduce(f64::min);
        for (cell, name) in group.iter().filter(shown).zip(&names) {
            let entry = match cell.ratio {
                _ if cell.broken => "BROKEN".into(),
                Some(ratio) if Some(ratio) == best => format!("*{ratio:.3}"),
                Some(ratio) => format!("{ratio:.3}"),
                None => "-".into(),
            };
            let _ = write!(text, "{entry:>0$}", width(name));
        }
        text.push('\n');
    }
    text.push('\n');
}

/// Characters of the column of a policy, whose name has a line for each of its words.
fn width(name: &str) -> usize {
    let longest = name.split('-').map(str::len).max();
    longest.map_or(WIDTH, |longest| WIDTH.max(longest + 1))
}

fn summary(text: &mut String, summary: &Summary) {
    for skipped in &summary.skipped {
        let _ = writeln!(
            text,
            "{} at {:.0} % ({}) was left out: less than 1.25 times the {} of its largest op",
            skipped.trace,
            skipped.budget_fraction * 100.0,
            Bytes(skipped.budget_bytes),
            Bytes(skipped.largest_op_bytes),
        );
    }
    if !summary.skipped.is_empty() {
        text.push('\n');
    }
    over(text, "the bound", summary.over_bound);
    over(
        text,
        "the bound by linear programming",
        summary.over_lp_bound,
    );
    if !summary.rivals.is_empty() {
        let _ = writeln!(
            text,
            "Throughput of vtensor over that of others, where both have a plan (ties: 3 %):\n\n\
             {:<21}{:>9}{:>14}{:>11}{:>5}{:>6}{:>6}{:>9}  worst cell",
            "over", "gain", "if it stalls", "at bounds", "won", "tied", "lost", "no plan"
        );
    }
    for rival in &summary.rivals {
        row(text, rival);
    }
    if let (Some(mean), Some(max)) = (summary.both_over_bound.mean, summary.both_over_bound.max) {
        let _ = writeln!(
            text,
            "\nWhere swapping alone takes at least 1.5 times as long, whatever the plan ({} \
             cells), vtensor-both has {mean:.2} times the throughput of that bound, and up to \
             {max:.2}",
            summary.both_over_bound.cells
        );
    }
    if !summary.both.is_empty() {
        let _ = writeln!(
            text,
            "Throughput of vtensor-both, which swaps and runs ops again, over that of others:\n\n\
             {:<21}{:>9}{:>14}{:>11}{:>5}{:>6}{:>6}{:>9}  worst cell",
            "over", "gain", "if it stalls", "at bounds", "won", "tied", "lost", "no plan"
        );
    }
    for rival in &summary.both {
        row(text, rival);
    }
    if !summary.contiguity.is_empty() {
        let _ = writeln!(
            text,
            "\nWhat contiguous memory costs: throughput of each policy on pages over the same as \
             published\n\n{:<21}{:>9}{:>9}{:>7}{:>17}{:>14}",
            "policy", "gain", "most", "cells", "no plan without", "no plan with"
        );
    }
    for row in &summary.contiguity {
        contiguity(text, row);
    }
}

fn over(text: &mut String, bound: &str, over: Over) {
    if let (Some(mean), Some(max)) = (over.mean, over.max) {
        let _ = writeln!(
            text,
            "vtensor over {bound}: {mean:.4} in the geometric mean of {} cells, {max:.4} at worst",
            over.cells
        );
    }
}

fn contiguity(text: &mut String, row: &Contiguity) {
    let _ = writeln!(
        text,
        "{:<21}{:>9}{:>9}{:>7}{:>17}{:>14}",
        row.policy,
        percent(row.gain),
        percent(row.gain_max),
        row.compared,
        row.infeasible,
        row.infeasible_paged,
    );
}

fn percent(gain: Option<f64>) -> String {
    match gain {
        Some(gain) => format!("{:+.1} %", gain * 100.0),
        None => "-".into(),
    }
}

fn failures(text: &mut String, cells: &[Cell]) {
    let failed: Vec<_> = cells.iter().filter(|cell| cell.is_failure()).collect();
    if !failed.is_empty() {
        let _ = writeln!(text, "\n{} FAILED:", failed.len());
    }
    for cell in failed {
        let _ = writeln!(
            text,
            "{} on {} at {} by {}: {}",
            cell.trace,
            cell.device,
            Bytes(cell.budget_bytes),
            cell.policy,
            cell.verdict
        );
    }
}

fn row(text: &mut String, rival: &Rival) {
    let worst = match &rival.worst_cell {
        Some(cell) => format!("{} {cell}", percent(rival.worst_gain)),
        None => "-".into(),
    };
    let here = match rival.infeasible_here {
        0 => String::new(),
        count => format!("; only vtensor has no plan: {count}"),
    };
    let _ = writeln!(
        text,
        "{:<21}{:>9}{:>14}{:>11}{:>5}{:>6}{:>6}{:>9}  {worst}{here}",
        rival.policy,
        percent(rival.gain),
        percent(rival.gain_stalled),
        percent(rival.gain_at_bound),
        rival.won,
        rival.tied,
        rival.lost,
        rival.infeasible,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample;

    #[test]
    fn the_table_says_who_is_fastest_and_who_has_no_plan() {
        let cells = vec![
            sample("a", "vdnn-all", None),
            sample("a", "lru-paged", Some(4.0)),
            sample("a", "vdnn-all-paged", Some(3.0)),
            sample("a", "vtensor", Some(2.0)),
        ];
        let summary = Summary::of(&cells, &[]);
        let text = table(&Comparison { cells, summary });
        for wanted in [
            "\
trace     budget    bound     vdnn  vtensor
                               all
a           50 %    1.000        -   *2.000
",
            "\
trace     budget    bound      lru     vdnn  vtensor
                                        all
a           50 %    1.000    4.000    3.000   *2.000
",
            "lru-paged             +100.0 %      +100.0 %   +300.0 %",
            "vdnn-all                     -        -      0                1             0\n",
        ] {
            assert!(text.contains(wanted), "{wanted}{text}");
        }
        assert!(!text.contains("FAILED"), "{text}");
    }
}
