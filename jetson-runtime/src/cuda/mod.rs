//! The CUDA backend: a proven program, executed by the streams of a GPU.
//!
//! ```text
//! library ──> driver ──> device ──> stream, event, memory, vmm
//!                           │                │
//!                         probe          mechanism: mapped | packed | managed
//!                           │                │
//!                        decision ──────> frozen (waits) ──> the application's kernels
//! ```
//!
//! | module | noun |
//! |---|---|
//! | `driver`, `symbols` | the driver library, opened at run time, and its functions |
//! | [`status`], [`error`] | what it answers, as checked integers |
//! | [`device`] | a device with its primary context |
//! | `stream` | order: streams, and events that are made in advance |
//! | `memory`, `prefetch`, `vmm` | bytes: plain, pinned, managed; pages that several windows show |
//! | [`mechanism`] | where tensors lie, and how a copy is made |
//! | `copies` | who makes them: `queued`, streams; `staged`, engines by way of a file |
//! | `waits` | which event each wait of streams is |
//! | `bounce` | the way between the device and a file: a ring of pinned buffers |
//! | `ahead` | how many iterations may be under way |
//! | [`frozen`] | the step path |
//! | [`kernels`], `ops` | fill, check, spin: ops of a replay |
//! | [`target`], `ground` | a GPU of an application with its stream, and the budget on it |
//! | `tenancy` | programs that take turns on it |
//! | [`class`], [`options`] | what this machine is, and what is chosen for it |
//! | [`probe`] | what works here, how fast, and what is chosen |
//! | [`tally`] | counters on the device |
//!
//! What is shared with the host backend, because it is the same: the tables of a program
//! (`table`), where the application is in it (`course`), where bytes are at rest and after a
//! failure (`content`, `residency`, `failed`). What differs is one question, answered by the
//! traits of `places`: which address has a place, and how does one reach bytes there.
//!
//! Guarantees: nothing of CUDA is needed to build. A missing driver, an old one, or one without a
//! function is an error that says so. A status is an integer, whatever a newer driver answers. All
//! that was taken is given back in every order of failures. The application's thread waits for the
//! GPU only when it is two iterations ahead; with a spill file also where a step needs a copy.
//!
//! Limits: one device. The spill tier is pinned host memory, which on a device that shares its
//! memory with the host frees nothing, and is refused unless forced; or a file.
//!
//! Source: the documentation of the CUDA driver API, 11.4 to 13.0.

mod ahead;
mod bounce;
mod boundary;
pub mod class;
mod copies;
pub mod device;
pub mod driver;
pub mod error;
mod freeze;
pub mod frozen;
pub(crate) mod ground;
pub mod kernels;
pub mod mechanism;
mod memory;
mod ops;
pub mod options;
mod prefetch;
pub mod probe;
mod queued;
mod staged;
pub mod stats;
pub mod status;
mod stream;
mod symbols;
pub mod tally;
pub mod target;
mod tenancy;
#[cfg(test)]
mod tests;
mod vmm;
mod waits;

pub use class::Class;
pub use device::{Device, DeviceFacts};
pub use driver::Driver;
pub use error::CudaError;
pub use frozen::Frozen;
pub use kernels::Kernels;
pub use mechanism::{Mechanism, Taken};
pub use options::Options;
pub use stats::Stats;
pub use status::Status;
pub use tally::Tally;
pub use target::Target;
