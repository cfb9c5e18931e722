//! Iterations: begun, ended, given up.

use jetson_runtime::ProgramKey;

use crate::guard::guard_status;
use crate::handle::{self, VtRuntime};
use crate::refusal::refusal;
use crate::status::Status;

/// Begins an iteration of the kind that the application calls `program_key`.
#[unsafe(no_mangle)]
pub extern "C" fn vt_iteration_begin(runtime: *mut VtRuntime, program_key: u64) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_iteration_begin", |held| {
            let key = ProgramKey(program_key);
            let begun = held.runtime.iteration_begin(key);
            begun.map_err(refusal("vt_iteration_begin"))?;
            held.begun = Some(key);
            Ok(())
        })
    })
}

/// Ends the iteration.
#[unsafe(no_mangle)]
pub extern "C" fn vt_iteration_end(runtime: *mut VtRuntime) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_iteration_end", |held| {
            let ended = held.runtime.iteration_end();
            ended.map_err(refusal("vt_iteration_end"))?;
            held.ended = held.begun;
            Ok(())
        })
    })
}

/// Gives the iteration up.
#[unsafe(no_mangle)]
pub extern "C" fn vt_iteration_abort(runtime: *mut VtRuntime) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_iteration_abort", |held| {
            let aborted = held.runtime.iteration_abort();
            aborted.map_err(refusal("vt_iteration_abort"))
        })
    })
}
