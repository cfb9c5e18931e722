//! Plans with whole tensors in one contiguous arena, as published systems place them.

use vtensor::PageBytes;

use super::ground::{best_share, needed_pages};
use super::need::{Need, PlanError};
use super::{Found, Request};
use crate::graph::{Granularity, Graph};
use crate::packed;
use crate::pool::Pool;

/// Plans, if that takes less than `below_ns`. Tensors are counted in small units, and `page` is
/// only what the program's arena is made of.
pub(super) fn plan(
    request: &Request<'_>,
    page: PageBytes,
    below_ns: u64,
) -> Result<Found, PlanError> {
    let fixed = request.skeleton.tensors.iter().filter(|t| t.fixed).count();
    if fixed > 0 {
        return Err(PlanError::Fixed {
            policy: request.policy.name(),
            count: fixed,
        });
    }
    let graph = best_graph(request, page.min(packed::POOL_OF));
    let pool = Pool::pack(&graph);
    let need = Need::largest(request.skeleton, &graph, &pool, request.policy);
    let arena = packed::Arena {
        bytes: request.budget,
        page,
        below_ns,
    };
    let units = request.budget.0 / page.get() * (page.get() / packed::UNIT.get());
    if need.all_pages() > units {
        return Err(PlanError::OpTooLarge {
            need,
            budget: request.budget,
        });
    }
    let link = &request.profile.link;
    match packed::plan(request.policy, &graph, link, arena) {
        Some(packed) => Ok(Found {
            peak_pages: u32::try_from(page.pages_for(packed.load))
                .expect("no more than the arena has"),
            scheduled_ns: packed.timeline.iteration_ns,
            timeline: packed.timeline,
            program: packed.program,
        }),
        None => Err(PlanError::NoSchedule {
            policy: request.policy.name(),
            need,
            budget: request.budget,
        }),
    }
}

/// The graph, with as many small tensors in the pool as leave room for every op. They are those
/// below a share of a page, or of [`packed::POOL_OF`] if that is less.
fn best_graph<'a>(request: &Request<'a>, pool_of: PageBytes) -> Graph<'a> {
    best_share(request.budget.0 / packed::UNIT.get(), |share| {
        let granularity = Granularity {
            page: packed::UNIT,
            pool_below: pool_of.get() / share,
            park_unused: true,
        };
        let graph = Graph::new(request.skeleton, granularity);
        (needed_pages(&graph), graph)
    })
}
