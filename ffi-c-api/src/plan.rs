//! Plans and traces as files, and freezing by hand.

use core::ffi::c_char;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use jetson_runtime::ProgramKey;

use crate::arguments::{invalid, text};
use crate::guard::{failure, guard_status};
use crate::handle::{self, VtRuntime};
use crate::refusal::refusal;
use crate::runtime::Held;
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

/// Writes a file beside its place and moves it there, so that nobody ever sees a part of it.
fn store(
    path: &Path,
    call: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Status> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = (|| {
        let mut out = BufWriter::new(File::create(&part)?);
        write(&mut out)?;
        out.into_inner()?.sync_all()?;
        fs::rename(&part, path)
    })();
    written.map_err(|error| {
        // It may not be there.
        let _ = fs::remove_file(&part);
        failure(
            VT_ERROR_SYSTEM,
            format_args!("{call}: {} cannot be written: {error}", path.display()),
        )
    })
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
