//! Fluid bounds: what no plan that only swaps can beat, by linear programming, where known.
//!
//! In: a trace by its name, with its compute time, a link and a budget. Out: the bound on the time
//! of a step over its time without a limit, from the built-in table; `traces/README.md` says what
//! it counts and how it was computed.
//!
//! Guarantees: a row speaks only for a step that takes as long as the row says over a link no
//! faster than the row's. Less memory than a row's cannot be faster, so the row that is used is
//! that of the next larger budget, if that is nearly the same.
//!
//! *Not here*: bounds that are computed at once for any trace (`lgm::bound`).

use std::sync::LazyLock;

use lgm::profile::Profile;
use lgm::skeleton::Skeleton;
use vtensor::Bytes;

/// The table.
const TABLE: &str = include_str!("../../../../traces/bounds.csv");
/// Times that differ by no more than this share are the same.
const SAME_TIME: f64 = 1e-4;
/// A budget may be smaller than that of its row by one part in so many.
const SAME_BUDGET: u64 = 1000;

#[derive(Debug)]
struct Row {
    trace: &'static str,
    device: &'static str,
    out_bps: f64,
    in_bps: f64,
    compute_us: f64,
    budget: u64,
    ratio: f64,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let rows = TABLE.lines().skip(1);
    rows.map(|line| Row::read(line).expect("the tests read the built-in table"))
        .collect()
});

impl Row {
    fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split(',');
        let mut next = || columns.next();
        Some(Self {
            trace: next()?,
            device: next()?,
            out_bps: next()?.parse().ok()?,
            in_bps: next()?.parse().ok()?,
            compute_us: next()?.parse().ok()?,
            budget: next()?.parse().ok()?,
            ratio: next()?.parse().ok()?,
        })
    }

    fn is_of(&self, trace: &str, skeleton: &Skeleton, profile: &Profile) -> bool {
        let compute_us = skeleton.compute_ns() as f64 / 1e3;
        self.trace == trace
            && self.device == profile.name
            && (compute_us / self.compute_us - 1.0).abs() <= SAME_TIME
            && profile.link.out_bps <= self.out_bps
            && profile.link.in_bps <= self.in_bps
    }
}

/// The bound on the time of a step over its time without a limit; `None` if it is not known.
#[must_use]
pub(super) fn fluid_bound(
    trace: &str,
    skeleton: &Skeleton,
    profile: &Profile,
    budget: Bytes,
) -> Option<f64> {
    let rows = ROWS.iter();
    let near = rows.filter(|row| {
        (budget.0..=budget.0.saturating_add(budget.0 / SAME_BUDGET)).contains(&row.budget)
            && row.is_of(trace, skeleton, profile)
    });
    let row = near.min_by_key(|row| row.budget)?;
    Some(row.ratio)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lgm::profile::Profiles;

    use super::*;
    use crate::{built_in, trace_file};

    #[test]
    fn the_table_is_whole_and_no_row_is_below_the_time_without_a_limit() {
        let columns = "trace,device,out_bps,in_bps,compute_us,budget_bytes,lower_bound_ratio,\
                       plain_bound_ratio";
        assert_eq!(TABLE.lines().next(), Some(columns));
        assert!(!ROWS.is_empty());
        for row in ROWS.iter() {
            assert!(row.ratio >= 1.0 && row.compute_us > 0.0, "{row:?}");
            assert!(row.budget > 0 && row.out_bps > 0.0, "{row:?}");
        }
    }

    #[test]
    fn a_row_speaks_for_its_own_step_link_and_budget_only() {
        let trace = trace_file::open(Path::new(built_in::NAME)).expect("built in");
        let profiles = Profiles::builtin();
        let mut profile = profiles.get("agx_orin").expect("built in").clone();
        let mut skeleton = trace.skeleton("agx_orin").expect("it has durations");
        let half = trace.peak_bytes().0 / 2;
        let bound = |skeleton: &_, profile: &_, bytes| {
            fluid_bound(built_in::NAME, skeleton, profile, Bytes(bytes))
        };
        let known = bound(&skeleton, &profile, half).expect("in the table");
        assert!(known > 1.0);
        assert_eq!(bound(&skeleton, &profile, half - half / 2000), Some(known));
        assert_eq!(bound(&skeleton, &profile, half + half / 100), None);
        assert_eq!(bound(&skeleton, &profile, half - half / 100), None);
        assert_eq!(
            fluid_bound("another", &skeleton, &profile, Bytes(half)),
            None
        );
        skeleton.ops[0].duration_ns += skeleton.compute_ns() / 1000;
        assert_eq!(bound(&skeleton, &profile, half), None, "a longer step");
        skeleton = trace.skeleton("agx_orin").expect("it has durations");
        profile.link.in_bps /= 2.0;
        assert_eq!(bound(&skeleton, &profile, half), Some(known), "no slower");
        profile.link.in_bps *= 4.0;
        assert_eq!(bound(&skeleton, &profile, half), None, "a faster link");
    }
}
