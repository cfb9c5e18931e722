//! Traces: one recorded training step, and the reader and writer of its file format.
//!
//! In: a document as `traces/README.md` describes it, plain or gzip'ed. Out: a [`Trace`] whose ops
//! were replayed, so that each tensor is alive where it is used; from it the
//! [`Skeleton`](crate::skeleton::Skeleton) that planning works on.
//!
//! Guarantees: a document costs memory in proportion to its size and never more than the limits of
//! [`vtensor::limits`] allow, which are enforced while reading; the reader does not hold the
//! document itself. Errors name the place.
//!
//! Limits: durations are kept in whole nanoseconds; `dtype` and the header's self checks are not
//! kept.
//!
//! *Not here*: recording (crate `jetson-runtime`), and anything that plans.
//!
//! | module | noun |
//! |---|---|
//! | `model` | the trace and its tables |
//! | `source` | bytes: unpacked, counted, hashed |
//! | `object` | JSON objects and lists, read key by key |
//! | `document` | JSON to tables, with the place of each fault |
//! | `durations` | durations by device, quantised |
//! | `replay` | the rules of allocation and use; peak and largest op |
//! | `replayable` | which ops may run again, by name |
//! | `skeleton` | trace to access skeleton |
//! | `builder` | a trace made in memory |
//! | `subset` | the same ops on fewer tensors |
//! | `write` | tables to JSON |
//!
//! ```
//! let document = br#"{"header": {"schema": 1, "model": "m", "batch": 1, "optimizer": "sgdm"},
//!   "tensors": [{"id": 0, "bytes": 64, "kind": "param", "persistent": true}],
//!   "ops": [{"name": "add_", "ph": "opt", "reads": [0], "writes": [0], "allocs": [],
//!            "frees": [], "dur_us": {"agx_orin": 2.5}}]}"#;
//! let trace = lgm::trace::read(&document[..])?;
//! assert_eq!(trace.peak_bytes().0, 64);
//! assert_eq!(trace.skeleton("agx_orin")?.compute_ns(), 2_500);
//! # Ok::<(), lgm::trace::TraceError>(())
//! ```

mod builder;
mod document;
mod durations;
mod error;
mod model;
mod object;
mod replay;
mod replayable;
mod skeleton;
mod source;
mod subset;
mod totals;
mod write;

pub use builder::{Builder, OpSpec};
pub use document::read;
#[doc(hidden)]
pub use document::read_at_most;
pub use error::TraceError;
pub use model::{DEVICES_MAX, LargestOp, Op, Phase, Tensor, Trace};
pub use skeleton::MappedSkeleton;
