//! Amounts of memory as people write them, so that an application reads a budget from its command
//! line or its environment by the same rules as `vtensor-bench`.

use core::ffi::{CStr, c_char};

use vtensor::Bytes;

use crate::guard::{failure, guard_status};
use crate::status::{Status, VT_ERROR_INVALID_ARGUMENT};

/// Reads `text` (`4096`, `96MiB`, `1.5 GiB`, `2GB`) into `*bytes_out`, which is written only on
/// success.
///
/// # Safety
/// `text` is NULL or a C string; `bytes_out` is NULL or points to a writable `uint64_t`. Neither is
/// used after the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_bytes_parse(text: *const c_char, bytes_out: *mut u64) -> Status {
    guard_status(|| {
        if text.is_null() || bytes_out.is_null() {
            let which = if text.is_null() { "text" } else { "bytes_out" };
            return Err(failure(
                VT_ERROR_INVALID_ARGUMENT,
                format_args!("vt_bytes_parse: {which} is NULL"),
            ));
        }
        // SAFETY: not NULL, checked above; the caller hands a C string that outlives the call.
        let text = unsafe { CStr::from_ptr(text) };
        let text = text.to_str().map_err(|error| {
            failure(
                VT_ERROR_INVALID_ARGUMENT,
                format_args!("vt_bytes_parse: the text is not UTF-8: {error}"),
            )
        })?;
        let bytes = text.parse::<Bytes>().map_err(|error| {
            failure(
                VT_ERROR_INVALID_ARGUMENT,
                format_args!("vt_bytes_parse: \"{text}\": {error}"),
            )
        })?;
        // SAFETY: not NULL, checked above; the caller hands a pointer that may be written.
        unsafe { bytes_out.write(bytes.0) };
        Ok(())
    })
}
