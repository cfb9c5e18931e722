//! Ground: what a plan stands on, before anything moves.

use vtensor::PageBytes;

use super::Request;
use crate::demand::op_pages;
use crate::graph::{Granularity, Graph};
use crate::policy::Policy;
use crate::pool::Pool;
use crate::share::{Terms, Units};
use crate::tricks::Tricks;

/// Tensors below this share of a page live in the pool; the first is the best for most models.
const POOL_SHARES: [u64; 4] = [4, 8, 16, 2];

/// Losses that are accepted where tensors share pages: a small one suits most models.
const LOSSES: [u64; 4] = [100, 200, 400, 1000];
/// Steps of all iterations that are tried out to find what to stand on, together.
const STEPS_MAX: usize = 8000;

/// What a plan stands on: the units, and which of them are too small for pages.
pub(super) struct Ground {
    pub(super) units: Units,
    granularity: Granularity,
}

impl Ground {
    /// What a plan may stand on, the first always: with as many small tensors in the pool as leave
    /// room for every op; their place is better used, but they never leave. The others accept
    /// other losses where tensors share pages, or have fewer tensors in the pool.
    pub(super) fn all(request: &Request<'_>, page: PageBytes, tricks: Tricks) -> Vec<Self> {
        let budget_pages = request.budget.0 / page.get();
        let make = |share, loss_max| Self::new(request, page, tricks, (share, loss_max));
        let (share, first) = Self::best(request, page, tricks);
        let mut all = vec![first];
        if tricks.grounds && shares(request, tricks) {
            let few = (STEPS_MAX / request.skeleton.ops.len()).max(1) - 1;
            let losses = LOSSES[1..].iter().map(|&loss| (share, loss));
            let smaller = LOSSES.iter().rev().map(|&loss| (share * 2, loss));
            let others = losses.chain(smaller).take(few);
            let others = others.map(|(share, loss)| make(share, loss));
            all.extend(others.filter(|ground| needed_pages(&ground.graph()) <= budget_pages));
        }
        all
    }

    /// The one that a plan may always stand on.
    pub(super) fn first(request: &Request<'_>, page: PageBytes, tricks: Tricks) -> Self {
        Self::best(request, page, tricks).1
    }

    fn best(request: &Request<'_>, page: PageBytes, tricks: Tricks) -> (u64, Self) {
        best_share(request.budget.0 / page.get(), |share| {
            let ground = Self::new(request, page, tricks, (share, LOSSES[0]));
            (needed_pages(&ground.graph()), (share, ground))
        })
    }

    fn new(
        request: &Request<'_>,
        page: PageBytes,
        tricks: Tricks,
        (share, loss_max): (u64, u64),
    ) -> Self {
        let terms = Terms {
            page,
            pool_below: page.get() / share,
            budget: request.budget.0,
            loss_max,
        };
        let units = if shares(request, tricks) {
            Units::shared(request.skeleton, terms)
        } else {
            Units::alone(request.skeleton, page)
        };
        let granularity = Granularity {
            page,
            pool_below: terms.pool_below,
            park_unused: request.policy != Policy::None,
        };
        Self { units, granularity }
    }

    pub(super) fn graph(&self) -> Graph<'_> {
        Graph::new(&self.units.skeleton, self.granularity)
    }
}

/// Whether tensors share pages.
fn shares(request: &Request<'_>, tricks: Tricks) -> bool {
    tricks.share && request.policy.is_in_pieces()
}

/// The first share of a page for the pool with which every op fits into so many pages, or else the
/// one with which the largest op needs the fewest. `make` says how many that are.
pub(super) fn best_share<T>(budget_pages: u64, make: impl Fn(u64) -> (u64, T)) -> T {
    let mut best: Option<(u64, T)> = None;
    for share in POOL_SHARES {
        if best
            .as_ref()
            .is_some_and(|(needed, _)| *needed <= budget_pages)
        {
            break;
        }
        let next = make(share);
        if best.as_ref().is_none_or(|(fewest, _)| next.0 < *fewest) {
            best = Some(next);
        }
    }
    best.expect("there are shares").1
}

/// Pages that the largest op needs together with the pool.
pub(super) fn needed_pages(graph: &Graph<'_>) -> u64 {
    let largest = op_pages(graph).into_iter().max().unwrap_or(0);
    u64::from(Pool::pack(graph).pages(graph.page))
        + u64::try_from(largest).expect("pages are not negative")
}
