//! The C ABI of vTensor: what `include/vtensor.h` declares, and nothing else.
//!
//! In: calls from C and C++. Out: the other crates' work, as status codes and plain values.
//!
//! | module | noun |
//! |---|---|
//! | [`status`], [`last_error`] | the status codes; this thread's detail of the last failure |
//! | [`explain`] | both, for C |
//! | [`guard`] | the wall that no panic crosses |
//! | [`handle`], [`held`], `slot`, `sync` | what a `vt_runtime *` is, and who may use it |
//! | `extensible`, `arguments` | structs that can grow; pointers and texts of the caller |
//! | `refusal` | what an error of the runtime is in C |
//! | [`version`], [`bytes`] | the version as a number; amounts of memory as text |
//! | [`config`], [`log`], [`probe`] | what may be chosen; who listens; what the machine has |
//! | [`runtime`], [`tensor`], [`iteration`], [`op`] | the objects, one header each |
//! | [`window`] | addresses that are fixed at allocation |
//! | [`plan`], [`stats`] | plans and traces as files; what was done |
//!
//! Guarantees: no panic crosses into C, and one that comes out of a runtime poisons that runtime
//! only; every pointer is checked for NULL; an output is written only on success; a failed call
//! leaves its detail for `vt_last_error`; calls at once on one runtime, and handles that stand for
//! nothing, are refused. The headers are written by hand, and tests compare them with the exports
//! here, names, types, numbers and layouts.
//!
//! Limits: a pointer to data that is neither NULL nor valid cannot be detected. Panics become a
//! status only where they unwind: a build with `panic = "abort"` ends the process at a bug of ours.
//!
//! *Not here*: `libvtensor.so` with versioned symbols, which the Makefile relinks from the static
//! library.

mod arguments;
pub mod bytes;
pub mod config;
pub mod content;
pub mod explain;
mod extensible;
mod fork;
pub mod guard;
pub mod handle;
pub mod held;
pub mod iteration;
pub mod last_error;
pub mod log;
pub mod op;
mod output;
pub mod plan;
pub mod probe;
mod refusal;
pub mod runtime;
mod slot;
pub mod stats;
pub mod status;
mod sync;
pub mod tensor;
pub mod version;
pub mod window;

pub use status::Status;
