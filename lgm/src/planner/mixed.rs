//! Plans that run ops again, alone or beside swapping; and checkpointing, a baseline.
//!
//! Method: contents are given up in the order of their worth (`recompute`), which gives a path from
//! swapping alone to recomputing as much as the budget asks for. Scripts along it are tried out by
//! the grid of the search; the fastest are planned, as any iteration is. What remains idle in them
//! is swapped, so the two methods share each gap's work as the cost model likes it best.
//!
//! Guarantees: with both methods no plan is slower than that of swapping alone. It is made too,
//! unless the grid makes it out to be much slower: local search and other layouts have never made
//! up for so much.

use vtensor::{Bytes, PageBytes};

use super::need::PlanError;
use super::{Found, Request, by_policy, paged};
use crate::policy::Policy;
use crate::recompute::{Given, History, Script, segments, trajectory};
use crate::tricks::Tricks;

/// Hundredths of the budget that what is kept may take: the rest is for rounding to pages. Where
/// nothing may move, less is tried too.
const FILLS: [u64; 4] = [97, 94, 90, 85];
/// Thousandths of the compute time by which swapping alone may be slower and is good enough.
const GOOD: u64 = 5;
/// Scripts that are tried out, and those of them that are planned.
const TRIED_MAX: usize = 8;
const PLANNED_MAX: usize = 2;
/// Hundredths of the time that the grid makes out which a plan will take at the least: one that
/// was tried out like others, and swapping alone, which must not be left out wrongly.
const BETTER: u64 = 97;
const MUCH_BETTER: u64 = 70;

/// A program for a script, or for the iteration as it is.
pub(super) type Mixed = (Found, Option<Script>);

/// Plans with both methods.
pub(super) fn both(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
) -> Result<Mixed, PlanError> {
    let compute_ns = request.skeleton.compute_ns();
    let alone = paged::probe(request, page, tricks);
    let mut best: Option<Mixed> = None;
    if alone.is_none_or(|ns| ns > compute_ns + compute_ns / 1000 * GOOD) {
        for (ns, given) in promising(request, page, tricks) {
            let below_ns = time_of(best.as_ref());
            if ns / 100 * BETTER >= below_ns || alone.is_some_and(|alone| ns > alone) {
                break;
            }
            if let Ok(found) = by_policy(&given.as_asked(request), page, tricks, below_ns) {
                best = Some((found, Some(given.script)));
            }
        }
    }
    let below_ns = time_of(best.as_ref());
    match (best, alone) {
        (Some(best), Some(ns)) if ns / 100 * MUCH_BETTER >= below_ns => Ok(best),
        (Some(best), _) => {
            let own = by_policy(request, page, tricks, below_ns);
            Ok(own.map_or(best, |own| (own, None)))
        }
        (None, _) => by_policy(request, page, tricks, u64::MAX).map(|own| (own, None)),
    }
}

fn time_of(best: Option<&Mixed>) -> u64 {
    best.map_or(u64::MAX, |(found, _)| found.iteration_ns())
}

/// The scripts that the grid of the search makes out to be the fastest, with their times.
fn promising(request: &Request<'_>, page: PageBytes, tricks: Tricks) -> Vec<(u64, Given)> {
    let history = History::new(request.skeleton);
    let budget = request.budget.0 / 100 * FILLS[0];
    let mut tried = Vec::new();
    for given in some(trajectory(&history, budget)) {
        if let Some(ns) = paged::probe(&given.as_asked(request), page, tricks) {
            tried.push((ns, given));
        }
    }
    tried.sort_by_key(|(ns, given): &(u64, Given)| (*ns, given.rows.len()));
    tried.truncate(PLANNED_MAX);
    let pruned = tried.into_iter();
    pruned
        .map(|(ns, given)| (ns, given.pruned(&history, budget)))
        .collect()
}

/// Plans with nothing that moves.
pub(super) fn recompute(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
) -> Result<Mixed, PlanError> {
    let history = History::new(request.skeleton);
    let choices = FILLS.iter().map(|fill| {
        let budget = request.budget.0 / 100 * fill;
        let mut path = trajectory(&history, budget);
        let last = path.pop().expect("it begins with nothing given up");
        last.pruned(&history, budget)
    });
    unmoved(request, page, tricks, choices)
}

/// Plans as checkpointing practice does.
pub(super) fn checkpoint(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
) -> Result<Mixed, PlanError> {
    let request = Request {
        policy: Policy::Vtensor,
        ..*request
    };
    let history = History::new(request.skeleton);
    let choices = segments(&history, request.budget.0);
    unmoved(&request, page, tricks, choices)
}

/// The plan of the first choice with which nothing has to move.
fn unmoved(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
    choices: impl IntoIterator<Item = Given>,
) -> Result<Mixed, PlanError> {
    let mut least = u64::MAX;
    for given in choices {
        least = least.min(given.memory.peak);
        if given.memory.peak > request.budget.0 {
            continue;
        }
        let found = by_policy(&given.as_asked(request), page, tricks, u64::MAX)?;
        if found.program.outs.is_empty() && found.program.ins.is_empty() {
            let script = (!given.rows.is_empty()).then_some(given.script);
            return Ok((found, script));
        }
    }
    Err(PlanError::NotByRecompute {
        least: Bytes(least),
        budget: request.budget,
    })
}

impl Given {
    /// The same request for the steps of the script.
    fn as_asked<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request {
            skeleton: &self.script.steps,
            ..*request
        }
    }
}

/// Some of a path that give something up, the last among them: about equal parts of the excess lie
/// between them.
fn some(path: Vec<Given>) -> Vec<Given> {
    let Some(all) = path.first().map(|given| given.memory.excess) else {
        return Vec::new();
    };
    let length = path.len();
    let mut next = TRIED_MAX;
    let mut chosen = Vec::new();
    for (at, given) in path.into_iter().enumerate().skip(1) {
        let last = at + 1 == length;
        let due = all / TRIED_MAX as u128 * next as u128;
        if given.memory.excess < due || last {
            let left = given.memory.excess * TRIED_MAX as u128 / all.max(1);
            next = usize::try_from(left).unwrap_or(0);
            chosen.push(given);
        }
    }
    chosen
}
