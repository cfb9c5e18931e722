//! The runtime: executes a verified plan on real memory, without a decision in the loop.
//!
//! Phases are types: [`Planned`] (fits this machine, nothing taken) → [`Frozen`] (everything
//! taken, the step path) → [`Failed`] (given up; what is intact can be read). Data flows
//!
//! ```text
//! plan ──> planned ──> table ──> frozen ──> engine ──> copier ──> spill
//!             │          ▲      (steps)    (out, in)  (+ fault,
//!             └─> arena ─┴─ window_map                  throttle)
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`settings`], [`device`] | what the device's owner has chosen, what its boot has found |
//! | [`system`] | the machine, as long as it is up |
//! | [`options`] | what an application may choose |
//! | [`planned`] | the phase before, and the freeze |
//! | [`frozen`], [`step`] | the step path |
//! | `course` | where the application is, and whether a call fits there |
//! | [`boundary`] | reads, writes and numbers between iterations |
//! | [`failed`], `residency`, `ledger` | the phase after: what is intact, and where |
//! | `content` | where persistent bytes are while nothing moves |
//! | `table` | the program in executed sizes, with addresses |
//! | `engine`, `crew` | a thread that copies; all of a program, as the application sees them |
//! | `counters`, `waiting`, `sync` | how application and engines speak |
//! | `team`, `shares` | threads that make shares of their owner's work |
//! | `direction` | out or in |
//! | `copier`, [`throttle`], [`fault`] | one copy, and adaptors on it |
//! | `places` | what backends answer differently: addresses, and bytes at rest |
//! | [`cuda`] | the backend of GPUs |
//! | `ground` | memory for an application: the host's arena, or pages of a GPU |
//! | [`live`] | an application: recorded as it goes, then planned, proven and frozen |
//! | `tenancy` | programs that take turns on one arena |
//! | `arena`, `window_map`, `region` | pages, and the addresses that they have |
//! | `private` | buffers that contents pass through |
//! | [`spill`], [`storage`] | where pieces go |
//! | `scale` | from planned to executed sizes |
//! | [`pattern`] | the bytes that a replay writes and expects to read back |
//! | [`memory`] | measuring what is held |
//! | [`failure`], [`error`] | what can go wrong |
//! | [`stats`] | what was done |
//!
//! Guarantees: see `ARCHITECTURE.md` for the rules of execution (E1–E6) and boundaries (B1–B4)
//! that this crate keeps. Every public way in asks for a plan that the verifier has passed; that
//! proof is what the `unsafe` code here stands on.
//!
//! ```
//! use jetson_runtime::{Options, Planned, RuntimeError};
//! use lgm::verify::VerifiedPlan;
//! use vtensor::OpIndex;
//!
//! fn train(plan: VerifiedPlan, iterations: u32) -> Result<(), RuntimeError> {
//!     let ops = plan.skeleton.ops.len();
//!     let planned = Planned::new(plan, Options::default())?;
//!     let mut frozen = planned.freeze(|_tensor, _offset, bytes| bytes.fill(0))?;
//!     for _ in 0..iterations {
//!         frozen.iteration_begin()?;
//!         for op in 0..ops {
//!             let mut step = frozen.step_begin(OpIndex::from_index(op))?;
//!             for access in 0..step.len() {
//!                 if step.mode(access).writes() {
//!                     step.slice_mut(access)[0] = 1; // the op computes
//!                 }
//!             }
//!             frozen.step_end()?;
//!         }
//!         frozen.iteration_end()?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Limits: Linux, 64 bits. *Not here*: planning and proving (crate `lgm`).

mod arena;
pub mod boundary;
mod content;
mod copier;
mod counters;
mod course;
mod crew;
pub mod cuda;
pub mod device;
mod direction;
mod engine;
pub mod error;
pub mod failed;
pub mod failure;
pub mod fault;
pub mod frozen;
mod ground;
mod ledger;
pub mod live;
pub mod memory;
pub mod options;
pub mod pattern;
mod places;
pub mod planned;
mod private;
mod region;
mod residency;
mod scale;
pub mod settings;
mod shares;
pub mod spill;
pub mod stats;
pub mod step;
pub mod storage;
mod sync;
pub mod system;
mod table;
mod team;
mod tenancy;
pub mod throttle;
mod waiting;
mod window_map;

// Test support is shared with the integration tests, which know this crate by its name.
#[cfg(test)]
extern crate self as jetson_runtime;
#[cfg(test)]
mod tests;

pub use device::{DeviceProfile, KnownGpu, MeasuredWay};
pub use error::RuntimeError;
pub use failed::{Failed, StoppedAt, TensorRange};
pub use failure::{Direction, Failure};
pub use fault::Fault;
pub use frozen::Frozen;
pub use live::{
    Access, Config, Divergence, Loss, LostRange, Op, ProgramKey, ProgramReport, Runtime,
    RuntimeStats, Tensor, TensorDesc, Token, View, predict, written_per_day,
};
pub use memory::{Usage, process_pss};
pub use nix::errno::Errno;
pub use options::Options;
pub use planned::Planned;
pub use settings::Settings;
pub use spill::Spill;
pub use stats::Stats;
pub use step::{Accesses, Step};
pub use storage::{Integrity, IoPath, StorageOptions, StorageProbe, Tuning};
pub use system::{L4tRelease, System};
pub use throttle::Throttle;
pub use window_map::MapLimits;
