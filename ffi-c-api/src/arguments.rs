//! Arguments: pointers and texts of the caller, checked.

use core::ffi::{CStr, c_char};

use crate::guard::failure;
use crate::status::{Status, VT_ERROR_INVALID_ARGUMENT};

/// Refuses a pointer that is NULL. `what` names the function and its parameter.
pub(crate) fn not_null<T>(pointer: *const T, what: &str) -> Result<(), Status> {
    if pointer.is_null() {
        return Err(invalid(format_args!("{what} is NULL")));
    }
    if !pointer.is_aligned() {
        return Err(invalid(format_args!(
            "{what} is not aligned as its type is"
        )));
    }
    Ok(())
}

/// Reads a text that has to be there.
///
/// # Safety
/// `text` is NULL or a C string that outlives `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Status> {
    not_null(text, what)?;
    // SAFETY: not NULL; the caller promises a C string.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|error| invalid(format_args!("{what} is not UTF-8: {error}")))
}

/// Reads a text for which NULL is the empty one.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn text_or_empty<'a>(from: *const c_char, what: &str) -> Result<&'a str, Status> {
    if from.is_null() {
        return Ok("");
    }
    // SAFETY: handed on from this function's caller.
    unsafe { text(from, what) }
}

/// An argument that is not what the call takes.
#[cold]
pub(crate) fn invalid(detail: core::fmt::Arguments<'_>) -> Status {
    failure(VT_ERROR_INVALID_ARGUMENT, detail)
}
