//! The storage tier: spilled bytes in an unlinked file, sealed, around the page cache.
//!
//! In: bytes of the arena. Out: the same bytes, or an error that says where. Data flows
//!
//! ```text
//! arena ──> buffers (seals) ──> disk (uring | plain) ──> file
//!       <──         (opens) <──
//! ```
//!
//! | module | noun |
//! |---|---|
//! | `options` | what an application may choose |
//! | `file` | a file without a name, and its space |
//! | `seals` | keeping contents private and noticing changes, block by block |
//! | `sealer` | doing so with several cores |
//! | `vault` | a key in memory that is never swapped or dumped |
//! | `blocks` | where sealed blocks are: in `buffers`, or in place |
//! | `buffers` | aligned buffers between arena and disk |
//! | `disk` | requests in flight; `plain` and `uring` make them, which `open` decides |
//! | `probe` | measuring a directory; `raw` what a copy is made of |
//! | `pipeline` | copies under way: buffers, requests, seals |
//! | `channel` | one user of the file |
//!
//! Guarantees: the file has no name while it is used, is its owner's alone (mode 0600), and is gone
//! when the process is, however it ends. What lies on the medium afterwards is sealed with a key
//! that only ever was in locked memory. A block that was changed behind the runtime's back is an
//! error and never content. Space is taken before it is used.
//!
//! Limits: on a copy-on-write or thinly provisioned file system taken space is no promise; there a
//! full disk can still be an error in the loop.

mod blocks;
mod buffers;
mod channel;
mod disk;
mod file;
mod medium;
mod open;
mod options;
mod pipeline;
mod plain;
mod probe;
mod raw;
mod sealer;
mod seals;
#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;
mod uring;
mod vault;

pub(crate) use channel::Channel;
pub(crate) use file::SpillFile;
pub use options::{Integrity, IoPath, REQUEST_BYTES, SEALERS_MAX, StorageOptions, Tuning};
pub(crate) use pipeline::{BlockCopy, TransferError};
pub use probe::{StorageProbe, probe};
pub(crate) use seals::Seals;

/// Contents are sealed in blocks of this size, which every device can address.
pub(crate) const BLOCK_BYTES: usize = 4096;

const _: () = assert!(BLOCK_BYTES as u64 == vtensor::limits::SLOT_ALIGN);
