//! `smallest`: how little memory does for each trace and device, by each way to make room.

use std::fmt::Write as _;

use serde::Serialize;
use vtensor::Bytes;

use crate::args::SmallestArgs;
use crate::commands::Answer;
use crate::cores::on_all_cores;
use crate::error::BenchError;
use crate::inputs;
use crate::progress::Progress;
use crate::report::to_json;
use crate::smallest::{Question, Smallest};
use crate::trace_file;

/// What `smallest` says; its keys are fixed.
#[derive(Debug, Serialize)]
struct Answers {
    /// Longer than without a limit by at most this share.
    slowdown_max: f64,
    smallest: Vec<Smallest>,
}

pub(super) fn run(args: &SmallestArgs, json: bool) -> Result<Answer, BenchError> {
    let profiles = inputs::profiles(args.steps.devices.as_deref())?;
    let mut cases = Vec::new();
    for path in &args.steps.traces {
        let trace = trace_file::open(path)?;
        let chosen = inputs::chosen(&profiles, &args.steps.device, &trace)?;
        for profile in chosen {
            let skeleton = inputs::skeleton(&trace, &path.display(), profile, args.steps.fixed)?;
            cases.push((trace_file::name_of(path), trace.clone(), skeleton, profile));
        }
    }
    let each = args.methods.len();
    let bar = Progress::new("planning", (cases.len() * each) as u64, !json);
    let answer = |index: usize| {
        let (name, trace, skeleton, profile) = &cases[index / each];
        let question = Question {
            name,
            trace,
            skeleton,
            profile,
            methods: args.methods[index % each],
            ratio_max: 1.0 + args.slowdown,
        };
        question.answer()
    };
    let smallest = on_all_cores(cases.len() * each, answer, &|| bar.advance());
    drop(bar);
    let text = match json {
        true => to_json(&Answers {
            slowdown_max: args.slowdown,
            smallest,
        }),
        false => text(args, &smallest),
    };
    Ok(Answer { text, good: true })
}

// Writing to a string cannot fail, so the results of `write!` say nothing here.
fn text(args: &SmallestArgs, smallest: &[Smallest]) -> String {
    let mut text = String::new();
    let left = smallest.iter().map(|row| row.trace.chars().count()).max();
    let left = left.unwrap_or(0).max(5);
    let _ = writeln!(
        text,
        "The smallest budget with which a step takes at most {:.0} % longer than without a limit\n",
        args.slowdown * 100.0
    );
    let _ = write!(text, "{:<left$}  {:<14}", "trace", "device");
    for methods in &args.methods {
        let _ = write!(text, "{:>22}", methods.name());
    }
    text.push('\n');
    for rows in smallest.chunks(args.methods.len()) {
        let _ = write!(text, "{:<left$}  {:<14}", rows[0].trace, rows[0].device);
        for row in rows {
            let found = row.budget_bytes.zip(row.budget_fraction);
            let cell = found.map_or("-".into(), |(bytes, share)| {
                let share = format!("{:.0} %", share * 100.0);
                format!("{} {share:>6}", Bytes(bytes))
            });
            let _ = write!(text, "{cell:>22}");
        }
        text.push('\n');
    }
    text
}
