//! Waiting for a counter: a bounded spin, then a sleep in the kernel. Never a lock.
//!
//! A [`Parker`] belongs to one waiter at a time: an engine, or the application, whose calls may
//! come from any thread. It therefore sleeps on a word (a futex) rather than by thread handle:
//! nothing has to be registered when the thread changes, and nothing is allocated.
//!
//! Guarantees: no wake-up is lost. The waiter announces itself, then looks at the condition; the
//! waker changes the condition, then looks for an announcement; a full fence on both sides makes
//! at least one of them see the other. Waking costs a fence and a load where nobody sleeps.
//!
//! Source: the same protocol as the standard library's `thread::park`.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use nix::libc;

/// How often a waiter looks before it sleeps: a few microseconds, about what a sleep costs.
const SPINS_MAX: u32 = 200;

const AWAKE: u32 = 0;
const PARKED: u32 = 1;

/// Where one waiter sleeps. On its own cache lines, for wakers look at it often.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Parker {
    word: AtomicU32,
}

impl Parker {
    /// Returns once `ready` says so. `ready` must load with acquire ordering what the waker
    /// stored with release ordering, and whoever makes it true must call [`wake_all`] afterwards.
    pub(crate) fn wait_until(&self, mut ready: impl FnMut() -> bool) {
        for _ in 0..SPINS_MAX {
            if ready() {
                return;
            }
            spin_loop();
        }
        loop {
            self.word.store(PARKED, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if ready() {
                self.word.store(AWAKE, Ordering::Relaxed);
                return;
            }
            self.sleep();
        }
    }

    /// Sleeps while the word says so. May return early; the caller looks again.
    fn sleep(&self) {
        // SAFETY: the word is a live, aligned u32, as FUTEX_WAIT asks; no timeout is passed. All
        // errors (the value changed, a signal came) mean the same to the caller: look again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                PARKED,
                ptr::null::<libc::timespec>(),
            );
        }
    }

    fn wake(&self) {
        let parked = self.word.load(Ordering::Relaxed) == PARKED;
        if parked && self.word.swap(AWAKE, Ordering::Relaxed) == PARKED {
            // SAFETY: the word is a live, aligned u32, as FUTEX_WAKE asks. It cannot fail then.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.word.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                );
            }
        }
    }
}

/// Wakes those who sleep, after a store that they may be waiting for.
pub(crate) fn wake_all<const N: usize>(parkers: [&Parker; N]) {
    fence(Ordering::SeqCst);
    for parker in parkers {
        parker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn two_threads_take_turns_without_losing_a_wake_up() {
        const TURNS: u64 = 20_000;
        let (ball, ping, pong) = (AtomicU64::new(0), Parker::default(), Parker::default());
        thread::scope(|scope| {
            scope.spawn(|| {
                for turn in (1..TURNS).step_by(2) {
                    pong.wait_until(|| ball.load(Ordering::Acquire) == turn);
                    ball.store(turn + 1, Ordering::Release);
                    wake_all([&ping]);
                }
            });
            for turn in (0..TURNS).step_by(2) {
                ping.wait_until(|| ball.load(Ordering::Acquire) == turn);
                ball.store(turn + 1, Ordering::Release);
                wake_all([&pong]);
            }
        });
        assert_eq!(ball.load(Ordering::Relaxed), TURNS);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let (flag, parker) = (AtomicU64::new(0), Parker::default());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(30));
                assert_eq!(
                    parker.word.load(Ordering::Relaxed),
                    PARKED,
                    "it spun for 30 ms"
                );
                flag.store(1, Ordering::Release);
                wake_all([&parker]);
            });
            parker.wait_until(|| flag.load(Ordering::Acquire) == 1);
        });
        assert_eq!(parker.word.load(Ordering::Relaxed), AWAKE);
    }
}
