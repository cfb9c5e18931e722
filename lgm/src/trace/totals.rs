//! Totals: sums over the tables of a trace.

use vtensor::Bytes;

/// Sums over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) peak: Bytes,
    pub(super) peak_op: usize,
    pub(super) persistent: Bytes,
    pub(super) largest: Bytes,
    pub(super) largest_op: usize,
}
