//! Plans that run ops again, alone or beside swapping.
//!
//! Method: contents are given up in the order of their worth (`recompute`), which gives a path from
//! swapping alone to recomputing as much as the budget asks for. Scripts along it are tried out by
//! the grid of the search; the fastest are planned, as any iteration is. What remains idle in them
//! is swapped, so the two methods share each gap's work as the cost model likes it best.
//!
//! Guarantees: with both methods no plan is slower than that of swapping alone, which is made too
//! unless even its lower bound is slower.

use vtensor::PageBytes;

use super::need::PlanError;
use super::{Found, Request, by_policy, paged};
use crate::bound::lower_bound_ns;
use crate::recompute::{Given, History, Script, trajectory};
use crate::tricks::Tricks;

/// Hundredths of the budget that what is kept may take: the rest is for rounding to pages.
const FILL: u64 = 97;
/// Scripts that are tried out, and those of them that are planned.
const TRIED_MAX: usize = 10;
const PLANNED_MAX: usize = 2;
/// Hundredths by which a plan may be faster than the grid of the search makes it out to be.
const BETTER: u64 = 93;

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
    if alone.is_some_and(|ns| ns <= compute_ns + compute_ns / 200) {
        return by_policy(request, page, tricks, u64::MAX).map(|found| (found, None));
    }
    let mut best: Option<Mixed> = None;
    let mut tried: Vec<(u64, Given)> = Vec::new();
    for given in some(path(request)) {
        let with = Request {
            skeleton: &given.script.steps,
            ..*request
        };
        if let Some(ns) = paged::probe(&with, page, tricks) {
            tried.push((ns, given));
        }
    }
    tried.sort_by_key(|(ns, given)| (*ns, given.rows.len()));
    for (ns, given) in tried.into_iter().take(PLANNED_MAX) {
        let below_ns = best
            .as_ref()
            .map_or(u64::MAX, |(found, _)| found.iteration_ns());
        if ns / 100 * BETTER >= below_ns {
            break;
        }
        let with = Request {
            skeleton: &given.script.steps,
            ..*request
        };
        if let Ok(found) = by_policy(&with, page, tricks, below_ns) {
            best = Some((found, Some(given.script)));
        }
    }
    let below_ns = best
        .as_ref()
        .map_or(u64::MAX, |(found, _)| found.iteration_ns());
    let bound_ns = lower_bound_ns(request.skeleton, &request.profile.link, request.budget);
    let hopeless = alone.is_some_and(|ns| ns / 100 * BETTER >= below_ns) && bound_ns >= below_ns;
    match best {
        Some(best) if hopeless => Ok(best),
        Some(best) => {
            Ok(by_policy(request, page, tricks, below_ns).map_or(best, |own| (own, None)))
        }
        None => by_policy(request, page, tricks, u64::MAX).map(|own| (own, None)),
    }
}

/// Plans with nothing that moves.
pub(super) fn recompute(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
) -> Result<Mixed, PlanError> {
    let mut path = path(request);
    let last = path.pop().expect("it begins with nothing given up");
    let history = History::new(request.skeleton);
    let last = last.pruned(&history, filled(request));
    let with = Request {
        skeleton: &last.script.steps,
        ..*request
    };
    let found = by_policy(&with, page, tricks, u64::MAX)?;
    if found.program.outs.is_empty() && found.program.ins.is_empty() {
        let script = (!last.rows.is_empty()).then_some(last.script);
        return Ok((found, script));
    }
    Err(PlanError::NotByRecompute {
        least: vtensor::Bytes(last.memory.peak),
        budget: request.budget,
    })
}

/// From nothing given up to as much as the budget asks for.
fn path(request: &Request<'_>) -> Vec<Given> {
    trajectory(&History::new(request.skeleton), filled(request))
}

fn filled(request: &Request<'_>) -> u64 {
    request.budget.0 / 100 * FILL
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
