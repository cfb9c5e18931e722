//! What C asks when a call has failed: the sentence of its status, and the detail.

use core::ffi::c_char;

use crate::guard::guard;
use crate::last_error;
use crate::status::{Status, UNKNOWN, sentence};

/// The sentence of a status, or [`UNKNOWN`]. Static text: never NULL, never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn vt_status_string(status: Status) -> *const c_char {
    guard(UNKNOWN.as_ptr(), || sentence(status).as_ptr())
}

/// The detail of the last call that failed on this thread; empty if none has. Valid until the next
/// call on this thread; owned by the library.
#[unsafe(no_mangle)]
pub extern "C" fn vt_last_error() -> *const c_char {
    guard(c"".as_ptr(), last_error::get)
}
