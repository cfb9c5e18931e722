//! A comparison as text: a table for each device, and the planner against each other policy.

use std::fmt::Write as _;

use vtensor::Bytes;

use super::{Cell, Comparison, Rival, Summary};

/// Characters of a column.
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
        device_table(&mut text, device, &comparison.cells);
    }
    summary(&mut text, &comparison.summary);
    failures(&mut text, &comparison.cells);
    text
}

// Writing to a string cannot fail, so the results of `write!` say nothing here.
fn device_table(text: &mut String, device: &str, all: &[Cell]) {
    let groups = all.chunk_by(Cell::is_beside);
    let groups: Vec<_> = groups.filter(|group| group[0].device == device).collect();
    let Some(first) = groups.first() else { return };
    let names: Vec<&str> = first.iter().map(|cell| cell.policy.as_str()).collect();
    let traces = groups.iter().map(|group| group[0].trace.chars().count());
    let left = traces.max().unwrap_or(0).max(8);
    let _ = writeln!(
        text,
        "{device}: time of a step over its time without a limit; * the fastest, - no plan\n"
    );
    let lines = names.iter().map(|name| name.split('-').count()).max();
    for line in 0..lines.unwrap_or(1) {
        let ends = match line {
            0 => ("trace", "budget", "bound"),
            _ => ("", "", ""),
        };
        let _ = write!(text, "{:<left$}{:>8}{:>WIDTH$}", ends.0, ends.1, ends.2);
        for name in &names {
            let part = name.split('-').nth(line).unwrap_or("");
            let part: String = part.chars().take(WIDTH - 1).collect();
            let _ = write!(text, "{part:>WIDTH$}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    for group in groups {
        let cell = &group[0];
        let percent = format!("{:.0} %", cell.budget_fraction * 100.0);
        let bound = cell.bound_ratio;
        let _ = write!(text, "{:<left$}{percent:>8}{bound:>WIDTH$.3}", cell.trace);
        let times = group.iter().filter(|cell| cell.feasible);
        let best = times.filter_map(|cell| cell.ratio).reduce(f64::min);
        for cell in group {
            let entry = match cell.ratio {
                _ if cell.broken => "BROKEN".into(),
                Some(ratio) if Some(ratio) == best => format!("*{ratio:.3}"),
                Some(ratio) => format!("{ratio:.3}"),
                None => "-".into(),
            };
            let _ = write!(text, "{entry:>WIDTH$}");
        }
        text.push('\n');
    }
    text.push('\n');
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
    if let (Some(mean), Some(max)) = (summary.over_bound, summary.over_bound_max) {
        let _ = writeln!(
            text,
            "vtensor over the bound: {mean:.4} in the geometric mean of {} cells, {max:.4} at \
             worst",
            summary.cells
        );
    }
    if !summary.rivals.is_empty() {
        let _ = writeln!(
            text,
            "Throughput of vtensor over that of others, where both have a plan (ties: 3 %):\n\n\
             {:<21}{:>9}{:>14}{:>5}{:>6}{:>6}{:>9}  worst cell",
            "over", "gain", "if it stalls", "won", "tied", "lost", "no plan"
        );
    }
    for rival in &summary.rivals {
        row(text, rival);
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
    let percent = |gain: Option<f64>| match gain {
        Some(gain) => format!("{:+.1} %", gain * 100.0),
        None => "-".into(),
    };
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
        "{:<21}{:>9}{:>14}{:>5}{:>6}{:>6}{:>9}  {worst}{here}",
        rival.policy,
        percent(rival.gain),
        percent(rival.gain_stalled),
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
            sample("a", "lru", Some(4.0)),
            sample("a", "vdnn-all-paged", None),
            sample("a", "vtensor", Some(2.0)),
        ];
        let summary = Summary::of(&cells, &[]);
        let text = table(&Comparison { cells, summary });
        let wanted = "\
trace     budget    bound      lru     vdnn  vtensor
                                        all
                                      paged
a           50 %    1.000    4.000        -   *2.000
";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("lru                   +100.0 %"), "{text}");
        assert!(!text.contains("FAILED"), "{text}");
    }
}
