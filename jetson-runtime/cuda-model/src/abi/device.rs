//! Device and context.

use std::ffi::{c_char, c_int, c_uint};

use super::{call, narrow, present, put};
use crate::driver::call::{Need, current};
use crate::status::{Status, texts};

/// How a `CUuuid` begins; the rest are zeroes.
const UUID: &[u8; 10] = b"cuda-model";

#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(flags: c_uint) -> c_int {
    call("cuInit", Need::Nothing, |driver| driver.init(flags))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    call("cuDriverGetVersion", Need::Nothing, |driver| {
        // SAFETY: the caller's output.
        unsafe { put(version, driver.profile.driver) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    call("cuDeviceGetCount", Need::Init, |_| {
        // SAFETY: the caller's output.
        unsafe { put(count, 1) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    call("cuDeviceGet", Need::Init, |driver| {
        driver.device(ordinal)?;
        // SAFETY: the caller's output.
        unsafe { put(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int) -> c_int {
    call("cuDeviceGetName", Need::Init, |driver| {
        driver.device(device)?;
        present(name)?;
        let room = usize::try_from(bytes).map_err(|_| Status::INVALID_VALUE)?;
        let full = driver.profile.device.bytes();
        let cut = full.take(room.checked_sub(1).ok_or(Status::INVALID_VALUE)?);
        for (index, byte) in cut.chain([0]).enumerate() {
            // SAFETY: the caller's output has `bytes` bytes; this many fit.
            let to = unsafe { name.cast::<u8>().add(index) };
            // SAFETY: as above.
            unsafe { put(to, byte) }?;
        }
        Ok(())
    })
}

unsafe fn uuid(name: &'static str, to: *mut [u8; 16], device: c_int) -> c_int {
    call(name, Need::Init, |driver| {
        driver.device(device)?;
        let mut uuid = [0; 16];
        uuid[..UUID.len()].copy_from_slice(UUID);
        // SAFETY: the caller's output.
        unsafe { put(to, uuid) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid(to: *mut [u8; 16], device: c_int) -> c_int {
    // SAFETY: the caller's output.
    unsafe { uuid("cuDeviceGetUuid", to, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(to: *mut [u8; 16], device: c_int) -> c_int {
    // SAFETY: the caller's output.
    unsafe { uuid("cuDeviceGetUuid_v2", to, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    number: c_int,
    device: c_int,
) -> c_int {
    call("cuDeviceGetAttribute", Need::Init, |driver| {
        let found = driver.attribute(number, device)?;
        // SAFETY: the caller's output.
        unsafe { put(value, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> c_int {
    call("cuDeviceTotalMem_v2", Need::Init, |driver| {
        driver.device(device)?;
        let total = usize::try_from(driver.capacity).map_err(|_| Status::UNKNOWN)?;
        // SAFETY: the caller's output.
        unsafe { put(bytes, total) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) -> c_int {
    call("cuDevicePrimaryCtxRetain", Need::Device, |driver| {
        present(context)?;
        let handle = driver.retain(device)?;
        // SAFETY: the caller's output.
        unsafe { put(context, narrow(handle)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    call("cuDevicePrimaryCtxRelease_v2", Need::Init, |driver| {
        driver.release(device)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: usize) -> c_int {
    call("cuCtxSetCurrent", Need::Init, |driver| {
        driver.make_current(context as u64)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut usize) -> c_int {
    call("cuCtxGetCurrent", Need::Init, |_| {
        // SAFETY: the caller's output.
        unsafe { put(context, narrow(current())) }
    })
}

/// The symbol or the text of a code, which need no call to be counted.
unsafe fn told(code: c_int, to: *mut *const c_char, name: bool) -> c_int {
    super::guarded(|| {
        let (symbol, text) = texts(code).ok_or(Status::INVALID_VALUE)?;
        let told = if name { symbol } else { text };
        // SAFETY: the caller's output.
        unsafe { put(to, told.as_ptr()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: c_int, name: *mut *const c_char) -> c_int {
    // SAFETY: the caller's output.
    unsafe { told(code, name, true) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's output.
    unsafe { told(code, text, false) }
}
