//! The model's own functions: what tests set and ask for. See [`Control`](crate::Control).

use std::ffi::{c_char, c_int};
use std::ptr;

use super::{guarded, machine, put, text, with};
use crate::driver::{Driver, Touching};
use crate::faults::{Fate, ORDERING};
use crate::profile::Profile;
use crate::status::Status;

#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_reset(profile: *const c_char) -> c_int {
    guarded(|| {
        // SAFETY: the caller's C string.
        let name = unsafe { text(profile) }?;
        let profile = Profile::named(name).ok_or(Status::INVALID_VALUE)?;
        let fresh = Driver::new(profile).map_err(|_| Status::OPERATING_SYSTEM)?;
        let old = machine().replace(fresh);
        // Without the lock: its streams have to end.
        drop(old);
        Ok(())
    })
}

/// How a call is to fail, by number; the wrapper names them.
fn fate(kind: c_int, code: c_int) -> Result<Fate, Status> {
    let status = Status(code);
    Ok(match kind {
        0 => Fate::Fails(status),
        1 => Fate::FailsLate(status),
        2 => Fate::LosesContext(status),
        3 => Fate::Elided,
        _ => return Err(Status::INVALID_VALUE),
    })
}

/// # Safety
/// The name is a C string.
unsafe fn add(function: *const c_char, nth: u64, count: u64, fate: Fate) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let function = unsafe { text(function) }?;
        if fate == Fate::Elided && !ORDERING.contains(&function) {
            return Err(Status::INVALID_VALUE);
        }
        with(|driver| {
            driver.faults.add(function, nth, count, fate);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_inject(function: *const c_char, nth: u64, code: c_int) -> c_int {
    // SAFETY: the caller's C string.
    unsafe { add(function, nth, 1, Fate::Fails(Status(code))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_inject_as(
    function: *const c_char,
    nth: u64,
    count: u64,
    kind: c_int,
    code: c_int,
) -> c_int {
    match fate(kind, code) {
        // SAFETY: the caller's C string.
        Ok(fate) => unsafe { add(function, nth, count, fate) },
        Err(status) => status.0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_elide(function: *const c_char, nth: u64) -> c_int {
    // SAFETY: the caller's C string.
    unsafe { add(function, nth, 1, Fate::Elided) }
}

/// Sets something of the machine.
fn set(work: impl FnOnce(&mut Driver)) -> c_int {
    guarded(|| {
        with(|driver| {
            work(driver);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn vtm_clear_faults() -> c_int {
    set(|driver| driver.faults.clear())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_calls(function: *const c_char) -> u64 {
    let mut calls = 0;
    guarded(|| {
        // SAFETY: the caller's C string.
        let function = unsafe { text(function) }?;
        calls = with(|driver| Ok(driver.faults.calls(function)))?;
        Ok(())
    });
    calls
}

#[unsafe(no_mangle)]
extern "C" fn vtm_throttle(to_device: u64, to_host: u64, latency_ns: u64) -> c_int {
    set(|driver| {
        driver
            .hardware
            .link
            .throttle(to_device, to_host, latency_ns)
    })
}

#[unsafe(no_mangle)]
extern "C" fn vtm_jitter(seed: u64, ns_max: u64) -> c_int {
    set(|driver| driver.hardware.shake(seed, ns_max))
}

#[unsafe(no_mangle)]
extern "C" fn vtm_memory(bytes: u64) -> c_int {
    set(|driver| driver.capacity = bytes)
}

#[unsafe(no_mangle)]
extern "C" fn vtm_granularity(bytes: u64) -> c_int {
    let valid = bytes.is_power_of_two() && bytes >= crate::memory::span::page() as u64;
    match valid {
        true => set(|driver| driver.granularity = bytes),
        false => Status::INVALID_VALUE.0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn vtm_strict_events(on: c_int) -> c_int {
    set(|driver| driver.strict_events = on != 0)
}

#[unsafe(no_mangle)]
extern "C" fn vtm_host_touch(pointer: usize, bytes: usize, write: c_int) -> c_int {
    guarded(|| {
        with(|driver| {
            driver.host_touch(Touching {
                address: pointer as u64,
                bytes: bytes as u64,
                write: write != 0,
            })
        })
    })
}

/// Four numbers about managed memory: see [`Managed`](crate::Managed).
#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_managed(to: *mut [u64; 4]) -> c_int {
    guarded(|| {
        let counts = with(|driver| Ok(driver.residency.counts()))?;
        let numbers = [
            counts.resident,
            counts.resident_max,
            counts.faulted,
            counts.prefetched,
        ];
        // SAFETY: the caller's output.
        unsafe { put(to, numbers) }
    })
}

/// Copies as much of a text as fits; how long it is.
///
/// # Safety
/// `to` is NULL or has room for `room` bytes.
unsafe fn tell(to: *mut u8, room: usize, text: impl FnOnce(&Driver) -> String) -> usize {
    let mut told = String::new();
    guarded(|| {
        told = with(|driver| Ok(text(driver)))?;
        Ok(())
    });
    if !to.is_null() {
        // SAFETY: the caller vouches for the room; no more than that is written.
        unsafe { ptr::copy_nonoverlapping(told.as_ptr(), to, told.len().min(room)) };
    }
    told.len()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_reports(to: *mut u8, room: usize) -> usize {
    // SAFETY: the caller's buffer.
    unsafe { tell(to, room, |driver| driver.reports.text()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vtm_leaks(to: *mut u8, room: usize) -> usize {
    // SAFETY: the caller's buffer.
    unsafe { tell(to, room, Driver::leaks) }
}
