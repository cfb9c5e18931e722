//! `compare`: every policy on every trace, device and budget, side by side.

use lgm::planner::Methods;
use lgm::policy::Policy;
use lgm::profile::Profiles;

use crate::args::CompareArgs;
use crate::commands::Answer;
use crate::compare::{Comparison, Matrix, Selection, Summary, csv, svg, table};
use crate::error::BenchError;
use crate::inputs;
use crate::output_file;
use crate::progress::Progress;
use crate::report::to_json;

pub(super) fn run(args: &CompareArgs, json: bool) -> Result<Answer, BenchError> {
    let profiles: Profiles = inputs::profiles(args.steps.devices.as_deref())?;
    let mut policies = distinct(&args.policy);
    if policies.is_empty() {
        // Without a limit there is nothing to compare: it is what ratios are over.
        policies.extend(Policy::ALL.into_iter().filter(|p| *p != Policy::None));
    }
    let methods = distinct(&args.methods);
    let planners = policies.iter().flat_map(|&policy| {
        let open = policy.is_in_pieces().then_some(&methods);
        let open = open.into_iter().flatten().copied();
        let fixed = (!policy.is_in_pieces()).then_some(Methods::Swap);
        open.chain(fixed).map(move |methods| (policy, methods))
    });
    let budgets = distinct(&args.budget);
    let selection = Selection {
        devices: &distinct(&args.steps.device),
        budgets: &budgets,
        planners: &planners.collect::<Vec<_>>(),
        page: args.page_bytes,
        fixed: args.steps.fixed,
        tricks: args.without.unwrap_or_default(),
    };
    let matrix = Matrix::read(&distinct(&args.steps.traces), &profiles, selection)?;
    let bar = Progress::new("planning and proving", matrix.len() as u64, !json);
    let cells = matrix.run(&|| bar.advance());
    drop(bar);
    for (path, contents) in [
        (&args.csv, csv as fn(&[_]) -> String),
        (&args.plot, svg as fn(&[_]) -> String),
    ] {
        let Some(path) = path else { continue };
        let written = output_file::write(path, contents(&cells).as_bytes());
        written.map_err(|source| BenchError::File {
            path: path.clone(),
            source,
        })?;
    }
    let summary = Summary::of(&cells, matrix.skipped());
    let comparison = Comparison { cells, summary };
    let good = comparison.summary.failed == 0;
    let text = if json {
        to_json(&comparison)
    } else {
        table(&comparison)
    };
    Ok(Answer { text, good })
}

/// Each once, in the order in which they are first named.
fn distinct<T: Clone + PartialEq>(all: &[T]) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for one in all {
        if !found.contains(one) {
            found.push(one.clone());
        }
    }
    found
}
