//! What follows from all cells.

use serde::Serialize;

use super::cell::{BOTH, SWAP, find};
use super::contiguity::{Contiguity, contiguity};
use super::over::Over;
use super::rival::{Rival, only_swaps};
use super::{Cell, Skipped};

/// A bound above this leaves little hope in swapping alone.
const HOPELESS: f64 = 1.5;

/// What follows from all cells. Keys are fixed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many traces, devices and budgets there are, together.
    pub cells: usize,
    /// Budgets that were not tried.
    pub skipped: Vec<Skipped>,
    /// Cells in which the planner found no plan, and plans of any policy that break a rule.
    pub failed: usize,
    /// The planner's time over the bound that is computed at once.
    pub over_bound: Over,
    /// The same over the bound by linear programming, in the cells in which that is known.
    pub over_lp_bound: Over,
    /// The planner by swapping against each other policy that only swaps, and against the best of
    /// the published ones.
    pub rivals: Vec<Rival>,
    /// The planner with both methods against all others.
    pub both: Vec<Rival>,
    /// The bound on swapping alone over the time with both methods, where that bound is above 1.5:
    /// the throughput over that of the best swapping that there could be.
    pub both_over_bound: Over,
    /// What contiguous memory costs each policy of which both variants are there.
    pub contiguity: Vec<Contiguity>,
}

impl Summary {
    /// Sums up. Cells that stand beside each other are the same trace, device and budget.
    #[must_use]
    pub fn of(cells: &[Cell], skipped: &[Skipped]) -> Self {
        let groups: Vec<&[Cell]> = cells.chunk_by(Cell::is_beside).collect();
        let failed = cells.iter().filter(|cell| cell.is_failure());
        let mut names: Vec<&str> = Vec::new();
        for cell in cells {
            if !names.contains(&cell.policy.as_str()) {
                names.push(&cell.policy);
            }
        }
        Self {
            cells: groups.len(),
            skipped: skipped.to_vec(),
            failed: failed.count(),
            over_bound: Over::of(&groups, |group| Some(own(group)? / group[0].bound_ratio)),
            over_lp_bound: Over::of(&groups, |group| {
                Some(own(group)? / group[0].lp_bound_ratio?)
            }),
            rivals: Rival::all(SWAP, &names, &groups, only_swaps),
            both: Rival::all(BOTH, &names, &groups, |_| true),
            both_over_bound: Over::of(&groups, |group| {
                let bound = Some(group[0].best_bound()).filter(|bound| *bound > HOPELESS);
                Some(bound? / find(group, BOTH)?)
            }),
            contiguity: contiguity(&groups),
        }
    }
}

/// The time of the planner in a cell, if it has a plan there.
fn own(group: &[Cell]) -> Option<f64> {
    find(group, SWAP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample;
    use crate::compare::rival::BEST;

    #[test]
    fn gains_are_geometric_means_over_cells_that_both_plan() {
        let cells = [
            sample("a", "lru", Some(4.0)),
            sample("a", "g10-paged", Some(2.0)),
            sample("a", "vtensor", Some(2.0)),
            sample("b", "lru", Some(1.0)),
            sample("b", "g10-paged", None),
            sample("b", "vtensor", Some(1.0)),
            sample("c", "lru", Some(1.5)),
            sample("c", "g10-paged", Some(1.2)),
            sample("c", "vtensor", Some(1.5)),
            sample("d", "lru", Some(1.5)),
            sample("d", "g10-paged", None),
            sample("d", "vtensor", None),
        ];
        let summary = Summary::of(&cells, &[]);
        assert_eq!((summary.cells, summary.failed), (4, 1));
        let [lru, g10, best, best_paged] = &summary.rivals[..] else {
            panic!("{summary:?}");
        };
        let counts = |r: &Rival| (r.compared, r.won, r.tied, r.lost);
        let apart = |r: &Rival| (r.infeasible, r.infeasible_here, r.stalled);
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
        assert_eq!((counts(lru), apart(lru)), ((3, 1, 2, 1), (0, 1, 2)));
        assert!(near(lru.gain, 2_f64.cbrt() - 1.0), "{lru:?}");
        assert!(near(lru.gain_stalled, 2_f64.sqrt() - 1.0), "{lru:?}");
        assert_eq!((counts(g10), apart(g10)), ((2, 1, 1, 1), (1, 0, 2)));
        assert!(near(g10.worst_gain, -0.2), "{g10:?}");
        assert_eq!(g10.worst_cell.as_deref(), Some("c on d at 50 %"));
        assert_eq!(
            [&best.policy, &best_paged.policy],
            BEST.map(|(name, _)| name)
        );
        assert_eq!((counts(best), apart(best)), ((3, 1, 2, 1), (0, 1, 2)));
        assert_eq!(counts(best_paged), (2, 1, 1, 1));
    }

    #[test]
    fn both_methods_stand_against_all_and_swapping_against_what_swaps() {
        let cells = [
            sample("a", "lru", Some(4.0)),
            sample("a", "checkpoint", Some(2.0)),
            sample("a", "portfolio-both", Some(1.0)),
            sample("a", "vtensor", Some(2.0)),
            sample("a", "vtensor-both", Some(1.0)),
        ];
        let summary = Summary::of(&cells, &[]);
        let gains = |rivals: &[Rival]| -> Vec<(String, f64)> {
            let gain = |r: &Rival| (r.policy.clone(), r.gain.expect("both have a plan").round());
            rivals.iter().map(gain).collect()
        };
        let wanted = |all: &[(&str, f64)]| -> Vec<(String, f64)> {
            all.iter()
                .map(|(name, gain)| ((*name).into(), *gain))
                .collect()
        };
        let swaps = wanted(&[("lru", 1.0), ("best published", 1.0)]);
        assert_eq!(gains(&summary.rivals), swaps);
        let all = [
            ("lru", 3.0),
            ("checkpoint", 1.0),
            ("portfolio-both", 0.0),
            ("vtensor", 1.0),
            ("best published", 3.0),
        ];
        assert_eq!(gains(&summary.both), wanted(&all));
    }

    #[test]
    fn without_the_planner_there_is_nothing_to_compare() {
        let summary = Summary::of(&[sample("a", "lru", Some(4.0))], &[]);
        assert_eq!(
            (summary.rivals.len(), summary.over_bound),
            (0, Over::default())
        );
        assert_eq!(summary.failed, 0);
        let mut wrong = sample("a", "lru", Some(4.0));
        wrong.broken = true;
        assert_eq!(Summary::of(&[wrong], &[]).failed, 1);
    }
}
