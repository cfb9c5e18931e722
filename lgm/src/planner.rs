//! The planner: the whole line from a skeleton to a plan.
//!
//! In: a skeleton, a device profile, a budget and a policy. Out: a [`Plan`], which still has to be
//! verified before anything runs it, and what it cost.
//!
//! Guarantees: the plan is a function of the inputs; the arena never exceeds the budget.

use vtensor::{Bytes, PageBytes};

use crate::cost::{Load, Timeline};
use crate::demand::{op_pages, peak_bytes};
use crate::graph::{Granularity, Graph};
use crate::layout::{Layout, layout};
use crate::plan::{Origin, Plan};
use crate::policy::{self, Policy, Task};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::queues::Pages;
use crate::schedule::Schedule;
use crate::skeleton::Skeleton;

/// Tensors below this share of a page live in the pool.
const POOL_SHARE: u64 = 4;
/// How many pages less the schedules may use when no layout fits, and the share of the pages that a
/// layout may waste: at first as good as nothing, then whatever the budget allows.
const RETREATS: [(&[i64], u32); 2] = [
    (&[0, 1, 2, 3, 4, 6, 8], 200),
    (
        &[0, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024],
        1,
    ),
];
/// How many layouts are compared.
const LAYOUTS_MAX: usize = 3;

/// What to plan.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The iteration.
    pub skeleton: &'a Skeleton,
    /// The device.
    pub profile: &'a Profile,
    /// Memory that the arena may take.
    pub budget: Bytes,
    /// What chooses the moves.
    pub policy: Policy,
    /// The page size, if not the device's.
    pub page: Option<PageBytes>,
    /// SHA-256 of the trace document.
    pub trace_digest: [u8; 32],
    /// The name of the model.
    pub model: &'a str,
}

/// A plan with what it cost.
#[derive(Debug)]
pub struct Planned {
    /// The plan, not verified.
    pub plan: Plan,
    /// Pages over the fewest that any layout of this schedule could use.
    pub page_overhead: f64,
    /// What the cost model says.
    pub timeline: Timeline,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The skeleton is not sound.
    #[error("the iteration cannot be planned: {0}")]
    Skeleton(String),
    /// An op does not fit.
    #[error(
        "op {op} `{name}` touches {touches}, which take {pages} pages of {page} together with \
         {pool_pages} pages of small tensors: {needs}; the budget is {budget}. Give at least {needs}\
         {smaller}"
    )]
    OpTooLarge {
        /// Which op.
        op: u32,
        /// Its name.
        name: String,
        /// The bytes that it touches.
        touches: Bytes,
        /// The pages that these take.
        pages: u64,
        /// The page size.
        page: Bytes,
        /// Pages of the pool.
        pool_pages: u64,
        /// What the op needs in all.
        needs: Bytes,
        /// The budget.
        budget: Bytes,
        /// A hint, or nothing.
        smaller: &'static str,
    },
    /// Every op fits, but the policy finds no schedule, or its layout does not fit.
    #[error(
        "policy `{policy}` finds no plan for {budget} although every op fits: at op {op} `{name}` \
         more is held than there is; give more, or try another policy"
    )]
    NoSchedule {
        /// The policy.
        policy: &'static str,
        /// Where it failed last.
        op: u32,
        /// That op's name.
        name: String,
        /// The budget.
        budget: Bytes,
    },
}

/// Plans.
///
/// # Errors
/// If the skeleton is not sound, or the budget is too small: see [`PlanError`].
pub fn plan(request: &Request<'_>) -> Result<Planned, PlanError> {
    request.skeleton.check().map_err(PlanError::Skeleton)?;
    let page = request.page.unwrap_or(request.profile.page_bytes);
    let unlimited = request.policy == Policy::None;
    let granularity = Granularity {
        page,
        pool_below: page.get() / POOL_SHARE,
        park_unused: !unlimited,
    };
    let graph = Graph::new(request.skeleton, granularity);
    let pool = Pool::pack(&graph);
    let pool_pages = page.pages_for(pool.bytes());
    let pages = Pages::of(&graph);
    let most = pages.live.iter().copied().max().unwrap_or(0);
    let arena = if unlimited {
        pool_pages + u64::try_from(most).expect("pages are not negative")
    } else {
        request.budget.0 / page.get()
    };
    fits(request, &graph, pool_pages, arena)?;
    let capacity = i64::try_from(arena - pool_pages).expect("limits: at most 2^51 bytes");
    let arena = u32::try_from(arena.min(u64::from(u32::MAX))).expect("just bounded");
    let mut failed_at = 0;
    for (retreat, waste) in RETREATS {
        for &less in retreat {
            let task = Task {
                graph: &graph,
                pages: &pages,
                capacity: capacity.min(most) - less,
                link: &request.profile.link,
            };
            match policy::schedules(request.policy, task) {
                Ok(schedules) => {
                    let laid_out = best_layout(request, &graph, &pool, &schedules, arena, waste);
                    if let Some((laid_out, timeline)) = laid_out {
                        return Ok(finish(request, &graph, laid_out, timeline));
                    }
                }
                Err(overfull) => {
                    failed_at = overfull.step;
                    break;
                }
            }
        }
    }
    Err(PlanError::NoSchedule {
        policy: request.policy.name(),
        op: failed_at,
        name: request.skeleton.ops[failed_at as usize].name.clone(),
        budget: request.budget,
    })
}

/// The layout of some schedules that is the fastest with all the waits that follow from its pages.
fn best_layout(
    request: &Request<'_>,
    graph: &Graph<'_>,
    pool: &Pool,
    schedules: &[Schedule],
    arena: u32,
    waste: u32,
) -> Option<(Layout, Timeline)> {
    let pool_pages = u32::try_from(graph.page.pages_for(pool.bytes())).ok()?;
    let laid_out = schedules.iter().filter_map(|schedule| {
        let peak = u32::try_from(schedule.queues.peak).ok()?;
        let most = arena.min((pool_pages + peak).saturating_add(peak / waste));
        let layout = layout(graph, pool, schedule, most)?;
        let link = &request.profile.link;
        let timeline = Load::of_program(request.skeleton, &layout.program, link).simulate();
        Some((layout, timeline))
    });
    laid_out
        .take(LAYOUTS_MAX)
        .min_by_key(|(_, timeline)| timeline.iteration_ns)
}

/// Whether every op fits into the arena by itself.
fn fits(
    request: &Request<'_>,
    graph: &Graph<'_>,
    pool_pages: u64,
    arena: u64,
) -> Result<(), PlanError> {
    let needed = op_pages(graph);
    let largest = (0..needed.len()).max_by_key(|&op| (needed[op], core::cmp::Reverse(op)));
    let op = largest.expect("a checked skeleton has an op");
    let pages = u64::try_from(needed[op]).expect("pages are not negative");
    if pages + pool_pages <= arena {
        return Ok(());
    }
    let page = graph.page.get();
    Err(PlanError::OpTooLarge {
        op: u32::try_from(op).expect("limits: at most 2^20 ops"),
        name: request.skeleton.ops[op].name.clone(),
        touches: op_bytes(request.skeleton, op),
        pages,
        page: Bytes(page),
        pool_pages,
        needs: Bytes((pages + pool_pages).saturating_mul(page)),
        budget: request.budget,
        smaller: if page > PageBytes::MIN.get() {
            ", or try smaller pages"
        } else {
            ""
        },
    })
}

fn op_bytes(skeleton: &Skeleton, op: usize) -> Bytes {
    let accesses = skeleton.accesses_of(vtensor::OpIndex::from_index(op));
    Bytes(
        accesses
            .iter()
            .map(|access| skeleton.tensor(access.tensor).bytes.0)
            .sum(),
    )
}

fn finish(
    request: &Request<'_>,
    graph: &Graph<'_>,
    laid_out: Layout,
    timeline: Timeline,
) -> Planned {
    let program = laid_out.program;
    let largest = (0..request.skeleton.ops.len()).map(|op| op_bytes(request.skeleton, op));
    let origin = Origin {
        planner: concat!("lgm ", env!("CARGO_PKG_VERSION")).into(),
        trace_digest: request.trace_digest,
        model: request.model.into(),
        policy: request.policy.name().into(),
        budget: request.budget,
        peak: peak_bytes(graph),
        largest_op: largest.max().unwrap_or_default(),
        seed: 0,
        evaluations_max: policy::evaluations_max(request.policy),
    };
    Planned {
        page_overhead: f64::from(program.arena_pages) / f64::from(laid_out.peak_pages.max(1)),
        timeline,
        plan: Plan {
            origin,
            profile: request.profile.clone(),
            skeleton: request.skeleton.clone(),
            program,
        },
    }
}
