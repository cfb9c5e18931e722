//! Windows: virtual ranges with a fixed page list, mapped once, at freeze.

use serde::{Deserialize, Serialize};

use crate::id::WindowId;

/// A window of a layout. Its page list is `runs[first_run .. first_run + run_count]` of the
/// program's table of page runs, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Where its runs begin in the program's table.
    pub first_run: u32,
    /// How many runs.
    pub run_count: u32,
    /// How many pages the runs hold together.
    pub pages: u32,
}

/// An address before there are addresses: a byte offset inside a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The window.
    pub window: WindowId,
    /// Bytes from its start.
    pub offset: u64,
}
