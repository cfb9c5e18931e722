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
use crate::layout::{self, Effort, layout};
use crate::plan::{Origin, Plan};
use crate::policy::{self, Policy, Scheduler, Task};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::program::Program;
use crate::queues::Pages;
use crate::schedule::Schedule;
use crate::share::{Terms, Units};
use crate::skeleton::Skeleton;

/// Tensors below this share of a page live in the pool; the first is the best for most models.
const POOL_SHARES: [u64; 4] = [4, 8, 16, 2];
/// Thousandths of the pages that schedules leave free, so that they have a layout, and one that
/// makes nobody wait.
const RETREATS: [i64; 13] = [0, 2, 4, 8, 16, 30, 60, 100, 150, 220, 300, 400, 500];
/// Work on the layouts of one plan: tenths of a second.
const EFFORT: Effort = Effort(20_000_000);
/// Work on the layouts of each retreat as long as there is no plan.
const EFFORT_MIN: Effort = Effort(8_000_000);

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
    /// Nanoseconds of an iteration by the schedule alone, before its pages make it wait for more.
    pub scheduled_ns: u64,
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
    let unlimited = request.policy == Policy::None;
    let ground = Ground::new(request, page);
    let graph = ground.graph();
    let pool = Pool::pack(&graph);
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
    let mut best: Option<Found> = None;
    let mut effort = EFFORT;
    let mut scheduler = Scheduler::new(request.policy);
    for retreat in RETREATS {
        let task = Task {
            graph: &graph,
            pages: &pages,
            capacity: capacity - (capacity * retreat + 999) / 1000,
            link: &request.profile.link,
        };
        let t0 = std::time::Instant::now();
        let schedules = scheduler.schedules(task).unwrap_or_default();
        let t1 = t0.elapsed();
        let e0 = effort.0;
        effort = EFFORT_MIN;
        if std::env::var("DBG").is_ok() {
            eprintln!(
                "retreat {retreat} search {t1:?} best sched {:?}",
                schedules.first().map(|s| s.timeline.iteration_ns)
            );
        }
        // With less memory schedules are slower, and layouts at most as fast as their schedules.
        if !improve(
            &mut best,
            (&graph, &pages, &pool, &ground.units),
            &schedules,
            (arena, request),
            &mut effort,
        ) {
            break;
        }
        if std::env::var("DBG").is_ok() {
            eprintln!(
                "   layout {:?} effort {} best {:?}",
                t0.elapsed() - t1,
                e0 - effort.0,
                best.as_ref().map(|b| b.timeline.iteration_ns)
            );
        }
    }
    if let Some(found) = best {
        return Ok(finish(request, found));
    }
    Err(PlanError::NoSchedule {
        policy: request.policy.name(),
        need,
        budget: request.budget,
    })
}

/// What a plan stands on: the units, and which of them are too small for pages.
struct Ground {
    units: Units,
    granularity: Granularity,
}

impl Ground {
    /// With as many small tensors in the pool as leave room for every op; their place is better
    /// used, but they never leave.
    fn new(request: &Request<'_>, page: PageBytes) -> Self {
        let budget_pages = request.budget.0 / page.get();
        let mut best: Option<(u64, Self)> = None;
        for share in POOL_SHARES {
            if best
                .as_ref()
                .is_some_and(|(needed, _)| *needed <= budget_pages)
            {
                break;
            }
            let ground = Self::with_share(request, page, share);
            let needed = ground.needed_pages();
            if best.as_ref().is_none_or(|(fewest, _)| needed < *fewest) {
                best = Some((needed, ground));
            }
        }
        best.expect("there are shares").1
    }

    fn with_share(request: &Request<'_>, page: PageBytes, share: u64) -> Self {
        let terms = Terms {
            page,
            pool_below: page.get() / share,
            budget: request.budget.0,
        };
        let units = if request.policy == Policy::Vtensor {
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

    fn graph(&self) -> Graph<'_> {
        Graph::new(&self.units.skeleton, self.granularity)
    }

    /// Pages that the largest op needs, beside the pool.
    fn needed_pages(&self) -> u64 {
        let graph = self.graph();
        let largest = op_pages(&graph).into_iter().max().unwrap_or(0);
        u64::from(Pool::pack(&graph).pages(graph.page))
            + u64::try_from(largest).expect("pages are not negative")
    }
}

/// Looks for a faster program among the layouts of some schedules; `false` if that is idle.
fn improve(
    best: &mut Option<Found>,
    (graph, pages, pool, units): (&Graph<'_>, &Pages, &Pool, &Units),
    schedules: &[Schedule],
    (arena, request): (u32, &Request<'_>),
    effort: &mut Effort,
) -> bool {
    let most = arena - pool.pages(graph.page);
    let mut promising = best.is_none();
    for schedule in schedules {
        let below_ns = best.as_ref().map_or(u64::MAX, |b| b.timeline.iteration_ns);
        if schedule.timeline.iteration_ns >= below_ns || effort.0 == 0 {
            break;
        }
        promising = true;
        let within = (most, below_ns);
        let ground = layout::Ground {
            graph,
            pages,
            link: &request.profile.link,
        };
        let Some(layout) = layout(ground, schedule, within, effort) else {
            continue;
        };
        let peak_pages = pool.pages(graph.page) + layout.peak_pages.min(layout.pages);
        let program = emit(&layout, pool, units, request.skeleton);
        let load = Load::of_program(request.skeleton, &program, &request.profile.link);
        *best = Some(Found {
            program,
            scheduled_ns: schedule.timeline.iteration_ns,
            peak_pages,
            timeline: load.simulate(),
        });
    }
    promising
}

/// A program, and what is known of it.
struct Found {
    program: Program,
    timeline: Timeline,
    scheduled_ns: u64,
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

fn finish(request: &Request<'_>, found: Found) -> Planned {
    let program = found.program;
    let largest = (0..request.skeleton.ops.len()).map(|op| op_bytes(request.skeleton, op));
    let origin = Origin {
        planner: concat!("lgm ", env!("CARGO_PKG_VERSION")).into(),
        trace_digest: request.trace_digest,
        model: request.model.into(),
        policy: request.policy.name().into(),
        budget: request.budget,
        peak: peak_bytes(request.skeleton),
        largest_op: largest.max().unwrap_or_default(),
        seed: 0,
        evaluations_max: policy::evaluations_max(request.policy),
    };
    Planned {
        page_overhead: f64::from(program.arena_pages) / f64::from(found.peak_pages.max(1)),
        timeline: found.timeline,
        scheduled_ns: found.scheduled_ns,
        plan: Plan {
            origin,
            profile: request.profile.clone(),
            skeleton: request.skeleton.clone(),
            program,
        },
    }
}
