//! The C ABI of vTensor: what `include/vtensor.h` declares, and nothing else.
//!
//! In: calls from C and C++. Out: the other crates' work, as status codes and plain values.
//!
//! | module | noun |
//! |---|---|
//! | [`status`] | the status codes: name, number, sentence |
//! | [`last_error`] | this thread's detail of the last failure |
//! | [`guard`] | the wall that no panic crosses |
//! | [`version`] | the version as a number |
//! | [`bytes`] | amounts of memory as text |
//!
//! Guarantees: no panic crosses into C; every pointer is checked for NULL; an output is written
//! only on success; a failed call leaves its detail for `vt_last_error`. The header is written by
//! hand, and a test compares it with the exports here, names, types and numbers.
//!
//! Limits: a pointer that is neither NULL nor valid cannot be detected. Panics become a status
//! only where they unwind: a build with `panic = "abort"` ends the process at a bug of ours.
//!
//! *Not here*: the runtime's objects (they come with the runtime), and `libvtensor.so` with
//! versioned symbols, which is relinked from the static library.

pub mod bytes;
pub mod guard;
pub mod last_error;
pub mod status;
pub mod version;

pub use status::Status;
