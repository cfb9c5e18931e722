//! From a request to a proven plan, with everything that is said about it.
//!
//! In: what to plan. Out: the plan, its proof or the rule that it breaks, and its report.
//! Guarantees: only a plan that holds is handed out as one.
//!
//! *Not here*: planning and proving themselves (crate `lgm`).

use std::time::Instant;

use jetson_runtime::{Options, Planned as Fitted, RuntimeError, written_per_day};
use lgm::bound::lower_bound_ns;
use lgm::planner::{self, PlanError, Request};
use lgm::policy::Policy;
use lgm::profile::SpillTier;
use lgm::program::Program;
use lgm::tricks::Tricks;
use lgm::verify::{VerifiedPlan, Violation};
use vtensor::{Bytes, PageBytes};

use crate::error::BenchError;
use crate::report::{PlanDetails, PlanReport, Windows};

/// A plan that holds, with its report.
#[derive(Clone, Debug)]
pub struct Proven {
    /// The plan.
    pub plan: VerifiedPlan,
    /// What the fixed keys say.
    pub report: PlanReport,
    /// What only the text says.
    pub details: PlanDetails,
}

/// A plan that does not hold.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The rule that it breaks.
    pub violation: Violation,
    /// What the fixed keys say.
    pub report: PlanReport,
}

/// Pages below this are not tried unasked where a budget holds many: they cost mappings.
const PAGE_BYTES_TRIED_MIN: u64 = 64 << 10;
/// Pages of a budget that are few.
const PAGES_FEW: u64 = 1 << 14;

/// Plans. Where the device's page is too coarse for an op to fit beside the pool of small tensors,
/// or for the policy to find a plan, and no page size was asked for, smaller ones are tried.
///
/// # Errors
/// That of the last page size that was tried.
pub fn plan(request: &Request<'_>) -> Result<planner::Planned, PlanError> {
    plan_with(request, Tricks::default())
}

/// Plans with some tricks only.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(request: &Request<'_>, tricks: Tricks) -> Result<planner::Planned, PlanError> {
    let mut page = request.page.unwrap_or(request.profile.page_bytes);
    loop {
        let on_pages = Request {
            page: Some(page),
            ..*request
        };
        let result = planner::plan_with(&on_pages, tricks);
        let coarse = matches!(
            result,
            Err(PlanError::OpTooLarge { .. } | PlanError::NoSchedule { .. })
        );
        let half = page.get() / 2;
        // Contiguous tensors are not rounded to pages.
        let coarse = coarse && !request.policy.is_contiguous();
        let worth_it = half >= PAGE_BYTES_TRIED_MIN || request.budget.0 / half <= PAGES_FEW;
        match PageBytes::new(half) {
            Ok(half) if coarse && request.page.is_none() && worth_it => page = half,
            _ => return result,
        }
    }
}

/// Plans and proves. `peak` is the trace's own: bytes live at its worst op.
///
/// # Errors
/// If there is no plan. A plan that breaks a rule is the inner error.
pub fn prepare(request: &Request<'_>, peak: Bytes) -> Result<Result<Proven, Broken>, BenchError> {
    let start = Instant::now();
    let planned = plan(request)?;
    let plan_s = start.elapsed().as_secs_f64();
    let mut report = report(request, peak, &planned);
    report.plan_s = plan_s;
    let start = Instant::now();
    let plan = match VerifiedPlan::new(planned.plan) {
        Ok(plan) => plan,
        Err(violation) => {
            report.verdict = violation.to_string();
            return Ok(Err(Broken { violation, report }));
        }
    };
    let verify_s = start.elapsed().as_secs_f64();
    let details = details(&plan, verify_s);
    Ok(Ok(Proven {
        plan,
        report,
        details,
    }))
}

fn report(request: &Request<'_>, peak: Bytes, planned: &planner::Planned) -> PlanReport {
    let plan = &planned.plan;
    let compute_ns = request.skeleton.compute_ns();
    let recompute_ns = plan.recompute_ns();
    let predicted_ns = planned.timeline.iteration_ns;
    // Without a limit, nothing has to move.
    let bound_ns = match request.policy {
        Policy::None => compute_ns,
        _ => lower_bound_ns(request.skeleton, &request.profile.link, request.budget),
    };
    let to_flash = request.profile.spill == SpillTier::Storage;
    let written = to_flash.then(|| plan.program.moved_out());
    PlanReport {
        policy: plan.origin.policy.clone(),
        methods: request.methods_used().to_string(),
        budget_bytes: request.budget.0,
        peak_bytes: peak.0,
        largest_op_bytes: plan.origin.largest_op.0,
        compute_s: seconds(compute_ns),
        predicted_s: seconds(predicted_ns),
        predicted_ratio: ratio(predicted_ns, compute_ns),
        bound_ratio: ratio(bound_ns, compute_ns),
        moved_out_bytes: plan.program.moved_out().0,
        moved_in_bytes: plan.program.moved_in().0,
        stall_s: seconds(predicted_ns.saturating_sub(compute_ns + recompute_ns)),
        recompute_s: seconds(recompute_ns),
        recomputed_bytes: plan.recomputed().0,
        pages: u64::from(plan.program.arena_pages),
        page_bytes: plan.program.page_bytes.get(),
        page_overhead: planned.page_overhead,
        plan_s: 0.0,
        verdict: PlanReport::OK.into(),
        kept_bytes: 0,
        predicted_unkept_s: None,
        written_per_step_bytes: written.map(|bytes| bytes.0),
        written_per_day_bytes: written.map(|bytes| written_per_day(bytes, predicted_ns).0),
    }
}

fn details(plan: &VerifiedPlan, verify_s: f64) -> PlanDetails {
    let program = &plan.program;
    PlanDetails {
        copies: (program.outs.len() + program.ins.len()) as u64,
        pieces: pieces_moved(program),
        windows: windows(plan),
        verify_s,
        facts: *plan.facts(),
        spill_bytes: program.spill_bytes.0,
    }
}

fn pieces_moved(program: &Program) -> u64 {
    let outs = program.outs.iter().map(|out| u64::from(out.pieces.count));
    let ins = program.ins.iter().map(|i| u64::from(i.pieces.count));
    outs.chain(ins).sum()
}

/// What the windows would take from this machine, executed at full size.
fn windows(plan: &VerifiedPlan) -> Windows {
    let fitted = Fitted::new(plan.clone(), Options::default());
    let runs = plan.program.runs.len() as u64;
    Windows {
        count: plan.program.windows.len() as u64,
        virtual_bytes: plan.program.window_bytes().0,
        mappings: match &fitted {
            Ok(fitted) => fitted.mappings(),
            Err(RuntimeError::Mappings { needed, .. }) => *needed,
            Err(_) => runs,
        },
        refused: fitted.err().map(|error| error.to_string()),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// Over the time without a limit. A step that takes none has nothing to compare with.
fn ratio(ns: u64, compute_ns: u64) -> f64 {
    if ns == compute_ns {
        1.0
    } else {
        ns as f64 / compute_ns.max(1) as f64
    }
}
