//! Bytes at addresses: copying, filling, and the words that kernels work on.
//!
//! The device knows addresses, not references. Whoever calls promises that the range is mapped
//! until the call returns; the driver resolves ranges before it enqueues work and waits for the
//! work before it unmaps them.
//!
//! Limits: where the program under test has a race, two streams may touch the same bytes at once,
//! as on a device. Plain loads and stores of memory that was mapped from a file are all that
//! happens then, but to the language it is a data race: the model's answer to a racing program is
//! its report, not its bytes.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Copies bytes; the ranges may overlap.
///
/// # Safety
/// Both ranges are mapped, the target for writing.
pub(crate) unsafe fn copy(to: usize, from: usize, bytes: usize) {
    let to = ptr::with_exposed_provenance_mut::<u8>(to);
    let from = ptr::with_exposed_provenance::<u8>(from);
    // SAFETY: the caller vouches for both ranges.
    unsafe { ptr::copy(from, to, bytes) };
}

/// Sets every byte of a range.
///
/// # Safety
/// The range is mapped for writing.
pub(crate) unsafe fn fill(at: usize, value: u8, bytes: usize) {
    let at = ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: the caller vouches for the range.
    unsafe { ptr::write_bytes(at, value, bytes) };
}

/// The 8 bytes at an address, aligned or not.
///
/// # Safety
/// They are mapped.
pub(crate) unsafe fn load(at: usize) -> u64 {
    // SAFETY: the caller vouches for the bytes; any bytes are a valid number.
    unsafe { ptr::read_unaligned(ptr::with_exposed_provenance(at)) }
}

/// Writes 8 bytes at an address, aligned or not.
///
/// # Safety
/// They are mapped for writing.
pub(crate) unsafe fn store(at: usize, word: u64) {
    // SAFETY: the caller vouches for the bytes.
    unsafe { ptr::write_unaligned(ptr::with_exposed_provenance_mut(at), word) };
}

/// Adds to a number, as the atomic instruction of a device does.
///
/// # Safety
/// The address is mapped for writing and a multiple of 8.
pub(crate) unsafe fn add(at: usize, amount: u64) {
    let number = ptr::with_exposed_provenance_mut::<u64>(at);
    // SAFETY: the caller vouches for the address; `AtomicU64` has the layout of `u64`.
    let number = unsafe { AtomicU64::from_ptr(number) };
    number.fetch_add(amount, Ordering::Relaxed);
}
