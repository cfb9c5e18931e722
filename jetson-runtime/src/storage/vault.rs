//! A value in memory that is never swapped out, dumped, or copied to a forked child; zeroed when it
//! is dropped.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use nix::errno::Errno;
use nix::sys::mman::{mlock, munlock};

use crate::region::Region;

/// Stack that making a value takes, at most: a cipher's key schedule is copied a few times.
const STACK_BYTES: usize = 32 << 10;

/// A locked value.
#[derive(Debug)]
pub(super) struct Vault<T> {
    value: NonNull<T>,
    region: Region,
}

// SAFETY: a vault owns its value, as a `Box` does.
unsafe impl<T: Send> Send for Vault<T> {}
// SAFETY: a shared vault gives out shared references only.
unsafe impl<T: Sync> Sync for Vault<T> {}

impl<T> Vault<T> {
    /// Locks a value in. `make` is called when the memory is ready; what it leaves on the stack is
    /// overwritten.
    pub(super) fn new(make: impl FnOnce() -> T) -> Result<Self, Errno> {
        let bytes = NonZeroUsize::new(size_of::<T>().next_multiple_of(4096).max(4096))
            .expect("at least a page");
        assert!(align_of::<T>() <= 4096, "pages are aligned well enough");
        let region = Region::memory(bytes)?;
        let start = region.pointer(0, bytes.get());
        // SAFETY: the range is mapped, and this region's own.
        unsafe { mlock(start.cast(), bytes.get()) }?;
        let value = start.cast::<T>();
        // SAFETY: the memory is mapped, large and aligned enough, and nobody else has it.
        unsafe { put(value, make) };
        overwrite_stack();
        Ok(Self { value, region })
    }
}

/// Puts a value in its place. Never a part of its caller, so that all it leaves on the stack is
/// where [`overwrite_stack`] writes.
///
/// # Safety
/// As for writing to the place.
#[inline(never)]
unsafe fn put<T>(place: NonNull<T>, make: impl FnOnce() -> T) {
    // SAFETY: the caller vouches for the place.
    unsafe { ptr::write(place.as_ptr(), make()) };
}

/// Writes zeroes over the stack of those that were called just before.
#[inline(never)]
fn overwrite_stack() {
    let mut stack = [0_u8; STACK_BYTES];
    // Somebody might look at them: they are written.
    black_box(&mut stack);
}

impl<T> Deref for Vault<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the value was written in `new` and lives until the drop.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Vault<T> {
    fn drop(&mut self) {
        // SAFETY: the value was written in `new`, and nobody can use it any more.
        unsafe { ptr::drop_in_place(self.value.as_ptr()) };
        let bytes = self.region.bytes();
        let start = self.region.pointer(0, bytes);
        for offset in 0..bytes {
            // SAFETY: the offset lies in the region.
            let byte = unsafe { start.add(offset) };
            // SAFETY: it is mapped; a volatile write is not optimised away.
            unsafe { ptr::write_volatile(byte.as_ptr(), 0) };
        }
        // SAFETY: the range was locked in `new`. Unmapping unlocks it anyway.
        let _ = unsafe { munlock(start.cast(), bytes) };
    }
}
