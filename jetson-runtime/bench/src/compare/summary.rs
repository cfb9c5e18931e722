//! The planner against each other policy.
//!
//! A *gain* is in throughput: the time of a rival over that of the planner, less 1. Means are
//! geometric, over the cells in which both have a plan. Where only one has, the other has lost,
//! which no mean shows; so these cells are counted apart, too.

use lgm::policy::Policy;
use serde::Serialize;

use super::cell::{BOTH, RECOMPUTE, SWAP};
use super::contiguity::contiguity;
use super::{Cell, Contiguity, Skipped};

/// Times that differ by no more than this share are equal.
pub(crate) const TIE: f64 = 0.03;
/// A step that takes no more than this longer does not stall.
const STALL: f64 = 1e-9;

/// The best of the published policies in each cell, as rivals: as published, and on pages.
const BEST: [(&str, bool); 2] = [("best published", true), ("best published, paged", false)];

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
    /// The planner against each other policy, and against the best of the published ones.
    pub rivals: Vec<Rival>,
    /// The planner with both methods against itself with one, and against checkpointing.
    pub both: Vec<Rival>,
    /// The bound on swapping alone over the time with both methods, where that bound is above 1.5:
    /// the throughput over that of the best swapping that there could be.
    pub both_over_bound: Over,
    /// What contiguous memory costs each policy of which both variants are there.
    pub contiguity: Vec<Contiguity>,
}

/// Times over a bound, or a bound over times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Over {
    /// In how many cells there are both.
    pub cells: usize,
    /// The geometric mean.
    pub mean: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

impl Over {
    fn of(groups: &[&[Cell]], over: impl Fn(&[Cell]) -> Option<f64>) -> Self {
        let all: Vec<f64> = groups.iter().filter_map(|group| over(group)).collect();
        Self {
            cells: all.len(),
            mean: mean(&all),
            max: all.iter().copied().reduce(f64::max),
        }
    }
}

/// The planner against another policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rival {
    /// Whom against.
    pub policy: String,
    /// Cells in which both have a plan.
    pub compared: usize,
    /// The mean gain over them.
    pub gain: Option<f64>,
    /// The mean gain that a plan would have whose times are the best known bounds.
    pub gain_at_bound: Option<f64>,
    /// Of them, those in which the rival stalls at all.
    pub stalled: usize,
    /// The mean gain over those.
    pub gain_stalled: Option<f64>,
    /// The smallest gain.
    pub worst_gain: Option<f64>,
    /// Where it is.
    pub worst_cell: Option<String>,
    /// Cells in which the planner is faster, by more than a tie, or alone has a plan.
    pub won: usize,
    /// Cells in which both take the same time.
    pub tied: usize,
    /// Cells in which the planner is slower, by more than a tie, or alone has no plan.
    pub lost: usize,
    /// Cells in which only the rival has no plan.
    pub infeasible: usize,
    /// Cells in which only the planner has no plan.
    pub infeasible_here: usize,
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
        let against = |own: &str, name: &str| {
            Rival::of(
                name,
                &groups,
                |group| find(group, own),
                |group| find(group, name),
            )
        };
        let again = |name: &&&str| [RECOMPUTE, BOTH, Policy::Checkpoint.name()].contains(name);
        let mut rivals: Vec<Rival> = Vec::new();
        if names.contains(&SWAP) {
            let others = names.iter().filter(|name| **name != SWAP && !again(name));
            rivals.extend(others.map(|name| against(SWAP, name)));
            for (best, contiguous) in BEST {
                let among = |name: &str| is_published(name, contiguous);
                if names.iter().any(|name| among(name)) {
                    let fastest = |group: &[Cell]| fastest(group, among);
                    rivals.push(Rival::of(best, &groups, own, fastest));
                }
            }
        }
        let mut both = Vec::new();
        if names.contains(&BOTH) {
            let others = names.iter().filter(|name| **name == SWAP || again(name));
            let others = others.filter(|name| **name != BOTH);
            both.extend(others.map(|name| against(BOTH, name)));
        }
        Self {
            cells: groups.len(),
            skipped: skipped.to_vec(),
            failed: failed.count(),
            over_bound: Over::of(&groups, |group| Some(own(group)? / group[0].bound_ratio)),
            over_lp_bound: Over::of(&groups, |group| {
                Some(own(group)? / group[0].lp_bound_ratio?)
            }),
            rivals,
            both,
            both_over_bound: Over::of(&groups, |group| {
                let bound = Some(group[0].best_bound()).filter(|bound| *bound > HOPELESS);
                Some(bound? / find(group, BOTH)?)
            }),
            contiguity: contiguity(&groups),
        }
    }
}

impl Rival {
    fn of(
        name: &str,
        groups: &[&[Cell]],
        own: impl Fn(&[Cell]) -> Option<f64>,
        time: impl Fn(&[Cell]) -> Option<f64>,
    ) -> Self {
        let mut rival = Self {
            policy: name.into(),
            compared: 0,
            gain: None,
            gain_at_bound: None,
            stalled: 0,
            gain_stalled: None,
            worst_gain: None,
            worst_cell: None,
            won: 0,
            tied: 0,
            lost: 0,
            infeasible: 0,
            infeasible_here: 0,
        };
        let (mut all, mut stalled, mut at_bound) = (Vec::new(), Vec::new(), Vec::new());
        let mut worst = f64::INFINITY;
        for group in groups {
            let (own, other) = match (own(group), time(group)) {
                (Some(own), Some(other)) => (own, other),
                (Some(_), None) => {
                    rival.infeasible += 1;
                    rival.won += 1;
                    continue;
                }
                (None, Some(_)) => {
                    rival.infeasible_here += 1;
                    rival.lost += 1;
                    continue;
                }
                (None, None) => continue,
            };
            let speedup = other / own;
            all.push(speedup);
            at_bound.push(other / group[0].best_bound());
            if other > 1.0 + STALL {
                stalled.push(speedup);
            }
            if speedup > 1.0 + TIE {
                rival.won += 1;
            } else if speedup * (1.0 + TIE) < 1.0 {
                rival.lost += 1;
            } else {
                rival.tied += 1;
            }
            if speedup < worst {
                worst = speedup;
                rival.worst_cell = Some(title(&group[0]));
            }
        }
        rival.compared = all.len();
        rival.stalled = stalled.len();
        rival.gain = mean(&all).map(|mean| mean - 1.0);
        rival.gain_at_bound = mean(&at_bound).map(|mean| mean - 1.0);
        rival.gain_stalled = mean(&stalled).map(|mean| mean - 1.0);
        rival.worst_gain = rival.worst_cell.is_some().then_some(worst - 1.0);
        rival
    }
}

/// A trace, device and budget, for people.
fn title(cell: &Cell) -> String {
    let percent = cell.budget_fraction * 100.0;
    format!("{} on {} at {percent:.0} %", cell.trace, cell.device)
}

/// The time of the planner in a cell, if it has a plan there.
fn own(group: &[Cell]) -> Option<f64> {
    find(group, SWAP)
}

/// The time of a policy in a cell, if it has a plan there.
pub(super) fn find(group: &[Cell], policy: &str) -> Option<f64> {
    let cell = group.iter().find(|cell| cell.policy == policy)?;
    cell.ratio.filter(|_| cell.feasible)
}

/// The shortest time of some policies.
fn fastest(group: &[Cell], among: impl Fn(&str) -> bool) -> Option<f64> {
    let cells = group.iter().filter(|cell| among(&cell.policy));
    cells
        .filter_map(|cell| find(group, &cell.policy))
        .reduce(f64::min)
}

fn is_published(name: &str, contiguous: bool) -> bool {
    let policy: Result<Policy, _> = name.parse();
    policy.is_ok_and(|policy| policy.is_published() && policy.is_contiguous() == contiguous)
}

/// The geometric mean.
pub(super) fn mean(of: &[f64]) -> Option<f64> {
    let logs: f64 = of.iter().map(|one| one.ln()).sum();
    (!of.is_empty()).then(|| (logs / of.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample;

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
