//! All cells, on all cores.
//!
//! In: traces, devices, budgets and planners. Out: a [`Cell`] for each planner in each cell, in
//! that order, whatever the number of cores. Budgets below 1.25 times the largest op are left out:
//! there nearly everything has to leave, whatever the policy.

use std::path::Path;
use std::time::Instant;

use lgm::bound::lower_bound_ns;
use lgm::planner::{Methods, Request};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::skeleton::Skeleton;
use lgm::trace::Trace;
use lgm::tricks::Tricks;
use lgm::verify::verify_plan;
use vtensor::{Bytes, PageBytes};

use super::cell::{Cell, Skipped, label};
use super::fluid::fluid_bound;
use crate::args::FixedArg;
use crate::cores::on_all_cores;
use crate::error::BenchError;
use crate::inputs;
use crate::planning;
use crate::report::PlanReport;
use crate::trace_file;
use crate::value::BudgetArg;

/// What to compare.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// Names of devices; if there are none, all that a trace has durations for.
    pub devices: &'a [String],
    /// The budgets.
    pub budgets: &'a [BudgetArg],
    /// The policies, each once, and how they make room.
    pub planners: &'a [(Policy, Methods)],
    /// The page size, if not the device's.
    pub page: Option<PageBytes>,
    /// Which tensors keep their address, beside those of which a trace says so.
    pub fixed: Option<FixedArg>,
    /// What the planner may try.
    pub tricks: Tricks,
}

/// A trace on a device with a budget.
#[derive(Debug)]
struct Place {
    trace: usize,
    skeleton: usize,
    profile: Profile,
    fraction: f64,
    budget: Bytes,
}

/// All cells, read and checked.
#[derive(Debug)]
pub struct Matrix<'a> {
    selection: Selection<'a>,
    traces: Vec<(String, Trace)>,
    skeletons: Vec<Skeleton>,
    places: Vec<Place>,
    skipped: Vec<Skipped>,
}

impl<'a> Matrix<'a> {
    /// Reads the traces at `paths`.
    ///
    /// # Errors
    /// If a trace cannot be used, or a device is unknown.
    pub fn read(
        paths: &[impl AsRef<Path>],
        profiles: &Profiles,
        selection: Selection<'a>,
    ) -> Result<Self, BenchError> {
        let mut matrix = Self {
            selection,
            traces: Vec::new(),
            skeletons: Vec::new(),
            places: Vec::new(),
            skipped: Vec::new(),
        };
        for path in paths {
            let trace = trace_file::open(path.as_ref())?;
            matrix.add(trace_file::name_of(path.as_ref()), trace, profiles)?;
        }
        Ok(matrix)
    }

    fn add(&mut self, name: String, trace: Trace, profiles: &Profiles) -> Result<(), BenchError> {
        let peak = trace.peak_bytes();
        let largest = trace.largest_op().bytes;
        let mut budgets = Vec::new();
        for budget in self.selection.budgets {
            let budget = budget.resolve(peak);
            let fraction = budget.0 as f64 / peak.0.max(1) as f64;
            if budget.0 / 5 * 4 < largest.0 {
                self.skipped.push(Skipped {
                    trace: name.clone(),
                    budget_fraction: fraction,
                    budget_bytes: budget.0,
                    largest_op_bytes: largest.0,
                });
            } else {
                budgets.push((fraction, budget));
            }
        }
        let chosen = inputs::chosen(profiles, self.selection.devices, &trace)?;
        for profile in chosen {
            let skeleton = inputs::skeleton(&trace, &name, profile, self.selection.fixed)?;
            for &(fraction, budget) in &budgets {
                self.places.push(Place {
                    trace: self.traces.len(),
                    skeleton: self.skeletons.len(),
                    profile: profile.clone(),
                    fraction,
                    budget,
                });
            }
            self.skeletons.push(skeleton);
        }
        self.traces.push((name, trace));
        Ok(())
    }

    /// How many plans there are to make.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len() * self.selection.planners.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The budgets that are left out.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Plans everything, on all cores; calls `done` after each plan.
    #[must_use]
    pub fn run(&self, done: &(impl Fn() + Sync)) -> Vec<Cell> {
        on_all_cores(self.len(), |index| self.cell(index), done)
    }

    fn cell(&self, index: usize) -> Cell {
        let planners = self.selection.planners;
        let place = &self.places[index / planners.len()];
        let (policy, methods) = planners[index % planners.len()];
        let (name, trace) = &self.traces[place.trace];
        let skeleton = &self.skeletons[place.skeleton];
        let request = Request {
            skeleton,
            profile: &place.profile,
            budget: place.budget,
            policy,
            methods,
            page: self.selection.page,
            trace_digest: trace.digest(),
            model: trace.model(),
        };
        let over = |ns: u64| ns as f64 / skeleton.compute_ns().max(1) as f64;
        let bound_ns = lower_bound_ns(skeleton, &place.profile.link, place.budget);
        let start = Instant::now();
        let planned = planning::plan_with(&request, self.selection.tricks);
        let mut cell = Cell {
            trace: name.clone(),
            device: place.profile.name.clone(),
            budget_fraction: place.fraction,
            budget_bytes: place.budget.0,
            policy: label(policy, methods),
            feasible: false,
            ratio: None,
            bound_ratio: over(bound_ns),
            lp_bound_ratio: fluid_bound(name, skeleton, &place.profile, place.budget),
            moved_out_bytes: None,
            moved_in_bytes: None,
            recompute_s: None,
            recomputed_bytes: None,
            page_overhead: None,
            plan_s: start.elapsed().as_secs_f64(),
            verdict: PlanReport::OK.into(),
            broken: false,
        };
        match planned {
            Err(error) => cell.verdict = error.to_string(),
            Ok(planned) => {
                let plan = &planned.plan;
                let program = &plan.program;
                if let Err(violation) = verify_plan(plan) {
                    cell.broken = true;
                    cell.verdict = violation.to_string();
                }
                cell.feasible = !cell.broken;
                cell.ratio = Some(over(planned.timeline.iteration_ns));
                cell.moved_out_bytes = Some(program.moved_out().0);
                cell.moved_in_bytes = Some(program.moved_in().0);
                cell.recompute_s = Some(plan.recompute_ns() as f64 * 1e-9);
                cell.recomputed_bytes = Some(plan.recomputed().0);
                cell.page_overhead = Some(planned.page_overhead);
            }
        }
        cell
    }
}
