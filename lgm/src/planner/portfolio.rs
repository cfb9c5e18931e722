//! A portfolio: the planner, and what the published policies choose.
//!
//! In: the planner's own program. Out: the fastest of it and of those that the published policies
//! and `whole` lead to, each by its own rules, on pages and in a contiguous arena. So no policy is
//! ever faster, nor has a plan where this one has none. Only who promises to be faster is laid out.

use vtensor::PageBytes;

use super::need::PlanError;
use super::{Found, Request, contiguous, paged};
use crate::policy::Policy;
use crate::tricks::Tricks;

/// The fastest of what is there and what others lead to.
pub(super) fn improve(
    request: &Request<'_>,
    page: PageBytes,
    own: Result<Found, PlanError>,
) -> Result<Found, PlanError> {
    let mut best = own;
    let others = Policy::ALL.into_iter();
    for policy in others.filter(|policy| policy.paged().is_some() || policy.is_published()) {
        let below_ns = best.as_ref().map_or(u64::MAX, Found::iteration_ns);
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
