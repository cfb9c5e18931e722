//! The replay: a proven plan, executed on real memory by synthetic ops that check every byte.
//!
//! In: a [`VerifiedPlan`](lgm::verify::VerifiedPlan) and [`Settings`]. Out: an [`Outcome`].
//!
//! | module | noun |
//! |---|---|
//! | `settings` | how to execute, and at which size |
//! | `run` | the loop, and what came of it |
//! | `ops` | one step: what its op checks and writes |
//! | `versions` | which content each access finds and leaves |
//! | `address` | from the runtime's pointers back to pages of the arena |
//! | `witness` | the digest of what each training step did |
//! | `content` | the persistent tensors, read back at the end |
//! | `pace` | ops that take their time |
//! | `gpu` | all of that on a GPU |
//!
//! Guarantees: an op checks every byte of every tensor that it reads, against the version of its
//! last write, whatever ran again in between; versions never repeat, across iterations neither.
//!
//! *Not here*: arithmetic. The ops compute nothing.

mod address;
mod content;
mod gpu;
mod ops;
mod pace;
mod run;
mod settings;
mod versions;
mod witness;

pub use gpu::{GpuOutcome, GpuSettings, WrongBytes, replay_on_gpu};
pub use ops::Mismatch;
pub use run::{Outcome, Paced, replay};
pub use settings::{Executed, Settings};
