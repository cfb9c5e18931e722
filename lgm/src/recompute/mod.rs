//! Recompute: closing a gap by running ops again rather than by moving bytes.
//!
//! In: the application's skeleton, and the accesses whose content is given up before them and made
//! again for them. Out: a [`Script`]: the skeleton of the steps, in which ops that run again are
//! steps like others, and a content that returns is another tensor, a further *life*. So what comes
//! after (graph, demand, select, schedule, layout, emit) plans a script as it plans any iteration,
//! and swaps what idles in it, lives included.
//!
//! | module | noun |
//! |---|---|
//! | `history` | who uses a tensor when, and which ops make a version of it |
//! | `rewrite` | from choices to a script |
//! | `draft` | the steps as choices are compared by them: memory and time |
//! | `script` | the steps as plans are made of them |
//! | `greedy` | which contents to give up, in the order of their worth |
//! | `segments` | what checkpointing practice gives up: a baseline |
//!
//! Guarantees: deterministic. A script passes V13 by construction, and is proven nevertheless.
//!
//! Source: rematerialisation goes back to Chen et al., *Training Deep Nets with Sublinear Memory
//! Cost*, 2016; joined with swapping in Capuchin (ASPLOS 2020) for whole tensors.

mod draft;
mod greedy;
mod history;
mod rewrite;
mod script;
mod segments;

pub use greedy::{Given, trajectory};
pub use history::History;
pub use rewrite::rewrite;
pub use script::{Memory, Script};
pub use segments::segments;
