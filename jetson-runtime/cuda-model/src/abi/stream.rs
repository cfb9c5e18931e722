//! Streams.

use std::ffi::{c_int, c_uint};

use super::{call, giving_back, narrow, present, put, waiting, wide};
use crate::driver::call::{Call, Need};

fn create(name: &'static str, stream: *mut usize, flags: c_uint) -> c_int {
    call(name, Need::Context, |driver| {
        present(stream)?;
        let handle = driver.create_stream(flags)?;
        // SAFETY: the caller's output, as both functions below ask for.
        unsafe { put(stream, narrow(handle)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut usize, flags: c_uint) -> c_int {
    create("cuStreamCreate", stream, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut usize,
    flags: c_uint,
    _priority: c_int,
) -> c_int {
    create("cuStreamCreateWithPriority", stream, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: usize) -> c_int {
    let handle = wide(stream);
    giving_back("cuStreamDestroy_v2", Need::Context, handle, |driver| {
        driver.destroy_stream(handle)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: usize) -> c_int {
    let call = Call {
        name: "cuStreamSynchronize",
        need: Need::Context,
        gives_back: None,
    };
    waiting(call, |driver| driver.stream_pending(wide(stream)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> c_int {
    let call = Call {
        name: "cuCtxSynchronize",
        need: Need::Context,
        gives_back: None,
    };
    waiting(call, |driver| Ok(driver.context_pending()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamQuery(stream: usize) -> c_int {
    call("cuStreamQuery", Need::Context, |driver| {
        driver.query_stream(wide(stream))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) -> c_int {
    call("cuStreamWaitEvent", Need::Context, |driver| {
        if flags > 1 {
            return Err(crate::status::Status::INVALID_VALUE);
        }
        driver.wait_event(wide(stream), wide(event))
    })
}
