//! The wall between Rust and C: every export runs inside one of these two functions.
//!
//! In: the body of an export. Out: its value, or, if it panics, a value that C understands.
//! Guarantees: no panic crosses; its message is in `vt_last_error`.

use core::fmt;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::last_error;
use crate::status::{Status, VT_ERROR_INTERNAL, VT_OK};

/// Runs `body`; answers `on_panic` if it panics.
pub(crate) fn guard<T>(on_panic: T, body: impl FnOnce() -> T) -> T {
    // Unwind safety: exports keep no state of their own across calls; an object that a panic may
    // leave half-changed has to say so by itself (the runtime's phase `Failed`).
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => {
            last_error::set(format_args!("bug in vTensor: {}", message(&*payload)));
            // A payload may panic when it is dropped, outside of every wall. A leak on the way of
            // a bug is the lesser evil.
            std::mem::forget(payload);
            on_panic
        }
    }
}

/// Runs the body of a call that may fail.
pub(crate) fn guard_status(body: impl FnOnce() -> Result<(), Status>) -> Status {
    guard(VT_ERROR_INTERNAL, || match body() {
        Ok(()) => VT_OK,
        Err(status) => {
            assert!(status.0 < 0, "a failure has a negative status");
            status
        }
    })
}

/// Leaves the detail of a failure, and passes its status on.
pub(crate) fn failure(status: Status, detail: fmt::Arguments<'_>) -> Status {
    last_error::set(detail);
    status
}

fn message(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a panic without a message"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::VT_ERROR_INVALID_ARGUMENT;
    use core::ffi::CStr;
    use std::panic::panic_any;

    fn detail() -> String {
        // SAFETY: it returns a C string that lives until the next call on this thread.
        let text = unsafe { CStr::from_ptr(last_error::get()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_the_answer_and_leaves_its_message() {
        assert_eq!(guard(7, || panic!("plain")), 7);
        assert_eq!(detail(), "bug in vTensor: plain");
        assert_eq!(guard_status(|| panic!("number {}", 5)), VT_ERROR_INTERNAL);
        assert_eq!(detail(), "bug in vTensor: number 5");
        assert_eq!(guard_status(|| panic_any(1_u8)), VT_ERROR_INTERNAL);
        assert_eq!(detail(), "bug in vTensor: a panic without a message");
    }

    #[test]
    fn a_payload_that_panics_when_dropped_does_not_cross() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        assert_eq!(guard(1, || panic_any(Bomb)), 1);
    }

    #[test]
    fn statuses_pass_and_success_leaves_the_detail_alone() {
        let failed = guard_status(|| Err(failure(VT_ERROR_INVALID_ARGUMENT, format_args!("why"))));
        assert_eq!(failed, VT_ERROR_INVALID_ARGUMENT);
        assert_eq!(guard_status(|| Ok(())), VT_OK);
        assert_eq!(detail(), "why");
    }

    #[test]
    fn a_failure_that_claims_success_is_our_bug() {
        assert_eq!(guard_status(|| Err(VT_OK)), VT_ERROR_INTERNAL);
    }
}
