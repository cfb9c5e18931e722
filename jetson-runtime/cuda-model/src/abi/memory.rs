//! Device, managed, pinned and registered memory.

use std::ffi::{c_int, c_uint, c_void};

use super::{call, giving_back, list, narrow, present, put, wide};
use crate::driver::Location;
use crate::driver::call::Need;
use crate::status::Status;

/// A `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CLocation {
    pub(super) kind: c_int,
    pub(super) id: c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    call("cuMemGetInfo_v2", Need::Context, |driver| {
        let (left, all) = driver.memory_info();
        present(total)?;
        // SAFETY: the caller's output.
        unsafe { put(free, narrow(left)) }?;
        // SAFETY: the caller's output.
        unsafe { put(total, narrow(all)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    call("cuMemAlloc_v2", Need::Context, |driver| {
        present(address)?;
        let found = driver.allocate(wide(bytes))?;
        // SAFETY: the caller's output.
        unsafe { put(address, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    giving_back("cuMemFree_v2", Need::Context, address, |driver| {
        driver.free(address)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint) -> c_int {
    call("cuMemAllocManaged", Need::Context, |driver| {
        present(address)?;
        let found = driver.allocate_managed(wide(bytes), flags)?;
        // SAFETY: the caller's output.
        unsafe { put(address, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(
    pointer: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> c_int {
    call("cuMemHostAlloc", Need::Context, |driver| {
        present(pointer)?;
        let found = driver.allocate_host(wide(bytes), flags)?;
        let found = std::ptr::with_exposed_provenance_mut(narrow(found));
        // SAFETY: the caller's output.
        unsafe { put(pointer, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> c_int {
    let address = wide(pointer.addr());
    giving_back("cuMemFreeHost", Need::Context, address, |driver| {
        driver.free_host(address)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    address: *mut u64,
    pointer: *mut c_void,
    flags: c_uint,
) -> c_int {
    call("cuMemHostGetDevicePointer_v2", Need::Context, |driver| {
        present(address)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let found = driver.device_pointer(wide(pointer.addr()))?;
        // SAFETY: the caller's output.
        unsafe { put(address, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostRegister_v2(
    pointer: *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> c_int {
    call("cuMemHostRegister_v2", Need::Context, |driver| {
        driver.register(wide(pointer.expose_provenance()), wide(bytes), flags)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostUnregister(pointer: *mut c_void) -> c_int {
    let address = wide(pointer.addr());
    giving_back("cuMemHostUnregister", Need::Context, address, |driver| {
        driver.unregister(address)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPrefetchAsync(
    address: u64,
    bytes: usize,
    device: c_int,
    stream: usize,
) -> c_int {
    call("cuMemPrefetchAsync", Need::Context, |driver| {
        let location = Location::of_ordinal(device);
        driver.prefetch(address, wide(bytes), location, wide(stream))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPrefetchAsync_v2(
    address: u64,
    bytes: usize,
    location: CLocation,
    flags: c_uint,
    stream: usize,
) -> c_int {
    call("cuMemPrefetchAsync_v2", Need::Context, |driver| {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let location = Location::of_kind(location.kind, location.id)?;
        driver.prefetch(address, wide(bytes), location, wide(stream))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAdvise(
    address: u64,
    bytes: usize,
    advice: c_int,
    device: c_int,
) -> c_int {
    call("cuMemAdvise", Need::Context, |driver| {
        driver.advise(address, wide(bytes), advice, Location::of_ordinal(device))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAdvise_v2(
    address: u64,
    bytes: usize,
    advice: c_int,
    location: CLocation,
) -> c_int {
    call("cuMemAdvise_v2", Need::Context, |driver| {
        let location = Location::of_kind(location.kind, location.id)?;
        driver.advise(address, wide(bytes), advice, location)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemDiscardBatchAsync(
    addresses: *const u64,
    sizes: *const usize,
    count: usize,
    flags: u64,
    stream: usize,
) -> c_int {
    call("cuMemDiscardBatchAsync", Need::Context, |driver| {
        if flags != 0 || count == 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's list.
        let addresses = unsafe { list(addresses, count) }?;
        // SAFETY: the caller's list.
        let sizes = unsafe { list(sizes, count) }?;
        let sizes = sizes.into_iter().map(wide);
        let ranges: Vec<(u64, u64)> = addresses.into_iter().zip(sizes).collect();
        driver.discard(&ranges, wide(stream))
    })
}
