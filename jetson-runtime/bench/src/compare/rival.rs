//! The planner against another policy.
//!
//! A *gain* is in throughput: the time of a rival over that of the planner, less 1. Means are
//! geometric, over the cells in which both have a plan. Where only one has, the other has lost,
//! which no mean shows; so these cells are counted apart, too.

use lgm::policy::Policy;
use serde::Serialize;

use super::Cell;
use super::cell::find;
use super::over::mean;

/// Times that differ by no more than this share are equal.
const TIE: f64 = 0.03;
/// A step that takes no more than this longer does not stall.
const STALL: f64 = 1e-9;

/// The best of the published policies in each cell, as rivals: as published, and on pages.
pub(super) const BEST: [(&str, bool); 2] =
    [("best published", true), ("best published, paged", false)];

/// The planner against another policy. Keys are fixed.
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

impl Rival {
    /// One against each of the others that count, and against the best of the published ones.
    pub(super) fn all(
        own: &str,
        names: &[&str],
        groups: &[&[Cell]],
        counts: impl Fn(&str) -> bool,
    ) -> Vec<Self> {
        if !names.contains(&own) {
            return Vec::new();
        }
        let own_time = |group: &[Cell]| find(group, own);
        let others = names.iter().filter(|name| **name != own && counts(name));
        let against = |name: &&str| Self::of(name, groups, own_time, |group| find(group, name));
        let mut rivals: Vec<Self> = others.map(against).collect();
        for (best, contiguous) in BEST {
            let among = |name: &str| is_published(name, contiguous);
            if names.iter().any(|name| among(name)) {
                let time = |group: &[Cell]| fastest(group, among);
                rivals.push(Self::of(best, groups, own_time, time));
            }
        }
        rivals
    }

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

/// The shortest time of some policies.
fn fastest(group: &[Cell], among: impl Fn(&str) -> bool) -> Option<f64> {
    let cells = group.iter().filter(|cell| among(&cell.policy));
    cells
        .filter_map(|cell| find(group, &cell.policy))
        .reduce(f64::min)
}

/// Whether a policy runs no ops again. With other methods a policy has another name than its own.
pub(super) fn only_swaps(name: &str) -> bool {
    let policy: Result<Policy, _> = name.parse();
    policy.is_ok_and(|policy| policy != Policy::Checkpoint)
}

fn is_published(name: &str, contiguous: bool) -> bool {
    let policy: Result<Policy, _> = name.parse();
    policy.is_ok_and(|policy| policy.is_published() && policy.is_contiguous() == contiguous)
}
