//! The planner: the whole line from a skeleton to a plan.
//!
//! In: a skeleton, a device profile, a budget and a policy. Out: a [`Plan`], which still has to be
//! verified before anything runs it, and what it cost.
//!
//! Guarantees: the plan is a function of the inputs; the arena never exceeds the budget.
//!
//! | module | noun |
//! |---|---|
//! | `paged` | plans on pages |
//! | `candidates` | programs of schedules, of which the fastest is kept |
//! | `contiguous` | plans in one contiguous arena |
//! | `portfolio` | what other policies lead to, where that is faster |
//! | `methods` | how gaps may be closed |
//! | `mixed` | plans that run ops again, alone or beside swapping |
//! | `ground` | what a plan on pages stands on |
//! | `need` | what an op needs, and why there is no plan |

mod candidates;
mod contiguous;
mod ground;
mod methods;
mod mixed;
mod need;
mod paged;
mod portfolio;

use vtensor::{Bytes, PageBytes};

pub use self::methods::{Methods, UnknownMethods};
pub use self::need::{Need, PlanError};
use crate::cost::Timeline;
use crate::demand::peak_bytes;
use crate::plan::{Origin, Plan, Replays};
use crate::policy::{self, Policy};
use crate::profile::Profile;
use crate::program::Program;
use crate::recompute::Script;
use crate::skeleton::Skeleton;
use crate::tricks::Tricks;

/// Steps of so many ops, some addresses of which are fixed, take so little to plan that they are
/// planned as if all were, too.
const SHORT: usize = 300;

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
    /// How gaps may be closed. Only the planner's own policies run ops again.
    pub methods: Methods,
    /// The page size, if not the device's.
    pub page: Option<PageBytes>,
    /// SHA-256 of the trace document.
    pub trace_digest: [u8; 32],
    /// The name of the model.
    pub model: &'a str,
}

impl Request<'_> {
    /// How gaps are closed: only the planner's own policies leave that open.
    #[must_use]
    pub fn methods_used(&self) -> Methods {
        match self.policy {
            Policy::Checkpoint => Methods::Recompute,
            policy if policy.is_in_pieces() => self.methods,
            _ => Methods::Swap,
        }
    }
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
    let (found, script) = match request.methods_used() {
        Methods::Swap => (by_policy(request, page, tricks, u64::MAX)?, None),
        Methods::Recompute if request.policy == Policy::Checkpoint => {
            mixed::checkpoint(request, page, tricks)?
        }
        Methods::Recompute => mixed::recompute(request, page, tricks)?,
        Methods::Both => mixed::both(request, page, tricks)?,
    };
    if found.program.arena_pages == 0 {
        let nothing = "no op uses memory, so there is nothing to plan";
        return Err(PlanError::Skeleton(nothing.into()));
    }
    Ok(finish(request, found, script))
}

/// Plans an iteration as it is, if that takes less than `below_ns`. Where some addresses are fixed
/// in a short step, no plan is slower than the one if all were.
fn by_policy(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
    below_ns: u64,
) -> Result<Found, PlanError> {
    let found = in_one_way(request, page, tricks, below_ns);
    let short = request.skeleton.ops.len() <= SHORT && below_ns == u64::MAX;
    let Some(skeleton) = all_fixed(request.skeleton).filter(|_| short) else {
        return found;
    };
    let request = Request {
        skeleton: &skeleton,
        ..*request
    };
    match (found, in_one_way(&request, page, tricks, below_ns)) {
        (Ok(found), Ok(still)) if still.iteration_ns() < found.iteration_ns() => Ok(still),
        (Err(_), Ok(still)) => Ok(still),
        (found, _) => found,
    }
}

/// The skeleton as if no address might change; `None` if that makes no difference, or if none is
/// fixed.
fn all_fixed(skeleton: &Skeleton) -> Option<Skeleton> {
    let fixed = skeleton.tensors.iter().filter(|tensor| tensor.fixed);
    let count = fixed.count();
    (0 < count && count < skeleton.tensors.len()).then(|| {
        let mut all = skeleton.clone();
        all.tensors
            .iter_mut()
            .for_each(|tensor| tensor.fixed = true);
        all
    })
}

/// Plans an iteration with the fixed addresses that it has, if that takes less than `below_ns`.
fn in_one_way(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
    below_ns: u64,
) -> Result<Found, PlanError> {
    let found = if request.policy.is_contiguous() {
        contiguous::plan(request, page, below_ns)
    } else {
        paged::plan(request, page, tricks, below_ns)
    };
    match request.policy {
        Policy::Vtensor if tricks.packed => match found {
            Ok(found) => Ok(portfolio::or_packed(request, page, found)),
            // On pages there may be none that is so fast.
            Err(error) if below_ns < u64::MAX => {
                portfolio::packed(request, page, below_ns).ok_or(error)
            }
            none => none,
        },
        Policy::Portfolio if tricks.seeds => portfolio::improve(request, page, found, below_ns),
        _ => found,
    }
}

/// A program, and what is known of it.
struct Found {
    program: Program,
    timeline: Timeline,
    scheduled_ns: u64,
    peak_pages: u32,
}

impl Found {
    fn iteration_ns(&self) -> u64 {
        self.timeline.iteration_ns
    }
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

fn finish(request: &Request<'_>, found: Found, script: Option<Script>) -> Planned {
    let mut program = found.program;
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
    let (skeleton, replays) = match script {
        Some(script) => {
            let steps = program.steps.iter_mut().zip(&script.kinds);
            steps.for_each(|(step, kind)| step.kind = *kind);
            let original = request.skeleton.clone();
            let lives = script.lives;
            (script.steps, Some(Replays { original, lives }))
        }
        None => (request.skeleton.clone(), None),
    };
    Planned {
        page_overhead: f64::from(program.arena_pages) / f64::from(found.peak_pages.max(1)),
        timeline: found.timeline,
        scheduled_ns: found.scheduled_ns,
        plan: Plan {
            origin,
            profile: request.profile.clone(),
            skeleton,
            replays,
            program,
        },
    }
}
