//! The vocabulary of vTensor: what every other crate speaks, and nothing else.
//!
//! In: numbers. Out: types that say what a number means. Everything here is plain data without
//! a heap (`no_std`, no `alloc`), so the step path of the runtime can use all of it.
//!
//! | module | noun |
//! |---|---|
//! | [`id`] | tensors, ops, steps, windows, pages, pieces by number |
//! | [`bytes`] | amounts of memory, and page sizes |
//! | [`access`] | how an op uses a tensor |
//! | [`kind`] | what a tensor is for |
//! | [`piece`] | page-sized slices of a tensor, and runs of them |
//! | [`interval`] | half-open ranges of steps on the iteration's circle |
//! | [`page`] | runs of pages and byte ranges of the arena |
//! | [`window`] | virtual ranges with a fixed page list, and places in them |
//! | [`command`] | the copies of a program, and the counts that order them |
//! | [`limits`] | the largest sizes that are accepted, related to one another |
//!
//! *Not here*: anything that decides (crate `lgm`) or acts (crate `jetson-runtime`).
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod access;
pub mod bytes;
pub mod command;
pub mod id;
pub mod interval;
pub mod kind;
pub mod limits;
pub mod page;
pub mod piece;
pub mod window;

pub use access::Mode;
pub use bytes::{Bytes, PageBytes};
pub use command::{In, Out, StepCounts, StepKind};
pub use id::{OpIndex, PageIndex, StepIndex, TensorId, WindowId};
pub use interval::StepRange;
pub use kind::{Kinds, TensorKind};
pub use page::{ArenaRange, PageRun};
pub use piece::{PieceRun, Pieces};
pub use window::{Place, Window};
