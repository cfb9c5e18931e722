//! Policies side by side: every policy on every cell, a cell being a trace, a device and a budget.
//!
//! | module | noun |
//! |---|---|
//! | `cell` | what one policy came to in one cell |
//! | `contiguity` | what contiguous memory costs each policy |
//! | `fluid` | bounds by linear programming, where they are known |
//! | `matrix` | all cells, on all cores |
//! | `over` | times over a bound, summed up |
//! | `rival` | the planner against another policy |
//! | `summary` | what follows from all cells |
//! | `table` | both as text |
//! | `csv` | the cells as CSV |
//! | `plot` | the cells as a picture |

mod cell;
mod contiguity;
mod csv;
mod fluid;
mod matrix;
mod over;
mod plot;
mod rival;
mod summary;
mod table;

pub use cell::{Cell, Skipped};
pub use contiguity::Contiguity;
pub use csv::csv;
pub use matrix::{Matrix, Selection};
pub use over::Over;
pub use plot::svg;
pub use rival::Rival;
pub use summary::Summary;
pub use table::table;

use serde::Serialize;

/// Everything that `compare` says; its keys are fixed.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Every policy in every cell.
    pub cells: Vec<Cell>,
    /// What follows from them.
    pub summary: Summary,
}
