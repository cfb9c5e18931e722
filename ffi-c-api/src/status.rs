//! The status codes. One table holds name, number and sentence; the header's copy of the numbers
//! is compared with it by a test.
//!
//! Guarantees: `VT_OK` is 0 and errors are negative. A number that was released is never given to
//! another error, even when its error is gone. New codes may appear, so callers treat a negative
//! number that they do not know as a failure.

use core::ffi::CStr;

/// What a fallible call returns: `vt_status` in C, an `int32_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub i32);

/// A row of [`TABLE`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in the header.
    pub name: &'static str,
    /// The number.
    pub status: Status,
    /// What it means, for people.
    pub sentence: &'static CStr,
}

/// The call did what it says.
pub const VT_OK: Status = Status(0);
/// An argument is not what the call takes: NULL, out of range, or text that cannot be read.
pub const VT_ERROR_INVALID_ARGUMENT: Status = Status(-1);
/// A bug in vTensor: a panic was caught at the border.
pub const VT_ERROR_INTERNAL: Status = Status(-2);

/// The request is understood, but this version or this machine cannot do it.
pub const VT_ERROR_UNSUPPORTED: Status = Status(-3);
/// Another call on the same runtime is running.
pub const VT_ERROR_BUSY: Status = Status(-4);
/// A runtime or a tensor that does not exist (any more).
pub const VT_ERROR_NOT_FOUND: Status = Status(-5);
/// The call came out of order.
pub const VT_ERROR_ORDER: Status = Status(-6);
/// The machine does not have the memory.
pub const VT_ERROR_NO_MEMORY: Status = Status(-7);
/// The tensors of one op do not fit into the budget together.
pub const VT_ERROR_BUDGET: Status = Status(-8);
/// The spill tier has no room.
pub const VT_ERROR_SPILL_FULL: Status = Status(-9);
/// The system refused an operation on a file, a mapping or a thread.
pub const VT_ERROR_SYSTEM: Status = Status(-10);
/// Bytes of a tensor are gone.
pub const VT_ERROR_LOST: Status = Status(-11);
/// A plan could not be made, or a file is no plan for this application.
pub const VT_ERROR_PLAN: Status = Status(-12);
/// The runtime has failed for good.
pub const VT_ERROR_FAILED: Status = Status(-13);
/// The buffer is too small for the answer.
pub const VT_ERROR_BUFFER: Status = Status(-14);

/// Every status. Rows are added, never changed.
pub const TABLE: &[Row] = &[
    Row {
        name: "VT_OK",
        status: VT_OK,
        sentence: c"success",
    },
    Row {
        name: "VT_ERROR_INVALID_ARGUMENT",
        status: VT_ERROR_INVALID_ARGUMENT,
        sentence: c"an argument is not what the call takes",
    },
    Row {
        name: "VT_ERROR_INTERNAL",
        status: VT_ERROR_INTERNAL,
        sentence: c"a bug in vTensor was caught before it could do harm; please report it",
    },
    Row {
        name: "VT_ERROR_UNSUPPORTED",
        status: VT_ERROR_UNSUPPORTED,
        sentence: c"this version of vTensor, or this machine, cannot do it",
    },
    Row {
        name: "VT_ERROR_BUSY",
        status: VT_ERROR_BUSY,
        sentence: c"another call on the same runtime is running",
    },
    Row {
        name: "VT_ERROR_NOT_FOUND",
        status: VT_ERROR_NOT_FOUND,
        sentence: c"there is no such runtime or tensor, or it was destroyed",
    },
    Row {
        name: "VT_ERROR_ORDER",
        status: VT_ERROR_ORDER,
        sentence: c"the call came out of order",
    },
    Row {
        name: "VT_ERROR_NO_MEMORY",
        status: VT_ERROR_NO_MEMORY,
        sentence: c"the machine does not have the memory",
    },
    Row {
        name: "VT_ERROR_BUDGET",
        status: VT_ERROR_BUDGET,
        sentence: c"the tensors of one op do not fit into the budget together",
    },
    Row {
        name: "VT_ERROR_SPILL_FULL",
        status: VT_ERROR_SPILL_FULL,
        sentence: c"the spill tier has no room",
    },
    Row {
        name: "VT_ERROR_SYSTEM",
        status: VT_ERROR_SYSTEM,
        sentence: c"the operating system refused",
    },
    Row {
        name: "VT_ERROR_LOST",
        status: VT_ERROR_LOST,
        sentence: c"bytes of a tensor are gone; write them again",
    },
    Row {
        name: "VT_ERROR_PLAN",
        status: VT_ERROR_PLAN,
        sentence: c"there is no plan, or it does not fit this application",
    },
    Row {
        name: "VT_ERROR_FAILED",
        status: VT_ERROR_FAILED,
        sentence: c"the runtime has failed for good; destroy it",
    },
    Row {
        name: "VT_ERROR_BUFFER",
        status: VT_ERROR_BUFFER,
        sentence: c"the buffer is too small for the answer",
    },
];

/// What a status that is in no row reads as.
pub const UNKNOWN: &CStr = c"a status that this version of vTensor does not know";

/// The sentence of a status, or [`UNKNOWN`].
pub(crate) fn sentence(status: Status) -> &'static CStr {
    let row = TABLE.iter().find(|row| row.status == status);
    row.map_or(UNKNOWN, |row| row.sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_unique_and_only_ok_is_not_negative() {
        for (index, row) in TABLE.iter().enumerate() {
            for other in &TABLE[..index] {
                assert_ne!(row.name, other.name);
                assert_ne!(row.status, other.status);
            }
            assert_eq!(row.status.0 >= 0, row.name == "VT_OK", "{}", row.name);
        }
    }

    #[test]
    fn every_status_has_its_sentence_and_others_are_called_unknown() {
        for row in TABLE {
            assert_eq!(sentence(row.status), row.sentence);
        }
        for unknown in [1, -9999, i32::MIN, i32::MAX] {
            assert_eq!(sentence(Status(unknown)), UNKNOWN);
        }
    }
}
