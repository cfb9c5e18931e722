//! Events.

use std::ffi::{c_int, c_uint};

use super::{call, giving_back, narrow, present, put, waiting, wide};
use crate::driver::call::{Call, Need};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut usize, flags: c_uint) -> c_int {
    call("cuEventCreate", Need::Context, |driver| {
        present(event)?;
        let handle = driver.create_event(flags)?;
        // SAFETY: the caller's output.
        unsafe { put(event, narrow(handle)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: usize) -> c_int {
    let handle = wide(event);
    giving_back("cuEventDestroy_v2", Need::Context, handle, |driver| {
        driver.destroy_event(handle)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: usize, stream: usize) -> c_int {
    call("cuEventRecord", Need::Context, |driver| {
        driver.record(wide(event), wide(stream))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventQuery(event: usize) -> c_int {
    call("cuEventQuery", Need::Context, |driver| {
        driver.query_event(wide(event))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(event: usize) -> c_int {
    let call = Call {
        name: "cuEventSynchronize",
        need: Need::Context,
        gives_back: None,
    };
    waiting(call, |driver| driver.event_pending(wide(event)))
}

fn elapsed(name: &'static str, to: *mut f32, start: usize, end: usize) -> c_int {
    call(name, Need::Context, |driver| {
        let found = driver.elapsed(wide(start), wide(end))?;
        // SAFETY: the caller's output, as both functions below ask for.
        unsafe { put(to, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(to: *mut f32, start: usize, end: usize) -> c_int {
    elapsed("cuEventElapsedTime", to, start, end)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(to: *mut f32, start: usize, end: usize) -> c_int {
    elapsed("cuEventElapsedTime_v2", to, start, end)
}
