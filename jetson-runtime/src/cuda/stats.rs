//! What a program on a GPU has done.

use vtensor::Bytes;

/// Numbers since the freeze.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Iterations that were enqueued to their end.
    pub iterations: u64,
    /// Bytes of the copies that were enqueued, or made by way of a file: out, in.
    pub(crate) moved: [u64; 2],
    /// Waits that the steps' thread put on streams.
    pub waits: u64,
    /// How often that thread waited: being two iterations ahead, or for a copy by way of a file.
    pub host_waits: u64,
    /// How long, in nanoseconds.
    pub host_wait_ns: u64,
}

impl Stats {
    /// Bytes that left the device.
    #[must_use]
    pub const fn moved_out(&self) -> Bytes {
        Bytes(self.moved[0])
    }

    /// Bytes that returned.
    #[must_use]
    pub const fn moved_in(&self) -> Bytes {
        Bytes(self.moved[1])
    }
}
