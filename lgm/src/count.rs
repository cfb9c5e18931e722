//! Counts of rows, as the tables hold them. The limits of `vtensor::limits` make these exact.

/// A row, or a number of rows.
pub(crate) fn to_u32(rows: usize) -> u32 {
    u32::try_from(rows).expect("limits: no table has 2^32 rows")
}

/// A number of rows that is counted with others that may be negative.
pub(crate) fn to_i64(rows: usize) -> i64 {
    i64::try_from(rows).expect("limits: no table has 2^32 rows")
}
