//! Virtual memory.

use std::ffi::{c_int, c_void};

use super::memory::CLocation;
use super::{call, giving_back, list, narrow, present, put, wide};
use crate::driver::Property;
use crate::driver::call::Need;
use crate::status::Status;

/// A `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CProperty {
    kind: c_int,
    handle_types: c_int,
    location: CLocation,
    win32_meta: *mut c_void,
    flags: [u8; 8],
}

/// A `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CAccess {
    location: CLocation,
    flags: c_int,
}

const _: () = assert!(size_of::<CProperty>() == 32 && size_of::<CAccess>() == 12);

/// # Safety
/// The pointer is NULL or the caller's property.
unsafe fn property(from: *const CProperty) -> Result<Property, Status> {
    // SAFETY: the caller vouches for one property.
    let found = unsafe { list(from, 1) }?[0];
    Ok(Property {
        kind: found.kind,
        location: found.location.kind,
        device: found.location.id,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAllocationGranularity(
    granularity: *mut usize,
    wanted: *const CProperty,
    option: c_int,
) -> c_int {
    call("cuMemGetAllocationGranularity", Need::Device, |driver| {
        if !matches!(option, 0 | 1) {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's property.
        let wanted = unsafe { property(wanted) }?;
        let found = driver.allocation_granularity(wanted)?;
        // SAFETY: the caller's output.
        unsafe { put(granularity, narrow(found)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAddressReserve(
    address: *mut u64,
    bytes: usize,
    align: usize,
    wish: u64,
    flags: u64,
) -> c_int {
    call("cuMemAddressReserve", Need::Device, |driver| {
        present(address)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let found = driver.reserve(wide(bytes), wide(align), wish)?;
        // SAFETY: the caller's output.
        unsafe { put(address, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAddressFree(address: u64, bytes: usize) -> c_int {
    giving_back("cuMemAddressFree", Need::Device, address, |driver| {
        driver.unreserve(address, wide(bytes))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemCreate(
    handle: *mut u64,
    bytes: usize,
    wanted: *const CProperty,
    flags: u64,
) -> c_int {
    call("cuMemCreate", Need::Device, |driver| {
        present(handle)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's property.
        let wanted = unsafe { property(wanted) }?;
        let found = driver.create(wide(bytes), wanted)?;
        // SAFETY: the caller's output.
        unsafe { put(handle, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemRelease(handle: u64) -> c_int {
    giving_back("cuMemRelease", Need::Device, handle, |driver| {
        driver.release_chunk(handle)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemMap(
    address: u64,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
) -> c_int {
    call("cuMemMap", Need::Device, |driver| {
        if flags != 0 || bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        driver.map(address, wide(bytes), wide(offset), handle)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemUnmap(address: u64, bytes: usize) -> c_int {
    giving_back("cuMemUnmap", Need::Device, address, |driver| {
        driver.unmap(address, wide(bytes))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemSetAccess(
    address: u64,
    bytes: usize,
    descriptions: *const CAccess,
    count: usize,
) -> c_int {
    call("cuMemSetAccess", Need::Device, |driver| {
        if count == 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's list.
        for access in unsafe { list(descriptions, count) }? {
            let property = Property {
                kind: 0,
                location: access.location.kind,
                device: access.location.id,
            };
            driver.set_access(address, wide(bytes), property, access.flags)?;
        }
        Ok(())
    })
}
