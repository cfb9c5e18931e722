//! Copies and fills.

use std::ffi::{c_int, c_uchar, c_void};

use super::{Answer, call, waiting, wide};
use crate::driver::Driver;
use crate::driver::Transfer;
use crate::driver::call::{Call, Need};

/// A copy, as a call that may wait.
fn copy(transfer: Transfer, body: impl FnOnce(&mut Driver, Transfer) -> Answer) -> c_int {
    let call = Call {
        name: transfer.what,
        need: Need::Context,
        gives_back: None,
    };
    waiting(call, |driver| body(driver, transfer))
}

/// A copy to the device.
///
/// # Safety
/// The source can be read.
unsafe fn to_device(transfer: Transfer) -> c_int {
    copy(transfer, |driver, transfer| {
        // SAFETY: the caller vouches for the source.
        unsafe { driver.upload(transfer) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: usize,
) -> c_int {
    let transfer = Transfer {
        what: "cuMemcpyHtoDAsync_v2",
        device: to,
        host: wide(from.expose_provenance()),
        bytes: wide(bytes),
        stream: wide(stream),
        blocks: false,
    };
    // SAFETY: the caller vouches for the source.
    unsafe { to_device(transfer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int {
    let transfer = Transfer {
        what: "cuMemcpyHtoD_v2",
        device: to,
        host: wide(from.expose_provenance()),
        bytes: wide(bytes),
        stream: 0,
        blocks: true,
    };
    // SAFETY: the caller vouches for the source.
    unsafe { to_device(transfer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: usize,
) -> c_int {
    let transfer = Transfer {
        what: "cuMemcpyDtoHAsync_v2",
        device: from,
        host: wide(to.expose_provenance()),
        bytes: wide(bytes),
        stream: wide(stream),
        blocks: false,
    };
    copy(transfer, Driver::download)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    let transfer = Transfer {
        what: "cuMemcpyDtoH_v2",
        device: from,
        host: wide(to.expose_provenance()),
        bytes: wide(bytes),
        stream: 0,
        blocks: true,
    };
    copy(transfer, Driver::download)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: usize,
) -> c_int {
    call("cuMemcpyDtoDAsync_v2", Need::Context, |driver| {
        driver.copy_within(to, from, wide(bytes), wide(stream))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    value: c_uchar,
    count: usize,
    stream: usize,
) -> c_int {
    call("cuMemsetD8Async", Need::Context, |driver| {
        driver.set(to, value, wide(count), wide(stream))
    })
}
