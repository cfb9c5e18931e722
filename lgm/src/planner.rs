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
use crate::packed;
use crate::plan::{Origin, Plan};
use crate::policy::{self, Policy, Task};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::program::Program;
use crate::queues::Pages;
use crate::schedule::Schedule;
use crate::skeleton::Skeleton;

/// Tensors below this share of a page live in the pool (contiguous: of a page or of
/// [`packed::POOL_OF`], whichever is less); the first is the best for most models.
const POOL_SHARES: [u64; 4] = [4, 8, 16, 2];
/// Thousandths of the pages that schedules leave free until one has a layout that wastes as good as
/// nothing; the rest of them is tried with whatever waste the budget allows.
const RETREATS: [i64; 13] = [0, 2, 4, 8, 16, 30, 60, 100, 150, 220, 300, 400, 500];
/// How many of the retreats are tried without waste first.
const FRUGAL: usize = 5;
/// A frugal layout wastes one page in so many.
const WASTE: u32 = 200;
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
    #[error("{need}; the budget is {budget}. Give at least {}, or try smaller pages", need.all())]
    OpTooLarge {
        /// What the op needs.
        need: Need,
        /// The budget.
        budget: Bytes,
    },
    /// Every op fits, but the policy finds no schedule, or its layout does not fit.
    #[error(
        "policy `{policy}` finds no plan for {budget}, though the largest op fits: {need}. Give \
         more memory, or try smaller pages or another policy"
    )]
    NoSchedule {
        /// The policy.
        policy: &'static str,
        /// What the largest op needs.
        need: Need,
        /// The budget.
        budget: Bytes,
    },
}

/// What an op needs, as the layout packs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which op.
    pub op: u32,
    /// Its name.
    pub name: String,
    /// The bytes that it touches.
    pub touches: Bytes,
    /// The pages that these take.
    pub pages: u64,
    /// Pages of the pool, which is always there.
    pub pool_pages: u64,
    /// The page size.
    pub page: PageBytes,
}

impl Need {
    /// What the op that needs the most pages needs.
    fn largest(skeleton: &Skeleton, graph: &Graph<'_>, pool: &Pool) -> Self {
        let needed = op_pages(graph);
        let largest = (0..needed.len()).max_by_key(|&op| (needed[op], core::cmp::Reverse(op)));
        let op = largest.expect("a checked skeleton has an op");
        Self {
            op: u32::try_from(op).expect("limits: at most 2^20 ops"),
            name: skeleton.ops[op].name.clone(),
            touches: op_bytes(skeleton, op),
            pages: u64::try_from(needed[op]).expect("pages are not negative"),
            pool_pages: u64::from(pool.pages(graph.page)),
            page: graph.page,
        }
    }

    /// The smallest budget that the op fits into, in words.
    fn all(&self) -> String {
        let bytes = Bytes((self.pages + self.pool_pages).saturating_mul(self.page.get()));
        format!("{bytes} ({} bytes)", bytes.0)
    }
}

impl core::fmt::Display for Need {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            op,
            name,
            touches,
            pages,
            pool_pages,
            page,
        } = self;
        write!(
            f,
            "op {op} `{name}` touches {touches}, which take {pages} pages of {} together with \
             {pool_pages} pages of small tensors: {}",
            Bytes(page.get()),
            self.all()
        )
    }
}

/// Plans.
///
/// # Errors
/// If the skeleton is not sound, or the budget is too small: see [`PlanError`].
pub fn plan(request: &Request<'_>) -> Result<Planned, PlanError> {
    request.skeleton.check().map_err(PlanError::Skeleton)?;
    if request.skeleton.tensors.is_empty() {
        let nothing = "it uses no memory, so there is nothing to plan";
        return Err(PlanError::Skeleton(nothing.into()));
    }
    let page = request.page.unwrap_or(request.profile.page_bytes);
    if request.policy.is_contiguous() {
        return plan_contiguous(request, page);
    }
    let unlimited = request.policy == Policy::None;
    let (graph, pool) = graph_and_pool(request, page, page);
    let pool_pages = u64::from(pool.pages(page));
    let pages = Pages::of(&graph);
    let most = pages.live.iter().copied().max().unwrap_or(0);
    let arena = if unlimited {
        pool_pages + u64::try_from(most).expect("pages are not negative")
    } else {
        request.budget.0 / page.get()
    };
    let need = Need::largest(request.skeleton, &graph, &pool);
    if need.pages + pool_pages > arena {
        return Err(PlanError::OpTooLarge {
            need,
            budget: request.budget,
        });
    }
    let capacity = i64::try_from(arena - pool_pages)
        .expect("limits: at most 2^51 bytes")
        .min(most);
    let arena = u32::try_from(arena.min(u64::from(u32::MAX))).expect("just bounded");
    let mut schedules: Vec<Vec<Schedule>> = Vec::new();
    let frugal = (0..FRUGAL).map(|retreat| (retreat, WASTE));
    for (retreat, waste) in frugal.chain((0..RETREATS.len()).map(|retreat| (retreat, 1))) {
        if retreat == schedules.len() {
            let task = Task {
                graph: &graph,
                pages: &pages,
                capacity: capacity - (capacity * RETREATS[retreat] + 999) / 1000,
                link: &request.profile.link,
            };
            schedules.push(policy::schedules(request.policy, task).unwrap_or_default());
        }
        let within = (arena, waste);
        if let Some(found) = best_program(request, &graph, &pool, &schedules[retreat], within) {
            return Ok(finish(request, &graph, found));
        }
    }
    Err(PlanError::NoSchedule {
        policy: request.policy.name(),
        need,
        budget: request.budget,
    })
}

/// Plans with whole tensors in one contiguous arena. They are counted in small units, and `page` is
/// only what the program's arena is made of.
fn plan_contiguous(request: &Request<'_>, page: PageBytes) -> Result<Planned, PlanError> {
    let (graph, pool) = graph_and_pool(request, packed::UNIT, page.min(packed::POOL_OF));
    let need = Need::largest(request.skeleton, &graph, &pool);
    let arena = packed::Arena {
        bytes: request.budget,
        page,
    };
    let units = request.budget.0 / page.get() * (page.get() / packed::UNIT.get());
    if need.pages + u64::from(pool.pages(packed::UNIT)) > units {
        return Err(PlanError::OpTooLarge {
            need,
            budget: request.budget,
        });
    }
    let link = &request.profile.link;
    match packed::plan(request.policy, &graph, link, arena) {
        Some(packed) => {
            let found = Found {
                peak_pages: u32::try_from(page.pages_for(packed.load))
                    .expect("no more than the arena has"),
                program: packed.program,
                timeline: packed.timeline,
            };
            Ok(finish(request, &graph, found))
        }
        None => Err(PlanError::NoSchedule {
            policy: request.policy.name(),
            need,
            budget: request.budget,
        }),
    }
}

/// The graph, with as many small tensors in the pool as leave room for every op; their place is
/// better used, but they never leave.
fn graph_and_pool<'a>(
    request: &Request<'a>,
    page: PageBytes,
    pool_of: PageBytes,
) -> (Graph<'a>, Pool) {
    let park_unused = request.policy != Policy::None;
    let with_share = |share| {
        let granularity = Granularity {
            page,
            pool_below: pool_of.get() / share,
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
) -> Option<Found> {
    let mut effort = EFFORT;
    let paged = arena - pool.pages(graph.page);
    let programs = schedules.iter().filter_map(|schedule| {
        let peak = u32::try_from(schedule.queues.peak).ok()?;
        let most = paged.min(peak.saturating_add(peak / waste));
        let layout = layout(graph, schedule, most, &mut effort)?;
        let program = emit(&layout, pool);
        let link = &request.profile.link;
        let timeline = Load::of_program(request.skeleton, &program, link).simulate();
        let peak_pages = pool.pages(graph.page) + layout.peak_pages.min(layout.pages);
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
