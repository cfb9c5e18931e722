//! `sync.rs` of the runtime and of the C library, for a model.

use std::ops::Deref;

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Condvar, Mutex};

/// One look is as good as many: both ways out of the spin are tried.
pub(crate) const SPINS_MAX: u32 = 1;

/// A word to sleep on. As in the kernel, a waker comes before the look at it or after the sleeper
/// has lain down, never in between.
#[derive(Debug, Default)]
pub(crate) struct Word {
    value: AtomicU32,
    queue: Mutex<()>,
    sleepers: Condvar,
}

impl Deref for Word {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.value
    }
}

impl Word {
    pub(crate) fn sleep_while(&self, value: u32) {
        let queue = self
            .queue
            .lock()
            .expect("no thread of a model panics and goes on");
        if self.value.load(Ordering::Relaxed) == value {
            drop(self.sleepers.wait(queue));
        }
    }

    pub(crate) fn wake_one(&self) {
        let queue = self.queue.lock();
        self.sleepers.notify_one();
        drop(queue);
    }
}

/// A cell whose uses are looked at: two without an order between them end the model.
pub(crate) struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    pub(crate) fn get(&self) -> *mut T {
        self.0.with_mut(|value| value)
    }
}
