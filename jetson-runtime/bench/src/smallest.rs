//! The smallest budget with which a step takes no more than so much longer.
//!
//! In: traces, devices, methods, and what is accepted. Out: for each of them a [`Smallest`].
//! Method: bisection over whole hundredths of the peak, each with a plan of its own. Guarantees:
//! the budget that is named has a proven plan that fast; the one a hundredth below has none. As
//! more memory may, rarely, give a slightly slower plan, a smaller budget might do too.

use lgm::planner::{Methods, Request};
use lgm::policy::Policy;
use lgm::profile::Profile;
use lgm::skeleton::Skeleton;
use lgm::trace::Trace;
use lgm::verify::VerifiedPlan;
use serde::Serialize;
use vtensor::Bytes;

use crate::planning;

/// The smallest budget of one trace on one device by one choice of methods. Keys are fixed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Smallest {
    /// The trace, by the name of its file.
    pub trace: String,
    /// The device.
    pub device: String,
    /// How room is made.
    pub methods: String,
    /// The budget over the trace's peak; nothing if even the peak does not do, for rounding.
    pub budget_fraction: Option<f64>,
    /// The budget.
    pub budget_bytes: Option<u64>,
    /// Predicted time over the time without a limit.
    pub ratio: Option<f64>,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) name: &'a str,
    pub(crate) trace: &'a Trace,
    pub(crate) skeleton: &'a Skeleton,
    pub(crate) profile: &'a Profile,
    pub(crate) methods: Methods,
    /// Times over the time without a limit that are accepted.
    pub(crate) ratio_max: f64,
}

impl Question<'_> {
    /// The smallest budget.
    pub(crate) fn answer(&self) -> Smallest {
        let mut found = self.ratio(100).map(|ratio| (100, ratio));
        let mut too_little = 0;
        while let Some((enough, _)) = found.filter(|(enough, _)| enough - too_little > 1) {
            let percent = (too_little + enough) / 2;
            match self.ratio(percent) {
                Some(ratio) => found = Some((percent, ratio)),
                None => too_little = percent,
            }
        }
        Smallest {
            trace: self.name.into(),
            device: self.profile.name.clone(),
            methods: self.methods.to_string(),
            budget_fraction: found.map(|(percent, _)| percent as f64 / 100.0),
            budget_bytes: found.map(|(percent, _)| self.budget(percent).0),
            ratio: found.map(|(_, ratio)| ratio),
        }
    }

    fn budget(&self, percent: u64) -> Bytes {
        Bytes(self.trace.peak_bytes().0 / 100 * percent)
    }

    /// The time of a proven plan for so much of the peak, if there is one that fast.
    fn ratio(&self, percent: u64) -> Option<f64> {
        let budget = self.budget(percent);
        if budget < self.trace.largest_op().bytes {
            return None;
        }
        let request = Request {
            skeleton: self.skeleton,
            profile: self.profile,
            budget,
            policy: Policy::Vtensor,
            methods: self.methods,
            page: None,
            trace_digest: self.trace.digest(),
            model: self.trace.model(),
        };
        let planned = planning::plan(&request).ok()?;
        let time = planned.timeline.iteration_ns as f64;
        VerifiedPlan::new(planned.plan).ok()?;
        let ratio = time / self.skeleton.compute_ns().max(1) as f64;
        Some(ratio).filter(|ratio| *ratio <= self.ratio_max)
    }
}
