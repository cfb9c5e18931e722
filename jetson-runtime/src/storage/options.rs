//! What an application may choose about a spill file.

use super::BLOCK_BYTES;

/// Requests in flight at most, for each engine.
const DEPTH_MAX: usize = 64;

/// How contents are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// Sealed with AES-256-GCM, under a key that is made for this file and never leaves memory.
    #[default]
    Encrypt,
    /// Readable, with a checksum (CRC-32C) for each block.
    Checksum,
}

/// How requests reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoPath {
    /// `Uring` where the kernel allows it, else `Plain`.
    #[default]
    Auto,
    /// `io_uring`: several requests in flight.
    Uring,
    /// `pread` and `pwrite`: one request at a time.
    Plain,
}

/// The largest request where none is asked for.
pub const REQUEST_BYTES: u32 = 512 << 10;

/// Threads that seal beside an engine, at most.
pub const SEALERS_MAX: u32 = 3;

/// What was measured to suit a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The largest request, in bytes.
    pub request_bytes: u32,
    /// Threads that seal and open beside each engine.
    pub sealers: u32,
}

/// How a spill file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageOptions {
    /// How contents are kept.
    pub integrity: Integrity,
    /// How requests reach the disk.
    pub path: IoPath,
    /// The largest request, in bytes; rounded down to whole blocks of 4 KiB, at least one. `None`
    /// is what was measured to do, or [`REQUEST_BYTES`] where nothing was measured.
    pub request_bytes: Option<u32>,
    /// Requests in flight for each engine, 1 to 64.
    pub depth: u32,
    /// Threads that seal and open beside each engine, at most [`SEALERS_MAX`]. `None` is what was
    /// measured to do, or none where nothing was measured.
    pub sealers: Option<u32>,
    /// Accept a directory whose files are in memory. On a device with one memory that frees none.
    pub memory_backed: bool,
}

impl StorageOptions {
    /// Memory that each engine of a program takes for the buffers of a spill file; where requests
    /// are measured, at most.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        (self.buffers() * self.request()) as u64
    }

    /// With what was measured, where nothing was asked for.
    #[must_use]
    pub(crate) fn tuned(self, tuning: Tuning) -> Self {
        Self {
            request_bytes: self.request_bytes.or(Some(tuning.request_bytes)),
            sealers: self.sealers.or(Some(tuning.sealers)),
            ..self
        }
    }

    /// Threads that seal beside each engine.
    pub(super) fn sealers(&self) -> usize {
        self.sealers.unwrap_or(0).min(SEALERS_MAX) as usize
    }

    /// Buffers of a channel: while some are on their way, others are sealed or opened.
    pub(super) fn buffers(&self) -> usize {
        2 * self.in_flight()
    }

    /// Bytes of the largest request: whole blocks.
    pub(super) fn request(&self) -> usize {
        let wanted = self.request_bytes.unwrap_or(REQUEST_BYTES) as usize;
        (wanted / BLOCK_BYTES).max(1) * BLOCK_BYTES
    }

    /// Requests in flight at most.
    pub(super) fn in_flight(&self) -> usize {
        (self.depth as usize).clamp(1, DEPTH_MAX)
    }
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            integrity: Integrity::Encrypt,
            path: IoPath::Auto,
            request_bytes: None,
            depth: 4,
            sealers: None,
            memory_backed: false,
        }
    }
}
