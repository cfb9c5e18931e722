//! What a frozen runtime has done so far.

use std::time::Instant;

use vtensor::Bytes;

/// Numbers since the freeze. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Iterations that ended.
    pub iterations: u64,
    /// Bytes that outs have moved, as executed.
    pub moved_out: Bytes,
    /// Bytes that ins have moved, as executed.
    pub moved_in: Bytes,
    /// How long the application has waited for copies.
    pub stall_ns: u64,
    /// How often it has waited.
    pub stalls: u64,
    /// How long outs have run, a throttle's delay included.
    pub out_busy_ns: u64,
    /// How long ins have run, a throttle's delay included.
    pub in_busy_ns: u64,
    /// Mappings of the kernel that the windows hold.
    pub mappings: u64,
    /// Virtual memory that the windows hold.
    pub virtual_bytes: Bytes,
}

/// Nanoseconds since a moment.
pub(crate) fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
