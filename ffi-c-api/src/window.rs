//! Fixed windows: memory whose address is fixed when it is allocated, for integrations that hold
//! raw pointers. To come: every call checks its arguments and its runtime, and says so.

use core::ffi::c_void;

use crate::arguments::not_null;
use crate::extensible;
use crate::guard::{failure, guard_status};
use crate::handle::{self, VtRuntime};
use crate::status::{Status, VT_ERROR_UNSUPPORTED};
use crate::tensor::VtTensorDesc;

fn to_come(runtime: *const VtRuntime, call: &'static str) -> Result<(), Status> {
    handle::with(runtime, call, |_| {
        Err(failure(
            VT_ERROR_UNSUPPORTED,
            format_args!(
                "{call}: this version has no fixed windows yet; take the pointers that \
                 vt_op_begin gives, or keep a tensor resident with vt_tensor_pin"
            ),
        ))
    })
}

/// Allocates memory whose address never changes; not supported yet.
///
/// # Safety
/// `desc` is NULL or as large as it says; `pointer_out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_alloc(
    runtime: *mut VtRuntime,
    desc: *const VtTensorDesc,
    pointer_out: *mut *mut c_void,
) -> Status {
    guard_status(|| {
        not_null(pointer_out, "vt_alloc: pointer_out")?;
        // SAFETY: handed on from this function's caller.
        unsafe { extensible::read(desc, "vt_alloc: desc") }?;
        to_come(runtime, "vt_alloc")
    })
}

/// Frees what [`vt_alloc`] has allocated; not supported yet.
#[unsafe(no_mangle)]
pub extern "C" fn vt_free(runtime: *mut VtRuntime, pointer: *mut c_void) -> Status {
    guard_status(|| {
        not_null(pointer.cast::<u8>(), "vt_free: pointer")?;
        to_come(runtime, "vt_free")
    })
}

/// Says which allocations the op that begins now uses; not supported yet.
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
        if count != 0 {
            not_null(pointers, "vt_touch: pointers")?;
        }
        to_come(runtime, "vt_touch")
    })
}
