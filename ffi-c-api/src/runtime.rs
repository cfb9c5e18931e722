//! The runtime: created, asked, destroyed.

use core::ffi::c_void;
use core::ptr;

use jetson_runtime::Runtime;

use crate::arguments::not_null;
use crate::config::VtConfig;
use crate::extensible;
use crate::guard::{guard, guard_status};
use crate::handle::{self, VtRuntime};
use crate::held::{Held, VT_PHASE_FAILED};
use crate::log::{self, Scope};
use crate::op::replayer;
use crate::refusal::refusal;
use crate::status::Status;

/// Creates a runtime.
///
/// # Safety
/// `config` is NULL or as large as it says, with texts that are NULL or C strings; `out` is NULL or
/// may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_runtime_create(
    config: *const VtConfig,
    out: *mut *mut VtRuntime,
) -> Status {
    guard_status(|| {
        not_null(out, "vt_runtime_create: out")?;
        // SAFETY: handed on from this function's caller.
        let config = unsafe { extensible::read(config, "vt_runtime_create: config") }?;
        // SAFETY: handed on from this function's caller.
        let (config, sink) = unsafe { config.read() }?;
        if sink.is_some() {
            log::listen();
        }
        let warmup = config.warmup;
        let scope = Scope::new(sink);
        let mut runtime = Runtime::new(config).map_err(refusal("vt_runtime_create"))?;
        runtime.set_replayer(replayer());
        drop(scope);
        let handle = handle::insert(Box::new(Held {
            runtime,
            sink,
            poisoned: false,
            warmup,
            accesses: Vec::new(),
            pointers: Vec::new(),
            begun: None,
            ended: None,
        }))?;
        // SAFETY: not NULL, checked above; the caller hands a pointer that may be written.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Destroys a runtime. NULL is nothing to destroy.
#[unsafe(no_mangle)]
pub extern "C" fn vt_runtime_destroy(runtime: *mut VtRuntime) {
    guard((), || {
        if !runtime.is_null() {
            // A refusal is in `vt_last_error`.
            let _ = handle::destroy(runtime, "vt_runtime_destroy");
        }
    });
}

/// The phase of the kind of iteration that began last.
#[unsafe(no_mangle)]
pub extern "C" fn vt_runtime_phase(runtime: *const VtRuntime) -> u32 {
    guard(VT_PHASE_FAILED, || {
        handle::phase(runtime, "vt_runtime_phase", VT_PHASE_FAILED, |held| {
            held.phase()
        })
    })
}

/// Waits until all that ops have started is complete.
#[unsafe(no_mangle)]
pub extern "C" fn vt_sync(runtime: *mut VtRuntime) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_sync", |held| {
            held.runtime.sync().map_err(refusal("vt_sync"))
        })
    })
}

/// The stream that ops are enqueued on; NULL on the host.
///
/// # Safety
/// `out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_compute_stream(
    runtime: *mut VtRuntime,
    out: *mut *mut c_void,
) -> Status {
    guard_status(|| {
        not_null(out, "vt_compute_stream: out")?;
        handle::with(runtime, "vt_compute_stream", |held| {
            let stream = held.runtime.stream().unwrap_or(ptr::null_mut());
            // SAFETY: not NULL, checked above; the caller hands a pointer that may be written.
            unsafe { out.write(stream) };
            Ok(())
        })
    })
}

/// Takes note that a call of the driver failed that the application made itself.
#[unsafe(no_mangle)]
pub extern "C" fn vt_driver_failed(runtime: *mut VtRuntime) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_driver_failed", |held| {
            held.runtime.doubt();
            Ok(())
        })
    })
}
