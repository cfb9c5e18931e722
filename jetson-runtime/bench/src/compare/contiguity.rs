//! What contiguous memory costs: each policy on pages against the same choice in one contiguous
//! arena, as it was published.
//!
//! The difference is what aliased windows buy, whoever chooses what moves, less what rounding to
//! pages costs them. A variant as published also has its own rule for copies in, so for published
//! policies the figure holds both; for `whole` the rules are the same, and only places differ.

use lgm::policy::Policy;
use serde::Serialize;

use super::Cell;
use super::cell::find;
use super::over::mean;

/// A policy on pages against itself in a contiguous arena. Keys are fixed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contiguity {
    /// Which policy.
    pub policy: String,
    /// Cells in which both variants have a plan.
    pub compared: usize,
    /// The mean gain in throughput of pages over contiguous memory.
    pub gain: Option<f64>,
    /// The largest.
    pub gain_max: Option<f64>,
    /// Cells in which only the contiguous variant has no plan.
    pub infeasible: usize,
    /// Cells in which only the paged variant has no plan.
    pub infeasible_paged: usize,
}

/// One row for each policy of which both variants are there.
pub(super) fn contiguity(groups: &[&[Cell]]) -> Vec<Contiguity> {
    let variants = Policy::ALL
        .into_iter()
        .filter_map(|policy| Some((policy.name(), policy.paged()?.name())));
    let rows = variants.map(|(name, paged)| {
        let mut row = Contiguity {
            policy: name.into(),
            compared: 0,
            gain: None,
            gain_max: None,
            infeasible: 0,
            infeasible_paged: 0,
        };
        let mut speedups = Vec::new();
        for group in groups {
            let has = |name| group.iter().any(|cell| cell.policy == name);
            if !has(name) || !has(paged) {
                continue;
            }
            match (find(group, name), find(group, paged)) {
                (Some(contiguous), Some(paged)) => speedups.push(contiguous / paged),
                (None, Some(_)) => row.infeasible += 1,
                (Some(_), None) => row.infeasible_paged += 1,
                (None, None) => {}
            }
        }
        row.compared = speedups.len();
        row.gain = mean(&speedups).map(|mean| mean - 1.0);
        let max = speedups.iter().copied().reduce(f64::max);
        row.gain_max = max.map(|max| max - 1.0);
        row
    });
    rows.filter(|row| row.compared + row.infeasible + row.infeasible_paged > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample;

    #[test]
    fn pages_are_compared_with_the_same_policy_without_them() {
        let cells = [
            sample("a", "capuchin", Some(2.0)),
            sample("a", "capuchin-paged", Some(1.0)),
            sample("a", "g10-paged", Some(1.0)),
            sample("b", "capuchin", Some(4.0)),
            sample("b", "capuchin-paged", Some(2.0)),
            sample("c", "capuchin", None),
            sample("c", "capuchin-paged", Some(2.0)),
        ];
        let groups: Vec<&[Cell]> = cells.chunk_by(Cell::is_beside).collect();
        let [row] = &contiguity(&groups)[..] else {
            panic!("one policy has both variants");
        };
        assert_eq!(row.policy, "capuchin");
        assert_eq!(
            (row.compared, row.infeasible, row.infeasible_paged),
            (2, 1, 0)
        );
        assert!(row.gain.is_some_and(|gain| (gain - 1.0).abs() < 1e-12));
    }
}
