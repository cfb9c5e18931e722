//! A live application: its iterations are recorded under the budget, then planned, proven, frozen
//! and replayed.
//!
//! In: tensors, and iterations of ops that use them. Out: for each op, the addresses of its
//! tensors. Data flows
//!
//! ```text
//! application ──> runtime ──┬─> heap (on demand) ──> score ──> transcript ──> planning
//!                           └─> program (frozen) <──────────────────────────────┘
//! ```
//!
//! | module | noun |
//! |---|---|
//! | `config` | what an application may choose |
//! | `tensor`, `registry` | handles, and what they stand for |
//! | `runtime`, `iteration` | the calls of an application, outside and inside iterations |
//! | `recording` | an iteration on demand |
//! | `attempts` | calls that are refused in a frozen iteration, without an end of it |
//! | `op` | an open op: its tensors at their addresses |
//! | `heap`, `garage`, `space` | memory on demand: whole tensors in the arena |
//! | `seats`, `seated` | addresses that tensors keep for life; tensors that have one |
//! | `windows` | memory by address, for applications that hold pointers |
//! | `pins` | tensors that stay at one address |
//! | `contents` | what tensors on the heap hold |
//! | `losses` | which bytes of a tensor cannot be used |
//! | `score` | a recorded iteration |
//! | `transcript` | a score as a trace that can be planned |
//! | `planning` | from a transcript to a proven plan |
//! | `program` | a frozen program and how it maps to the application's ops |
//! | `replays` | ops that may run again |
//! | `putback` | pinned tensors, as they were before an op ran again |
//! | `replay_check` | whether an op that runs again leaves the same bits |
//! | `recovery` | what a program that stops had given up to compute it later |
//! | `program_file` | a program that is saved and loaded |
//! | `track` | what is known of one kind of iteration |
//! | `switching` | carrying tensors between heap and programs |
//! | `wear` | what programs write to flash |
//! | `link` | measuring the link to the spill tier |
//! | `report` | what was done |
//!
//! Guarantees: the budget holds from the first op on; an op sees its tensors' latest bytes or the
//! call fails; a program runs only after the verifier has passed it; while a program runs as
//! recorded, nothing is allocated, locked, logged or decided.
//!
//! Where this differs from a design with one HOME for all programs: each program has a HOME of its
//! own, and what is persistent is carried over when another kind of iteration begins. So every
//! program is planned freely and a change costs only when it happens (reported as switches), and
//! tensors that a program does not use wait in the garage and take no page from it.

mod attempts;
mod config;
mod contents;
mod garage;
mod heap;
mod iteration;
mod link;
mod losses;
mod op;
mod pins;
mod planning;
mod program;
mod program_file;
mod putback;
mod recording;
mod recovery;
mod registry;
mod replay_check;
mod replays;
mod report;
mod runtime;
mod score;
mod seated;
mod seats;
mod space;
mod switching;
mod tensor;
mod track;
mod transcript;
mod wear;
mod windows;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;

pub use config::Config;
pub use losses::{Loss, LostRange};
pub use op::{Op, View};
pub use planning::predict;
pub use replays::Token;
pub use report::{Divergence, ProgramReport, RuntimeStats};
pub use runtime::Runtime;
pub use tensor::{Access, ProgramKey, Tensor, TensorDesc};
pub use wear::written_per_day;
