//! Portfolios: the planner's program on pages, and those that other policies lead to.
//!
//! In: the planner's own program. Out: the fastest of it and of others. Only who promises to be
//! faster is laid out.
//!
//! - `portfolio` looks at the published policies and `whole`, each by its own rules, on pages and
//!   in a contiguous arena. So no policy is ever faster, nor has a plan where this one has none.
//! - `vtensor` looks at `whole` in a contiguous arena where the budget is few pages: there rounding
//!   to pages may cost more than moving whole tensors does.

use vtensor::PageBytes;

use super::need::PlanError;
use super::{Found, Request, contiguous, paged};
use crate::policy::Policy;
use crate::tricks::Tricks;

/// Budgets of fewer pages are few.
const PAGES_FEW: u64 = 400;

/// The faster one of what is there and of whole tensors in a contiguous arena.
pub(super) fn or_packed(request: &Request<'_>, page: PageBytes, own: Found) -> Found {
    if own.iteration_ns() <= good_ns(request) {
        return own;
    }
    packed(request, page, own.iteration_ns()).unwrap_or(own)
}

/// Whole tensors in a contiguous arena, if the budget is few pages and that is below `below_ns`.
pub(super) fn packed(request: &Request<'_>, page: PageBytes, below_ns: u64) -> Option<Found> {
    if request.budget.0 / page.get() >= PAGES_FEW {
        return None;
    }
    let request = Request {
        policy: Policy::Whole,
        ..*request
    };
    contiguous::plan(&request, page, below_ns).ok()
}

/// What takes no longer is good enough.
fn good_ns(request: &Request<'_>) -> u64 {
    request.skeleton.compute_ns() / 100 * 101
}

/// The fastest of what is there and what others lead to, if that takes less than `below_ns`.
pub(super) fn improve(
    request: &Request<'_>,
    page: PageBytes,
    own: Result<Found, PlanError>,
    below_ns: u64,
) -> Result<Found, PlanError> {
    let mut best = own;
    let others = Policy::ALL.into_iter();
    for policy in others.filter(|policy| policy.paged().is_some() || policy.is_published()) {
        let below_ns = best.as_ref().map_or(below_ns, Found::iteration_ns);
        let request = Request { policy, ..*request };
        let found = if policy.is_contiguous() {
            contiguous::plan(&request, page, below_ns)
        } else {
            paged::plan(&request, page, Tricks::default(), below_ns)
        };
        if let Ok(found) = found {
            best = Ok(found);
        }
    }
    best
}
