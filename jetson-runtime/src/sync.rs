//! What the threads of a program speak by: atomics, a fence, and a word to sleep on.
//!
//! In: nothing of this crate. Out: what [`waiting`](crate::waiting),
//! [`counters`](crate::counters) and [`shares`](crate::shares) are written in.
//! `jetson-runtime/orders` compiles those files with a `sync` of its own, and so runs them in every
//! order that the memory model allows.

pub(crate) use std::hint::spin_loop;
use std::ops::Deref;
use std::ptr;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use nix::libc;

/// How often a waiter looks before it sleeps: a few microseconds, about what a sleep costs.
pub(crate) const SPINS_MAX: u32 = 200;

/// A word that a thread can sleep on (a futex of this process).
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU32);

impl Deref for Word {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

impl Word {
    /// Sleeps while the word has this value. May return early.
    pub(crate) fn sleep_while(&self, value: u32) {
        // SAFETY: the word is a live, aligned u32, as FUTEX_WAIT asks; no timeout is passed. All
        // errors (the value changed, a signal came) mean the same to the caller: look again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                value,
                ptr::null::<libc::timespec>(),
            );
        }
    }

    /// Wakes a thread that sleeps here, if there is one. A change of the word comes first.
    pub(crate) fn wake_one(&self) {
        // SAFETY: the word is a live, aligned u32, as FUTEX_WAKE asks. It cannot fail then.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }
}
