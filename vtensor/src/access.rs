//! How one op uses one tensor.

use serde::{Deserialize, Serialize};

/// The mode of an access. `Write` promises to overwrite the *whole* tensor; whatever is less
/// than that, partial writes included, is `ReadWrite`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// The content is used and stays.
    Read,
    /// The old content is dead, all of it.
    Write,
    /// The old content is used, a new one stays.
    ReadWrite,
}

impl Mode {
    /// Whether the old content must be there.
    #[must_use]
    pub const fn reads(self) -> bool {
        !matches!(self, Self::Write)
    }

    /// Whether a new content is left behind.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}
