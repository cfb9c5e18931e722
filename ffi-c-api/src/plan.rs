//! Plans and traces as files, and freezing by hand.
//!
//! A plan file is the runtime's own form of a program, after a head of 16 bytes that says so and
//! names the kind of iteration: a magic of 8 bytes, and the key, little-endian. So a file can be
//! loaded before anything else is known.

use core::ffi::c_char;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jetson_runtime::ProgramKey;
use vtensor::limits;

use crate::arguments::{invalid, text};
use crate::guard::{failure, guard_status};
use crate::handle::{self, VtRuntime};
use crate::held::Held;
use crate::output::store;
use crate::refusal::refusal;
use crate::status::{Status, VT_ERROR_ORDER, VT_ERROR_PLAN, VT_ERROR_SYSTEM};

/// The kind of iteration that a call without a key is about.
fn last(held: &Held, call: &str) -> Result<ProgramKey, Status> {
    held.ended.ok_or_else(|| {
        failure(
            VT_ERROR_ORDER,
            format_args!("{call}: no iteration has ended yet; run one, or name a key"),
        )
    })
}

/// # Safety
/// `path` is NULL or a C string that outlives `'a`.
unsafe fn file<'a>(path: *const c_char, what: &str) -> Result<&'a Path, Status> {
    // SAFETY: handed on from this function's caller.
    match unsafe { text(path, what) }? {
        "" => Err(invalid(format_args!("{what} is empty"))),
        path => Ok(Path::new(path)),
    }
}

fn freeze(held: &mut Held, key: ProgramKey, call: &'static str) -> Result<(), Status> {
    held.runtime.freeze(key).map_err(refusal(call))
}

/// Makes a program for the kind of the last iteration that ended, now.
#[unsafe(no_mangle)]
pub extern "C" fn vt_freeze(runtime: *mut VtRuntime) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_freeze", |held| {
            let key = last(held, "vt_freeze")?;
            freeze(held, key, "vt_freeze")
        })
    })
}

/// As [`vt_freeze`], for the kind `program_key`.
#[unsafe(no_mangle)]
pub extern "C" fn vt_freeze_key(runtime: *mut VtRuntime, program_key: u64) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_freeze_key", |held| {
            freeze(held, ProgramKey(program_key), "vt_freeze_key")
        })
    })
}

const MAGIC: [u8; 8] = *b"\x8fVTKEY\r\n";

/// Saves a program, with its key.
fn plan_save(held: &Held, key: ProgramKey, path: &Path, call: &'static str) -> Result<(), Status> {
    let program = held.runtime.save_plan(key).map_err(refusal(call))?;
    store(path, call, |out| {
        out.write_all(&MAGIC)?;
        out.write_all(&key.0.to_le_bytes())?;
        out.write_all(&program)
    })
}

/// Reads a plan file: the key that it was saved with, and the program.
fn plan_read(path: &Path, call: &str) -> Result<(ProgramKey, Vec<u8>), Status> {
    let cannot = |error: io::Error| {
        failure(
            VT_ERROR_SYSTEM,
            format_args!("{call}: {} cannot be read: {error}", path.display()),
        )
    };
    let foreign = |why: &str| {
        failure(
            VT_ERROR_PLAN,
            format_args!(
                "{call}: {} is no plan of vt_plan_save(): {why}",
                path.display()
            ),
        )
    };
    let mut file = File::open(path).map_err(cannot)?;
    let mut head = [0; 16];
    file.read_exact(&mut head)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => foreign("it is too short"),
            _ => cannot(error),
        })?;
    let (magic, key) = head.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(foreign("it begins with other bytes"));
    }
    let key = u64::from_le_bytes(key.try_into().expect("the rest of 16 bytes is 8"));
    // One byte more than a program may have is enough to be refused.
    let mut program = Vec::new();
    let most = limits::PLAN_BYTES_MAX + 1;
    let read = file.take(most).read_to_end(&mut program);
    read.map_err(cannot)?;
    Ok((ProgramKey(key), program))
}

fn plan_load(
    held: &mut Held,
    key: ProgramKey,
    program: &[u8],
    call: &'static str,
) -> Result<(), Status> {
    held.runtime
        .load_plan(key, program)
        .map_err(refusal(call))?;
    held.begun = Some(key);
    Ok(())
}

/// Saves the program of the kind of the last iteration that ended.
///
/// # Safety
/// `path` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_plan_save(runtime: *const VtRuntime, path: *const c_char) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        let path = unsafe { file(path, "vt_plan_save: path") }?;
        handle::with(runtime, "vt_plan_save", |held| {
            let key = last(held, "vt_plan_save")?;
            plan_save(held, key, path, "vt_plan_save")
        })
    })
}

/// As [`vt_plan_save`], for the kind `program_key`.
///
/// # Safety
/// `path` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_plan_save_key(
    runtime: *const VtRuntime,
    program_key: u64,
    path: *const c_char,
) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        let path = unsafe { file(path, "vt_plan_save_key: path") }?;
        handle::with(runtime, "vt_plan_save_key", |held| {
            plan_save(held, ProgramKey(program_key), path, "vt_plan_save_key")
        })
    })
}

/// Loads a program for the kind of iteration that it was saved for.
///
/// # Safety
/// `path` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_plan_load(runtime: *mut VtRuntime, path: *const c_char) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        let path = unsafe { file(path, "vt_plan_load: path") }?;
        handle::with(runtime, "vt_plan_load", |held| {
            let (key, program) = plan_read(path, "vt_plan_load")?;
            plan_load(held, key, &program, "vt_plan_load")
        })
    })
}

/// As [`vt_plan_load`], for the kind `program_key`, whichever it was saved for.
///
/// # Safety
/// `path` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_plan_load_key(
    runtime: *mut VtRuntime,
    program_key: u64,
    path: *const c_char,
) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        let path = unsafe { file(path, "vt_plan_load_key: path") }?;
        handle::with(runtime, "vt_plan_load_key", |held| {
            let (_, program) = plan_read(path, "vt_plan_load_key")?;
            plan_load(held, ProgramKey(program_key), &program, "vt_plan_load_key")
        })
    })
}

fn trace_save(held: &Held, key: ProgramKey, path: &Path, call: &'static str) -> Result<(), Status> {
    let trace = held.runtime.trace(key).map_err(refusal(call))?;
    let Some(trace) = trace else {
        return Err(failure(
            VT_ERROR_PLAN,
            format_args!("{call}: no iteration of key {key} was recorded"),
        ));
    };
    store(path, call, |out| trace.write_json(out))
}

/// Saves what the last iteration that ended did, as a trace.
///
/// # Safety
/// `path` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_trace_save(runtime: *const VtRuntime, path: *const c_char) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        let path = unsafe { file(path, "vt_trace_save: path") }?;
        handle::with(runtime, "vt_trace_save", |held| {
            let key = last(held, "vt_trace_save")?;
            trace_save(held, key, path, "vt_trace_save")
        })
    })
}

/// As [`vt_trace_save`], for the kind `program_key`.
///
/// # Safety
/// `path` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_trace_save_key(
    runtime: *const VtRuntime,
    program_key: u64,
    path: *const c_char,
) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        let path = unsafe { file(path, "vt_trace_save_key: path") }?;
        handle::with(runtime, "vt_trace_save_key", |held| {
            trace_save(held, ProgramKey(program_key), path, "vt_trace_save_key")
        })
    })
}
