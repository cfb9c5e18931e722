//! Memory whose address is fixed when it is allocated, for integrations that hold raw pointers.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::slice;

use crate::arguments::{invalid, not_null};
use crate::extensible;
use crate::guard::guard_status;
use crate::handle::{self, VtRuntime};
use crate::refusal::refusal;
use crate::status::Status;
use crate::tensor::{VtTensor, VtTensorDesc};

/// Allocates memory whose address never changes.
///
/// # Safety
/// `desc` is NULL or as large as it says, its name NULL or a C string; `pointer_out` is NULL or may
/// be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_alloc(
    runtime: *mut VtRuntime,
    desc: *const VtTensorDesc,
    pointer_out: *mut *mut c_void,
) -> Status {
    guard_status(|| {
        not_null(pointer_out, "vt_alloc: pointer_out")?;
        // SAFETY: handed on from this function's caller.
        let desc = unsafe { extensible::read(desc, "vt_alloc: desc") }?;
        // SAFETY: handed on from this function's caller.
        let desc = unsafe { desc.read("vt_alloc: desc") }?;
        let pointer = handle::with(runtime, "vt_alloc", |held| {
            held.runtime.alloc(&desc).map_err(refusal("vt_alloc"))
        })?;
        // SAFETY: not NULL, checked above; the caller lets it be written.
        unsafe { pointer_out.write(pointer.as_ptr().cast()) };
        Ok(())
    })
}

/// Frees what [`vt_alloc`] has allocated.
#[unsafe(no_mangle)]
pub extern "C" fn vt_free(runtime: *mut VtRuntime, pointer: *mut c_void) -> Status {
    guard_status(|| {
        let pointer = given(pointer, "vt_free: pointer")?;
        handle::with(runtime, "vt_free", |held| {
            held.runtime.free(pointer).map_err(refusal("vt_free"))
        })
    })
}

/// Says which allocations the op that begins now uses.
///
/// # Safety
/// `pointers` is NULL or points to `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_touch(
    runtime: *mut VtRuntime,
    pointers: *const *mut c_void,
    count: usize,
) -> Status {
    guard_status(|| {
        if count > isize::MAX as usize / size_of::<*mut c_void>() {
            return Err(invalid(format_args!("vt_touch: count is {count}")));
        }
        let pointers = if count == 0 {
            &[]
        } else {
            not_null(pointers, "vt_touch: pointers")?;
            // SAFETY: not NULL and aligned, checked above; the caller has `count` pointers there.
            unsafe { slice::from_raw_parts(pointers, count) }
        };
        handle::with(runtime, "vt_touch", |held| {
            held.pointers.clear();
            for &pointer in pointers {
                held.pointers.push(given(pointer, "vt_touch: a pointer")?);
            }
            let touched = held.runtime.touch(&held.pointers);
            touched.map_err(refusal("vt_touch"))
        })
    })
}

/// The handle of what [`vt_alloc`] has allocated.
///
/// # Safety
/// `out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_tensor_at(
    runtime: *const VtRuntime,
    pointer: *const c_void,
    out: *mut VtTensor,
) -> Status {
    guard_status(|| {
        not_null(out, "vt_tensor_at: out")?;
        let pointer = given(pointer.cast_mut(), "vt_tensor_at: pointer")?;
        let tensor = handle::with(runtime, "vt_tensor_at", |held| {
            held.runtime
                .tensor_at(pointer)
                .map_err(refusal("vt_tensor_at"))
        })?;
        // SAFETY: not NULL, checked above; the caller lets it be written.
        unsafe { out.write(tensor.to_bits()) };
        Ok(())
    })
}

/// An address that is not NULL. It is compared, not followed.
fn given(pointer: *mut c_void, what: &str) -> Result<NonNull<u8>, Status> {
    NonNull::new(pointer.cast()).ok_or_else(|| invalid(format_args!("{what} is NULL")))
}
