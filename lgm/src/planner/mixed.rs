//! Plans that run ops again, alone or beside swapping; and checkpointing, a baseline.
//!
//! Method: contents are given up in the order of their worth (`recompute`), which gives a path from
//! swapping alone to recomputing as much as the budget asks for. Scripts along it are tried out by
//! the grid of the search; the fastest are planned, as any iteration is. What remains idle in them
//! is swapped, so the two methods share each gap's work as the cost model likes it best.
//!
//! Guarantees: with both methods no plan is slower than that of swapping alone. It is made too,
//! unless the grid makes it out to be much slower: local search and other layouts have never made
//! up for so much. Nor is one slower than that of recomputing alone, which is made too wherever
//! its steps take less time than the best by then.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use vtensor::{Bytes, PageBytes};

use super::need::PlanError;
use super::{Found, Request, by_policy, paged, portfolio};
use crate::policy::Policy;
use crate::recompute::{Given, History, Script, segments, trajectory};
use crate::tricks::Tricks;

/// Hundredths of the budget that what is kept may take: the rest is for rounding to pages. Where
/// nothing may move, less is tried too.
const FILLS: [u64; 4] = [97, 94, 90, 85];
/// Thousandths of the compute time by which swapping alone may be slower and is good enough.
const GOOD: u64 = 5;
/// How often the excess is halved between scripts that are tried out, and how often those beside
/// the best are; and how many are planned.
const HALVINGS: u32 = 6;
const REFINEMENTS: usize = 3;
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
    let paths = Paths::new(request);
    let best = mixture(&paths, page, tricks);
    let below_ns = time_of(best.as_ref().ok());
    if below_ns <= good_ns(request) {
        return best;
    }
    // Where nothing moves, nothing waits: that may be what the grid did not see.
    unmoved(
        (request, &paths.history),
        page,
        tricks,
        paths.ends(below_ns == u64::MAX),
        below_ns,
    )
    .or(best)
}

/// The fastest of what the grid makes out to be promising, and of swapping alone.
fn mixture(paths: &Paths<'_>, page: PageBytes, tricks: Tricks) -> Result<Mixed, PlanError> {
    let request = paths.request;
    let alone = paged::probe(request, page, tricks);
    let mut best: Option<Mixed> = None;
    if alone.is_none_or(|ns| ns > good_ns(request)) {
        let on_pages = Tricks {
            packed: false,
            ..tricks
        };
        for (ns, given) in promising(paths, page, tricks) {
            let below_ns = time_of(best.as_ref());
            if ns / 100 * BETTER >= below_ns || alone.is_some_and(|alone| ns > alone) {
                break;
            }
            let script = given.script(&paths.history);
            if let Ok(found) = by_policy(&script.as_asked(request), page, on_pages, below_ns) {
                best = Some((found, Some(script)));
            }
        }
    }
    let below_ns = time_of(best.as_ref());
    match (best, alone) {
        (Some(best), Some(ns)) if ns / 100 * MUCH_BETTER >= below_ns => {
            Ok(or_packed(request, page, tricks, best))
        }
        (Some(best), _) => match by_policy(request, page, tricks, below_ns) {
            Ok(own) => Ok((own, None)),
            Err(_) => Ok(or_packed(request, page, tricks, best)),
        },
        (None, _) => by_policy(request, page, tricks, u64::MAX).map(|own| (own, None)),
    }
}

/// The faster one of a plan on pages and of the same steps in a contiguous arena.
fn or_packed(request: &Request<'_>, page: PageBytes, tricks: Tricks, best: Mixed) -> Mixed {
    match best {
        (found, Some(script)) if tricks.packed => {
            let found = portfolio::or_packed(&script.as_asked(request), page, found);
            (found, Some(script))
        }
        best => best,
    }
}

/// What takes no longer is good enough.
fn good_ns(request: &Request<'_>) -> u64 {
    let compute_ns = request.skeleton.compute_ns();
    compute_ns + compute_ns / 1000 * GOOD
}

fn time_of(best: Option<&Mixed>) -> u64 {
    best.map_or(u64::MAX, |(found, _)| found.iteration_ns())
}

/// The scripts that the grid of the search makes out to be the fastest, with their times.
///
/// Along the path the time falls as long as copies are waited for, and rises with what runs again
/// once they are not. So some are tried whose excess halves each time, then those between the best
/// and its neighbours.
fn promising(paths: &Paths<'_>, page: PageBytes, tricks: Tricks) -> Vec<(u64, Given)> {
    let (path, request) = (paths.first(), paths.request);
    let mut tried: BTreeMap<usize, u64> = BTreeMap::new();
    let attempt = |at: usize, tried: &mut BTreeMap<usize, u64>| {
        let least_ns = request.skeleton.compute_ns() + path[at].recompute_ns;
        let fastest_ns = tried.values().min().copied().unwrap_or(u64::MAX);
        if at > 0 && !tried.contains_key(&at) && least_ns < fastest_ns {
            let script = path[at].script(&paths.history);
            let took = paged::probe(&script.as_asked(request), page, tricks);
            tried.insert(at, took.unwrap_or(u64::MAX));
        }
    };
    for halvings in 1..=HALVINGS {
        let due = path[0].memory.excess >> halvings;
        let at = path.partition_point(|given| given.memory.excess > due);
        attempt(at.min(path.len() - 1), &mut tried);
    }
    attempt(path.len() - 1, &mut tried);
    for _ in 0..REFINEMENTS {
        let Some((&best, _)) = tried.iter().min_by_key(|(at, took)| (**took, **at)) else {
            break;
        };
        let before = tried.range(..best).next_back().map_or(0, |(at, _)| *at);
        let behind = tried.range(best + 1..).next().map_or(best, |(at, _)| *at);
        attempt(usize::midpoint(before, best), &mut tried);
        attempt(usize::midpoint(best, behind), &mut tried);
    }
    let mut fastest: Vec<(u64, usize)> = tried.iter().map(|(&at, &took)| (took, at)).collect();
    fastest.sort_unstable();
    let fastest = fastest.into_iter().take(PLANNED_MAX);
    let pruned = fastest.map(|(ns, at)| (ns, paths.pruned(&path[at], FILLS[0])));
    pruned.collect()
}

/// Plans with nothing that moves.
pub(super) fn recompute(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
) -> Result<Mixed, PlanError> {
    let paths = Paths::new(request);
    unmoved(
        (request, &paths.history),
        page,
        tricks,
        paths.ends(true),
        u64::MAX,
    )
}

/// Paths from nothing given up to as much as some part of the budget asks for.
struct Paths<'a> {
    request: &'a Request<'a>,
    history: History<'a>,
    /// The one to the largest part, which several ask for.
    first: OnceCell<Vec<Given>>,
}

impl<'a> Paths<'a> {
    fn new(request: &'a Request<'a>) -> Self {
        Self {
            request,
            history: History::new(request.skeleton),
            first: OnceCell::new(),
        }
    }

    fn first(&self) -> &[Given] {
        self.first
            .get_or_init(|| trajectory(&self.history, self.budget(FILLS[0])))
    }

    fn budget(&self, fill: u64) -> u64 {
        self.request.budget.0 / 100 * fill
    }

    fn pruned(&self, given: &Given, fill: u64) -> Given {
        given.clone().pruned(&self.history, self.budget(fill))
    }

    /// Where paths end, from the largest part of the budget to the smallest. Unless all are asked
    /// for, the last is the first that does not get down to its part.
    fn ends(&self, all: bool) -> impl Iterator<Item = Given> {
        let mut arrives = true;
        FILLS.into_iter().map_while(move |fill| {
            if !(arrives || all) {
                return None;
            }
            let own;
            let path = match fill == FILLS[0] {
                true => self.first(),
                false => {
                    own = trajectory(&self.history, self.budget(fill));
                    &own
                }
            };
            let last = path.last().expect("it begins with nothing given up");
            arrives = last.memory.excess == 0;
            Some(self.pruned(last, fill))
        })
    }
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
    unmoved((&request, &history), page, tricks, choices, u64::MAX)
}

/// The plan of the first choice with which nothing has to move, if it takes less than `below_ns`.
/// Choices come in the order of what they compute again.
fn unmoved(
    (request, history): (&Request<'_>, &History<'_>),
    page: PageBytes,
    tricks: Tricks,
    choices: impl IntoIterator<Item = Given>,
    below_ns: u64,
) -> Result<Mixed, PlanError> {
    let mut least = u64::MAX;
    for given in choices {
        least = least.min(given.memory.peak);
        if request.skeleton.compute_ns() + given.recompute_ns >= below_ns {
            break;
        }
        if given.memory.peak > request.budget.0 {
            continue;
        }
        let script = given.script(history);
        let found = by_policy(&script.as_asked(request), page, tricks, below_ns)?;
        if found.program.outs.is_empty() && found.program.ins.is_empty() {
            return Ok((found, (!given.rows.is_empty()).then_some(script)));
        }
    }
    Err(PlanError::NotByRecompute {
        least: Bytes(least),
        budget: request.budget,
    })
}

impl Script {
    /// The same request for its steps.
    fn as_asked<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request {
            skeleton: &self.steps,
            ..*request
        }
    }
}
