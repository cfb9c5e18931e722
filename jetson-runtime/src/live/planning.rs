//! From a transcript to a proven plan.
//!
//! Guarantees: only a plan that the verifier has passed is handed out. A page that is too coarse
//! for an op is halved until it fits or is the system's.

use lgm::cost::Load;
use lgm::planner::{self, Methods, PlanError, Request};
use lgm::policy::Policy;
use lgm::profile::{Link, Profile, SpillTier};
use lgm::trace::{MappedSkeleton, Tensor, Trace};
use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, PageBytes, limits};

use super::config::Config;
use super::link::NOTHING_MOVES;
use super::transcript::DEVICE;
use crate::scale::system_page;
use crate::spill::Spill;

/// Pages of an iteration's peak that are wanted: fine enough for pieces to matter, few enough for
/// copies and mappings not to.
const PEAK_PAGES: u64 = 1024;
/// The largest page that is taken unasked.
const PAGE_BYTES_MAX: u64 = 2 << 20;

/// What to plan for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub(super) budget: Bytes,
    pub(super) policy: Policy,
    pub(super) methods: Methods,
    pub(super) page: Option<PageBytes>,
    pub(super) spill: &'a Spill,
    pub(super) link: Link,
    /// The smallest page that can be.
    pub(super) least_page: u64,
}

/// A proven plan.
#[derive(Debug)]
pub(super) struct Proven {
    pub(super) plan: VerifiedPlan,
    pub(super) skeleton: MappedSkeleton,
    /// How long an iteration takes, as the cost model sees it, in nanoseconds.
    pub(super) predicted_ns: u64,
}

/// A plan that was proven before, for the iteration of a trace.
pub(super) fn loaded(trace: &Trace, plan: VerifiedPlan) -> Result<Proven, String> {
    let skeleton = trace
        .mapped_skeleton(DEVICE)
        .map_err(|error| error.to_string())?;
    let predicted_ns = Load::of_program(&plan.skeleton, &plan.program, &plan.profile.link)
        .simulate()
        .iteration_ns;
    Ok(Proven {
        plan,
        skeleton,
        predicted_ns,
    })
}

/// Plans and proves. The error is a sentence for people.
pub(super) fn prove(trace: &Trace, wish: Wish<'_>) -> Result<Proven, String> {
    let skeleton = trace
        .mapped_skeleton(DEVICE)
        .map_err(|error| error.to_string())?;
    let least = wish.least_page;
    let mut page = wish
        .page
        .unwrap_or_else(|| page_for(trace.peak_bytes(), least));
    let planned = loop {
        let profile = profile(wish, page);
        let planned = planner::plan(&Request {
            skeleton: &skeleton.skeleton,
            profile: &profile,
            budget: wish.budget,
            policy: wish.policy,
            methods: wish.methods,
            page: Some(page),
            trace_digest: trace.digest(),
            model: trace.model(),
        });
        let coarse = matches!(
            planned,
            Err(PlanError::OpTooLarge { .. } | PlanError::NoSchedule { .. })
        );
        match PageBytes::new(page.get() / 2) {
            Ok(half) if coarse && wish.page.is_none() && half.get() >= least => page = half,
            _ => break planned.map_err(|error| error.to_string())?,
        }
    };
    let predicted_ns = planned.timeline.iteration_ns;
    let plan = VerifiedPlan::new(planned.plan).map_err(|violation| {
        format!("the plan breaks a rule, which is a bug: {violation}; please report it")
    })?;
    Ok(Proven {
        plan,
        skeleton,
        predicted_ns,
    })
}

/// How long a program of a recorded iteration takes under a configuration, as the cost model sees
/// it, in nanoseconds; or why there can be none. Where the configuration has no link, any is taken:
/// whether it fits hardly depends on it, the time does.
///
/// # Errors
/// A sentence for people.
pub fn predict(trace: &Trace, config: &Config) -> Result<u64, String> {
    let keep = config.effective_keep();
    let stays = |tensor: &Tensor| tensor.persistent && keep.contains(tensor.kind);
    let kept = trace.tensors().iter().filter(|tensor| stays(tensor));
    let kept: u64 = kept
        .map(|tensor| tensor.bytes.0.next_multiple_of(limits::TENSOR_ALIGN))
        .sum();
    let all = config.budget.unwrap_or(Bytes(limits::TOTAL_BYTES_MAX));
    let Some(budget) = all.0.checked_sub(kept).map(Bytes) else {
        let kept = Bytes(kept);
        return Err(format!("what stays in the arena takes {kept} of {all}"));
    };
    let rest = trace.without(stays).map_err(|error| error.to_string())?;
    let wish = Wish {
        budget,
        policy: config.effective_policy(),
        methods: config.methods,
        page: config.page,
        spill: &config.spill,
        link: config.link.unwrap_or(NOTHING_MOVES),
        least_page: system_page(),
    };
    prove(&rest, wish).map(|proven| proven.predicted_ns)
}

/// The power of two near a share of the peak.
fn page_for(peak: Bytes, least: u64) -> PageBytes {
    let wanted = (peak.0 / PEAK_PAGES).clamp(least, PAGE_BYTES_MAX.max(least));
    PageBytes::new(wanted.next_power_of_two()).expect("a power of two from 4 KiB to 2 MiB")
}

fn profile(wish: Wish<'_>, page_bytes: PageBytes) -> Profile {
    let (class, spill) = match wish.spill {
        Spill::Ram => ('E', SpillTier::Host),
        Spill::File(_) => ('E', SpillTier::Storage),
    };
    Profile {
        name: DEVICE.into(),
        class,
        spill,
        link: wish.link,
        page_bytes,
    }
}
