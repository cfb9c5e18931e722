//! What a training says, as text: a table, and what it shows.

use std::fmt::Write as _;

use vtensor::Bytes;

use super::budget::TrainBudget;
use super::report::{RunReport, TrainReport};
use super::run::Task;
use crate::text::Seconds;

/// Two rates whose ratio is closer to 1 than this are a tie.
const TIE: f64 = 0.03;

/// The report as text.
#[must_use]
pub fn table(task: &Task, budget: TrainBudget, report: &TrainReport) -> String {
    let mut text = heading(task, budget, report);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<9}{:>11}{:>10}{:>10}{:>10}{:>11}{:>16}{:>10}{:>10}{:>11}{:>10}  results",
        "policy",
        "budget",
        "images/s",
        "loss",
        "accuracy",
        "held",
        "moved, out+in",
        "stall",
        "step",
        "predicted",
        "total",
    );
    for run in &report.runs {
        text += &row(run);
    }
    text += &notes(report);
    text
}

fn heading(task: &Task, budget: TrainBudget, report: &TrainReport) -> String {
    let course = &task.course;
    let steps = report.runs.first().map_or(0, |run| run.steps);
    let link = match &task.link {
        Some(link) => format!(", over a link of {} GB/s", link.out_bps / 1e9),
        None => String::new(),
    };
    format!(
        "{} on {}: {} images to learn from, {} held out.\n{steps} steps of {} images, without a \
         limit and in a budget of {budget} ({}){link}.\n\n",
        task.network.name,
        task.data.name,
        task.data.train.len(),
        task.data.test.len(),
        course.batch,
        match budget {
            TrainBudget::Min => "the smallest that each policy has a plan for",
            TrainBudget::Given(_) => "of what the step without a limit has at its peak",
        },
    )
}

fn row(run: &RunReport) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let seconds = |value: Option<f64>| or_dash(value.map(|s| Seconds(s).to_string()));
    let moved = Bytes(run.moved_out_bytes.saturating_add(run.moved_in_bytes));
    let budget = run.budget_bytes.map(|bytes| Bytes(bytes).to_string());
    format!(
        "{:<9}{:>11}{:>10}{:>10}{:>10}{:>11}{:>16}{:>10}{:>10}{:>11}{:>10}  {}\n",
        run.policy,
        budget.unwrap_or_else(|| "no limit".into()),
        or_dash(run.images_per_s.map(|rate| format!("{rate:.0}"))),
        format!("{:.4}", run.loss_last),
        format!("{:.2} %", 100.0 * run.test_accuracy),
        Bytes(run.peak_device_bytes).to_string(),
        moved.to_string(),
        Seconds(run.stall_s).to_string(),
        seconds(run.measured_step_s),
        seconds(run.predicted_step_s),
        Seconds(run.total_s).to_string(),
        if run.bit_identical {
            "identical"
        } else {
            "DIFFER"
        },
    )
}

/// What the table shows.
fn notes(report: &TrainReport) -> String {
    let mut text = String::from("\n");
    if let Some(first) = report.runs.first() {
        let _ = writeln!(
            text,
            "The loss was {:.4} after the first step. Results are identical if every loss, \
             accuracy, final\nparameter, momentum and running statistic is, to the bit, that of \
             the first run without a limit.",
            first.loss_first
        );
    }
    let rates: Vec<(&str, f64)> = report
        .runs
        .iter()
        .filter_map(|run| Some((run.policy.as_str(), run.images_per_s?)))
        .collect();
    for pair in rates.windows(2).skip(1) {
        let _ = writeln!(text, "{}", versus(pair[1], pair[0]));
    }
    let unlimited = report.runs.first();
    for run in report.runs.iter().skip(1) {
        text += &work(run, unlimited);
        if run.recomputed_bytes > 0 {
            let (bytes, took) = (Bytes(run.recomputed_bytes), Seconds(run.recompute_s));
            let _ = writeln!(
                text,
                "{} ran ops again for {took}, which made {bytes}.",
                run.policy
            );
        }
        text += &storage(run);
    }
    for run in &report.runs {
        for refusal in &run.refusals {
            let _ = writeln!(text, "{}: {refusal}", run.policy);
        }
    }
    text
}

/// What a step computes and copies, and what that takes of the CPU.
fn work(run: &RunReport, unlimited: Option<&RunReport>) -> String {
    let (Some(compute), Some(transfer)) = (run.step_compute_s, run.step_transfer_s) else {
        return String::new();
    };
    let mut text = format!(
        "{}: a step computes {}, and its copies keep the link busy for {}",
        run.policy,
        Seconds(compute),
        Seconds(transfer)
    );
    let cpu = run.measured_step_cpu_s;
    let before = unlimited.and_then(|run| run.measured_step_cpu_s);
    if let Some((cpu, before)) = cpu.zip(before) {
        let _ = write!(
            text,
            "; it takes {} of the CPU, {:+.1} % over no limit",
            Seconds(cpu),
            100.0 * (cpu / before - 1.0)
        );
    }
    text + ".\n"
}

/// What a run kept in memory, and what it wrote to flash.
fn storage(run: &RunReport) -> String {
    let mut text = String::new();
    if let (Some(step @ 1..), Some(day)) = (run.written_per_step_bytes, run.written_per_day_bytes) {
        let (step, day) = (Bytes(step), Bytes(day));
        let _ = writeln!(text, "{} writes {step} a step, {day} a day.", run.policy);
    }
    let unkept = run.predicted_step_s.zip(run.predicted_step_unkept_s);
    if let Some((kept, unkept)) = unkept {
        let _ = writeln!(
            text,
            "{} keeps {} in memory; with --keep none a step is predicted to take {}, a change of \
             {:+.1} %.",
            run.policy,
            Bytes(run.kept_bytes),
            Seconds(unkept),
            100.0 * (unkept / kept - 1.0),
        );
    }
    text
}

/// One policy's rate over another's, in words.
fn versus(one: (&str, f64), other: (&str, f64)) -> String {
    let ratio = one.1 / other.1;
    let verdict = match ratio {
        ratio if (ratio - 1.0).abs() <= TIE => "a tie",
        ratio if ratio > 1.0 => "faster",
        _ => "slower",
    };
    format!(
        "{} trains {ratio:.3} times as many images per second as {}: {verdict}.",
        one.0, other.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::report::samples;

    #[test]
    fn close_rates_are_a_tie() {
        let versus = |one, other| versus(("vtensor", one), ("whole", other));
        assert!(versus(102.0, 100.0).ends_with("a tie."));
        assert!(versus(98.0, 100.0).ends_with("a tie."));
        assert!(
            versus(104.0, 100.0)
                .ends_with("1.040 times as many images per second as whole: faster.")
        );
        assert!(versus(90.0, 100.0).ends_with("slower."));
    }

    #[test]
    fn rows_have_units_and_say_what_differs() {
        let run = samples::run("vtensor", 1234.4);
        let text = row(&run);
        for wanted in [
            "3 MiB",
            "1234",
            "0.0100",
            "97.50 %",
            "11 MiB",
            "250.0 ms",
            "identical",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in {text}");
        }
        let other = RunReport {
            bit_identical: false,
            images_per_s: None,
            budget_bytes: None,
            ..run
        };
        let text = row(&other);
        assert!(
            text.contains("DIFFER") && text.contains("no limit"),
            "{text}"
        );
    }

    #[test]
    fn compute_and_copies_are_told_side_by_side() {
        let (mut none, run) = (samples::run("none", 100.0), samples::run("vtensor", 100.0));
        none.measured_step_cpu_s = Some(0.032);
        let text = work(&run, Some(&none));
        assert!(text.contains("computes 18.0 ms"), "{text}");
        assert!(text.contains("busy for 12.0 ms"), "{text}");
        assert!(
            text.contains("40.0 ms of the CPU, +25.0 % over no limit"),
            "{text}"
        );
    }

    #[test]
    fn flash_and_what_is_kept_are_told() {
        let mut run = samples::run("vtensor", 100.0);
        assert_eq!(storage(&run), "");
        (run.written_per_step_bytes, run.written_per_day_bytes) = (Some(3 << 20), Some(5 << 30));
        (run.kept_bytes, run.predicted_step_unkept_s) = (7 << 20, Some(0.019));
        let text = storage(&run);
        assert!(
            text.contains("vtensor writes 3 MiB a step, 5 GiB a day."),
            "{text}"
        );
        assert!(text.contains("keeps 7 MiB in memory"), "{text}");
        assert!(text.contains("take 19.0 ms, a change of -5.0 %"), "{text}");
    }

    #[test]
    fn notes_compare_neighbours_and_tell_refusals() {
        let mut last = samples::run("vtensor", 120.0);
        last.refusals.push("no plan".into());
        let runs = vec![
            samples::run("none", 200.0),
            samples::run("whole", 100.0),
            last,
        ];
        let text = notes(&TrainReport { runs });
        assert!(text.contains("vtensor trains 1.200 times"), "{text}");
        assert!(!text.contains("as none"), "{text}");
        assert!(text.contains("vtensor: no plan"), "{text}");
    }
}
