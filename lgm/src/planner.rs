//! The planner: the whole line from a skeleton to a plan.
//!
//! In: a skeleton, a device profile, a budget and a policy. Out: a [`Plan`], which still has to be
//! verified before anything runs it, and what it cost.
//!
//! Guarantees: the plan is a function of the inputs; the arena never exceeds the budget.

use vtensor::{Bytes, PageBytes};

use crate::cost::{Load, Timeline};
use crate::demand::{op_pages, peak_bytes};
use crate::emit::emit;
use crate::graph::{Granularity, Graph};
use crate::layout::{Effort, layout};
use crate::plan::{Origin, Plan};
use crate::policy::{self, Policy, Task};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::program::Program;
use crate::queues::Pages;
use crate::schedule::Schedule;
use crate::skeleton::Skeleton;

/// Tensors below this share of a page live in the pool; the first is the best for most models.
const POOL_SHARES: [u64; 4] = [4, 8, 16, 2];
/// What is tried until a schedule has a layout.
struct Attempt {
    /// Thousandths of the pages that the schedules leave free.
    retreats: &'static [i64],
    /// The share of the pages that a layout may waste is one in so many.
    waste: u32,
}

/// At first layouts that waste as good as nothing, then whatever the budget allows.
const ATTEMPTS: [Attempt; 2] = [
    Attempt {
        retreats: &[0, 1, 3, 5, 8, 12, 16],
        waste: 200,
    },
    Attempt {
        retreats: &[
            0, 5, 10, 20, 30, 40, 60, 80, 100, 130, 160, 200, 250, 300, 400, 500,
        ],
        waste: 1,
    },
];
/// Work on the layouts of one attempt: tenths of a second.
const EFFORT: Effort = Effort(200_000_000);
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
         {pool_pages} pages of small tensors: {needs}; the budget is {budget}. Give at least \
         {needs}{smaller}"
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
    let (graph, pool) = graph_and_pool(request, page);
    let pool_pages = u64::from(pool.pages(page));
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
    for attempt in ATTEMPTS {
        for &less in attempt.retreats {
            let room = capacity.min(most);
            let task = Task {
                graph: &graph,
                pages: &pages,
                capacity: room - (room * less + 999) / 1000,
                link: &request.profile.link,
            };
            match policy::schedules(request.policy, task) {
                Ok(schedules) => {
                    let within = (arena, attempt.waste);
                    let mut effort = EFFORT;
                    let found =
                        best_program(request, &graph, &pool, &schedules, within, &mut effort);
                    if let Some(found) = found {
                        return Ok(finish(request, &graph, found));
                    }
                }
                Err(overfull) => failed_at = overfull.step,
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

/// The graph, with as many small tensors in the pool as leave room for every op; their place is
/// better used, but they never leave.
fn graph_and_pool<'a>(request: &Request<'a>, page: PageBytes) -> (Graph<'a>, Pool) {
    let park_unused = request.policy != Policy::None;
    let with_share = |share| {
        let granularity = Granularity {
            page,
            pool_below: page.get() / share,
            park_unused,
        };
        let graph = Graph::new(request.skeleton, granularity);
        let pool = Pool::pack(&graph);
        (graph, pool)
    };
    let needed = |(graph, pool): &(Graph<'_>, Pool)| {
        let largest = op_pages(graph).into_iter().max().unwrap_or(0);
        u64::from(pool.pages(page)) + u64::try_from(largest).expect("pages are not negative")
    };
    let mut best = with_share(POOL_SHARES[0]);
    for share in &POOL_SHARES[1..] {
        if needed(&best) <= request.budget.0 / page.get() {
            break;
        }
        let next = with_share(*share);
        if needed(&next) < needed(&best) {
            best = next;
        }
    }
    best
}

/// The program of some schedules that is the fastest with all the waits that follow from its pages.
fn best_program(
    request: &Request<'_>,
    graph: &Graph<'_>,
    pool: &Pool,
    schedules: &[Schedule],
    (arena, waste): (u32, u32),
    effort: &mut Effort,
) -> Option<Found> {
    let paged = arena - pool.pages(graph.page);
    let programs = schedules.iter().filter_map(|schedule| {
        let peak = u32::try_from(schedule.queues.peak).ok()?;
        let most = paged.min(peak.saturating_add(peak / waste));
        let layout = layout(graph, schedule, most, effort)?;
        let program = emit(&layout, pool);
        let link = &request.profile.link;
        let timeline = Load::of_program(request.skeleton, &program, link).simulate();
        let peak_pages = pool.pages(graph.page) + layout.peak_pages;
        Some(Found {
            program,
            timeline,
            peak_pages,
        })
    });
    programs
        .take(LAYOUTS_MAX)
        .min_by_key(|found| found.timeline.iteration_ns)
}

/// A program, and what is known of it.
struct Found {
    program: Program,
    timeline: Timeline,
    peak_pages: u32,
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

fn finish(request: &Request<'_>, graph: &Graph<'_>, found: Found) -> Planned {
    let program = found.program;
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
        page_overhead: f64::from(program.arena_pages) / f64::from(found.peak_pages.max(1)),
        timeline: found.timeline,
        plan: Plan {
            origin,
            profile: request.profile.clone(),
            skeleton: request.skeleton.clone(),
            program,
        },
    }
}
