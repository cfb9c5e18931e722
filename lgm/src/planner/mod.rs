//! The planner: the whole line from a skeleton to a plan.
//!
//! In: a skeleton, a device profile, a budget and a policy. Out: a [`Plan`], which still has to be
//! verified before anything runs it, and what it cost.
//!
//! Guarantees: the plan is a function of the inputs; the arena never exceeds the budget.
//!
//! Method: schedules are laid out, the fastest first, and the fastest program is kept. Schedules
//! for less memory leave pages free, so that they have a layout where tighter ones have none. They
//! are slower, so the search ends when none of them can be faster than what is there.

mod contiguous;
mod ground;
mod need;

use vtensor::{Bytes, PageBytes};

use self::ground::Ground;
pub use self::need::{Need, PlanError};
use crate::cost::{Load, Timeline};
use crate::demand::peak_bytes;
use crate::emit::emit;
use crate::layout::{self, Effort, layout};
use crate::plan::{Origin, Plan};
use crate::policy::{self, Policy, Scheduler, Task};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::program::Program;
use crate::queues::Pages;
use crate::schedule::Schedule;
use crate::share::Units;
use crate::skeleton::Skeleton;
use crate::tricks::Tricks;

/// Thousandths of the pages that schedules leave free, so that they have a layout, and one that
/// makes nobody wait.
const RETREATS: [i64; 13] = [0, 2, 4, 8, 16, 30, 60, 100, 150, 220, 300, 400, 500];
/// Work on the layouts of each retreat, about a tenth of a second, and so much more for each move.
const EFFORT: u64 = 6_000_000;
const EFFORT_PER_MOVE: u64 = 500;

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

/// Plans.
///
/// # Errors
/// If the skeleton is not sound, or the budget is too small: see [`PlanError`].
pub fn plan(request: &Request<'_>) -> Result<Planned, PlanError> {
    plan_with(request, Tricks::default())
}

/// Plans with some tricks only.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(request: &Request<'_>, tricks: Tricks) -> Result<Planned, PlanError> {
    request.skeleton.check().map_err(PlanError::Skeleton)?;
    if request.skeleton.tensors.is_empty() {
        let nothing = "it uses no memory, so there is nothing to plan";
        return Err(PlanError::Skeleton(nothing.into()));
    }
    let page = request.page.unwrap_or(request.profile.page_bytes);
    if request.policy.is_contiguous() {
        return contiguous::plan(request, page);
    }
    let ground = Ground::new(request, page, tricks);
    let graph = ground.graph();
    let pool = Pool::pack(&graph);
    let pool_pages = u64::from(pool.pages(page));
    let pages = Pages::of(&graph);
    let most = pages.live.iter().copied().max().unwrap_or(0);
    let arena = if request.policy == Policy::None {
        pool_pages + u64::try_from(most).expect("pages are not negative")
    } else {
        request.budget.0 / page.get()
    };
    let need = Need::largest(request.skeleton, &graph, &pool, request.policy);
    if need.all_pages() > arena {
        return Err(PlanError::OpTooLarge {
            need,
            budget: request.budget,
        });
    }
    let paged = i64::try_from(arena - pool_pages).expect("limits: at most 2^51 bytes");
    let mut candidates = Candidates {
        request,
        ground: layout::Ground {
            graph: &graph,
            link: &request.profile.link,
            tricks,
        },
        units: &ground.units,
        pool: &pool,
        paged: u32::try_from(paged).unwrap_or(u32::MAX),
        best: None,
    };
    let mut scheduler = Scheduler::new(request.policy, tricks);
    let capacity = paged.min(most);
    for retreat in RETREATS {
        let task = Task {
            graph: &graph,
            pages: &pages,
            capacity: capacity - (capacity * retreat + 999) / 1000,
            link: &request.profile.link,
        };
        let schedules = scheduler.schedules(task).unwrap_or_default();
        if !candidates.improve(&schedules) {
            break;
        }
    }
    match candidates.best {
        Some(found) => Ok(finish(request, found)),
        None => Err(PlanError::NoSchedule {
            policy: request.policy.name(),
            need,
            budget: request.budget,
        }),
    }
}

/// The fastest program so far, and what more are made of.
struct Candidates<'a> {
    request: &'a Request<'a>,
    ground: layout::Ground<'a>,
    units: &'a Units,
    pool: &'a Pool,
    /// Pages beside the pool.
    paged: u32,
    best: Option<Found>,
}

impl Candidates<'_> {
    /// Looks for a faster program among the layouts of some schedules, the fastest first; `false`
    /// if none of them, and hence no slower one, could be faster.
    fn improve(&mut self, schedules: &[Schedule]) -> bool {
        let moves = schedules.first().map_or(0, |schedule| schedule.moves.len());
        let mut effort = Effort(EFFORT + EFFORT_PER_MOVE * moves as u64);
        let mut promising = self.best.is_none();
        for schedule in schedules {
            let best_ns = self.best.as_ref().map(|best| best.timeline.iteration_ns);
            let below_ns = best_ns.unwrap_or(u64::MAX);
            if schedule.timeline.iteration_ns >= below_ns || effort.0 == 0 {
                break;
            }
            promising = true;
            let within = (self.paged, below_ns);
            let Some(layout) = layout(self.ground, schedule, within, &mut effort) else {
                continue;
            };
            let (skeleton, link) = (self.request.skeleton, self.ground.link);
            let program = emit(&layout, self.pool, self.units, skeleton);
            self.best = Some(Found {
                timeline: Load::of_program(skeleton, &program, link).simulate(),
                program,
                scheduled_ns: schedule.timeline.iteration_ns,
                peak_pages: self.pool.pages(self.ground.graph.page) + layout.peak_pages,
            });
        }
        promising
    }
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
