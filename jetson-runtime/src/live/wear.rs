//! Wear: what programs write to flash.
//!
//! Limit: a day's writes follow from the cost model's time for an iteration, as if iterations
//! followed one another without a pause; where there can be no program, from the last iteration on
//! demand. What is written while an iteration is recorded, and when kinds of iterations change, is
//! not counted; it is reported with the rest of what moved.

use vtensor::Bytes;

use super::config::Config;
use super::tensor::ProgramKey;
use crate::error::RuntimeError;
use crate::spill::Spill;

/// Refuses iterations that write more to a spill file than they may: so much in one of `ns`
/// nanoseconds.
pub(super) fn check(
    config: &Config,
    key: ProgramKey,
    written: Bytes,
    ns: u64,
) -> Result<(), RuntimeError> {
    let (Spill::File(_), Some(max)) = (&config.spill, config.written_per_day_max) else {
        return Ok(());
    };
    let per_day = written_per_day(written, ns);
    match per_day > max {
        false => Ok(()),
        true => Err(RuntimeError::Wear {
            key: key.0,
            written,
            per_day,
            max,
            iterations: max.0 / written.0,
        }),
    }
}

/// What iterations of `ns` nanoseconds that write so much write in a day, one after another.
#[must_use]
pub fn written_per_day(written: Bytes, ns: u64) -> Bytes {
    const DAY_NS: u128 = 86_400_000_000_000;
    let bytes = u128::from(written.0) * DAY_NS / u128::from(ns.max(1));
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_86_400_seconds() {
        assert_eq!(written_per_day(Bytes(1), 1_000_000_000), Bytes(86_400));
        assert_eq!(written_per_day(Bytes(0), 0), Bytes(0));
        assert_eq!(written_per_day(Bytes(u64::MAX), 1), Bytes(u64::MAX));
    }
}
