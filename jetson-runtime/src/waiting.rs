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

// By its place, not its name: `jetson-runtime/orders` runs this file with another `sync`.
use super::sync::{Ordering, SPINS_MAX, Word, fence, spin_loop};

const AWAKE: u32 = 0;
const PARKED: u32 = 1;

/// Where one waiter sleeps. On its own cache lines, for wakers look at it often.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Parker {
    word: Word,
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
            // Relaxed: the fence orders the announcement before the look at the condition, and the
            // word carries nothing else. A swap, as every change of the word: a waker's change is
            // then never taken for an answer to an announcement that it came before.
            self.word.swap(PARKED, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if ready() {
                self.word.swap(AWAKE, Ordering::Relaxed);
                return;
            }
            // It may end early; then the condition is looked at again.
            self.word.sleep_while(PARKED);
        }
    }

    fn wake(&self) {
        // Relaxed: the fence of `wake_all` orders the changed condition before this look. Who is
        // woken loads the condition again, with acquire ordering.
        let parked = self.word.load(Ordering::Relaxed) == PARKED;
        if parked && self.word.swap(AWAKE, Ordering::Relaxed) == PARKED {
            self.word.wake_one();
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
