//! Times over a bound, summed up over cells.

use serde::Serialize;

use super::Cell;

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
    pub(super) fn of(groups: &[&[Cell]], over: impl Fn(&[Cell]) -> Option<f64>) -> Self {
        let all: Vec<f64> = groups.iter().filter_map(|group| over(group)).collect();
        Self {
            cells: all.len(),
            mean: mean(&all),
            max: all.iter().copied().reduce(f64::max),
        }
    }
}

/// The geometric mean.
pub(super) fn mean(of: &[f64]) -> Option<f64> {
    let logs: f64 = of.iter().map(|one| one.ln()).sum();
    (!of.is_empty()).then(|| (logs / of.len() as f64).exp())
}
