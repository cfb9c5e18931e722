//! The moment that an event was recorded for: one place in one stream.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Complete when its stream has come to it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    reached: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Record {
    /// The stream has come to it.
    pub(crate) fn complete(&self) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        *reached = Some(Instant::now());
        self.changed.notify_all();
    }

    /// When the stream came to it, if it has.
    pub(crate) fn reached(&self) -> Option<Instant> {
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until the stream has come to it.
    pub(crate) fn wait(&self) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        while reached.is_none() {
            reached = self
                .changed
                .wait(reached)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
