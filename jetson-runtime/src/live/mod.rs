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
//! A module uses only those before it in this list: first words and memory, then programs, then who
//! has the tensors, then what an application may call. Only the heap also uses its own parts.
//!
//! | module | noun |
//! |---|---|
//! | `config` | what an application may choose |
//! | `tensor`, `score`, `registry` | handles, a recorded iteration, and what handles stand for |
//! | `op` | an open op: its tensors at their addresses, and what runs it again |
//! | `losses` | which bytes of a tensor cannot be used |
//! | `report` | what was done |
//! | `seats`, `space`, `garage` | addresses for life, room in the arena, tensors outside of it |
//! | `heap` | memory on demand: whole tensors in the arena |
//! | `contents`, `seated`, `pins` | of them: what they hold; addresses for life; places for good |
//! | `link` | measuring the link to the spill tier |
//! | `putback` | pinned tensors, as they were before an op ran again |
//! | `executor` | who executes a program: the host or a GPU |
//! | `program` | a frozen program and how it maps to the application's ops |
//! | `transcript` | a score as a trace that can be planned |
//! | `planning` | from a transcript to a proven plan |
//! | `program_file` | a program that is saved and loaded |
//! | `track` | what is known of one kind of iteration |
//! | `handover` | a tensor that goes from a program to the heap |
//! | `recovery` | what a program that stops had given up to compute it later |
//! | `wear` | what programs write to flash |
//! | `holdings` | the tensors, and who has them: the heap, or the active program |
//! | `switching` | carrying tensors between heap and programs |
//! | `keeping` | tensors that stay in the arena, at one address |
//! | `replay_check` | whether an op that runs again leaves the same bits |
//! | `recording` | an iteration on demand |
//! | `place` | where the application is: outside an iteration, or how far in one |
//! | `attempts` | calls that are refused in a frozen iteration, without an end of it |
//! | `runtime` | what an application holds, and its calls outside of iterations |
//! | `divergence` | an iteration that leaves its recording |
//! | `replays` | ops that run again, when they are due |
//! | `iteration` | the calls of an application inside iterations |
//! | `creation` | tensors that begin and end |
//! | `windows` | memory by address, for applications that hold pointers |
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
mod creation;
mod divergence;
mod executor;
mod garage;
mod handover;
mod heap;
mod holdings;
mod iteration;
mod keeping;
mod link;
mod losses;
mod op;
mod pins;
mod place;
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
pub use op::{Op, Token, View};
pub use planning::predict;
pub use report::{Divergence, ProgramReport, RuntimeStats};
pub use runtime::Runtime;
pub use tensor::{Access, ProgramKey, Tensor, TensorDesc};
pub use wear::written_per_day;
