//! Modules and launches.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{call, giving_back, list, narrow, present, put, text, wide};
use crate::driver::Shape;
use crate::driver::call::Need;
use crate::status::Status;

/// # Safety
/// The image is NULL or a C string; PTX is text.
unsafe fn load(name: &'static str, module: *mut usize, image: *const c_void) -> c_int {
    call(name, Need::Context, |driver| {
        present(module)?;
        // SAFETY: the caller vouches for the image.
        let text = unsafe { text(image.cast::<c_char>()) }.map_err(|_| Status::INVALID_IMAGE)?;
        let handle = driver.load_module(text)?;
        // SAFETY: the caller's output.
        unsafe { put(module, narrow(handle)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut usize, image: *const c_void) -> c_int {
    // SAFETY: the caller vouches for the image.
    unsafe { load("cuModuleLoadData", module, image) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut usize,
    image: *const c_void,
    _count: c_uint,
    _options: *mut c_int,
    _values: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller vouches for the image.
    unsafe { load("cuModuleLoadDataEx", module, image) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: usize) -> c_int {
    let handle = wide(module);
    giving_back("cuModuleUnload", Need::Context, handle, |driver| {
        driver.unload_module(handle)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut usize,
    module: usize,
    name: *const c_char,
) -> c_int {
    call("cuModuleGetFunction", Need::Context, |driver| {
        present(function)?;
        // SAFETY: the caller's C string.
        let name = unsafe { text(name) }?;
        let handle = driver.function(wide(module), name)?;
        // SAFETY: the caller's output.
        unsafe { put(function, narrow(handle)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    _shared_bytes: c_uint,
    stream: usize,
    parameters: *const *const u64,
    extra: *const *const c_void,
) -> c_int {
    call("cuLaunchKernel", Need::Context, |driver| {
        if !extra.is_null() {
            return Err(Status::NOT_SUPPORTED);
        }
        let count = driver.parameters(wide(function))?;
        // SAFETY: the caller passes one pointer for each parameter of the kernel.
        let places = unsafe { list(parameters, count) }?;
        let mut values = Vec::with_capacity(count);
        for place in places {
            // SAFETY: every parameter of the known kernels is a number of 64 bits.
            values.push(unsafe { list(place, 1) }?[0]);
        }
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
        };
        driver.launch(wide(function), shape, wide(stream), &values)
    })
}
