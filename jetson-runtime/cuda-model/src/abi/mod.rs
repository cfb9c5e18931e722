//! The C ABI: the driver's functions by their exported names, and the model's own.
//!
//! In: calls from the program under test. Out: calls of `driver`. Pointers are checked for NULL
//! here, outputs are written only on success, a panic becomes `CUDA_ERROR_UNKNOWN`.
//!
//! Safety: as with the real driver, a pointer that is neither NULL nor valid cannot be told from a
//! valid one. Every function here has the contract of the function of the same name in `cuda.h`.

mod control;
mod copy;
mod device;
mod event;
mod memory;
mod module;
mod stream;
mod vmm;

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::call::{Call, Need};
use crate::driver::{Driver, Pending};
use crate::profile::Profile;
use crate::status::{SUCCESS, Status};

/// The one machine of this copy of the library.
static MACHINE: Mutex<Option<Driver>> = Mutex::new(None);
/// Which device the machine has before anybody resets it.
const PROFILE_VARIABLE: &str = "CUDA_MODEL_PROFILE";
const PROFILE_DEFAULT: &str = "rtx-linux";

/// What a call does, and whether it waits for something before it returns.
type Answer = Result<Option<Pending>, Status>;

fn machine() -> MutexGuard<'static, Option<Driver>> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works on the machine; it is made when it is first used.
fn with<T>(work: impl FnOnce(&mut Driver) -> Result<T, Status>) -> Result<T, Status> {
    let mut machine = machine();
    if machine.is_none() {
        let wanted = std::env::var(PROFILE_VARIABLE);
        let name = wanted.as_deref().unwrap_or(PROFILE_DEFAULT);
        let profile = Profile::named(name).ok_or(Status::NO_DEVICE)?;
        *machine = Some(Driver::new(profile).map_err(|_| Status::OPERATING_SYSTEM)?);
    }
    work(machine.as_mut().expect("it was just made"))
}

/// Runs a call behind a wall: no panic crosses into C.
fn guarded(body: impl FnOnce() -> Result<(), Status>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(status)) => status.0,
        Err(_) => Status::UNKNOWN.0,
    }
}

/// A call of the driver that may wait, without the lock, before it returns.
fn waiting(call: Call, body: impl FnOnce(&mut Driver) -> Answer) -> i32 {
    guarded(|| {
        let pending = with(|driver| {
            driver.begin(call)?;
            let answer = body(driver);
            driver.end();
            answer
        })?;
        match pending {
            Some(pending) => {
                let seen = pending.wait();
                with(|driver| driver.seen(&seen))
            }
            None => Ok(()),
        }
    })
}

/// A call of the driver.
fn call(
    name: &'static str,
    need: Need,
    body: impl FnOnce(&mut Driver) -> Result<(), Status>,
) -> i32 {
    let call = Call {
        name,
        need,
        gives_back: None,
    };
    waiting(call, |driver| body(driver).map(|()| None))
}

/// A call that gives the thing of that handle or address back.
fn giving_back(
    name: &'static str,
    need: Need,
    key: u64,
    body: impl FnOnce(&mut Driver) -> Result<(), Status>,
) -> i32 {
    let call = Call {
        name,
        need,
        gives_back: Some(key),
    };
    waiting(call, |driver| body(driver).map(|()| None))
}

/// Writes an output.
///
/// # Safety
/// The pointer is NULL or valid for writing a `T`.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: it is not NULL, and the caller vouches for the rest.
    unsafe { ptr::write_unaligned(to, value) };
    Ok(())
}

/// Checks that an output can be written, before anything is done for it.
fn present<T>(to: *mut T) -> Result<(), Status> {
    match to.is_null() {
        true => Err(Status::INVALID_VALUE),
        false => Ok(()),
    }
}

/// A C string as text.
///
/// # Safety
/// The pointer is NULL or a C string that lives as long as the text is used.
unsafe fn text<'a>(from: *const std::ffi::c_char) -> Result<&'a str, Status> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: it is not NULL, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| Status::INVALID_VALUE)
}

/// A list that the caller passes.
///
/// # Safety
/// The pointer is NULL or valid for reading so many `T`.
unsafe fn list<T: Copy>(from: *const T, count: usize) -> Result<Vec<T>, Status> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let items = (0..count).map(|index| {
        // SAFETY: the caller vouches for `count` items.
        let item = unsafe { from.add(index) };
        // SAFETY: as above.
        unsafe { ptr::read_unaligned(item) }
    });
    Ok(items.collect())
}

/// What the model counts, as a `size_t` or a handle.
fn narrow(n: u64) -> usize {
    usize::try_from(n).expect("the model runs where addresses have 64 bits")
}

/// A `size_t` as the model counts.
const fn wide(n: usize) -> u64 {
    n as u64
}
