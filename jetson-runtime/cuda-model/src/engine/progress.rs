//! Progress: how many commands a stream has done, for whoever waits for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A count that only grows.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    done: Mutex<u64>,
    advanced: Condvar,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many commands are done.
    pub(super) fn done(&self) -> u64 {
        *self.lock()
    }

    /// One more is done.
    pub(super) fn advance(&self) {
        *self.lock() += 1;
        self.advanced.notify_all();
    }

    /// Blocks until so many commands are done.
    pub(crate) fn wait_for(&self, count: u64) {
        let behind = |done: &mut u64| *done < count;
        let waited = self.advanced.wait_while(self.lock(), behind);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
