//! A stream: a queue and the thread that works it off.
//!
//! Guarantees: commands are done in the order in which they were pushed; a stream that is closed
//! does what it was given, and its thread ends then.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use nix::sys::prctl::set_timerslack;

use super::command::Queued;
use super::hardware::Hardware;
use super::progress::Progress;

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    pushed: u64,
    closed: bool,
}

/// The queue, as the driver and other streams see it.
#[derive(Debug)]
pub(crate) struct Stream {
    number: u32,
    queue: Mutex<Queue>,
    pushed: Condvar,
    progress: Arc<Progress>,
}

impl Stream {
    /// Starts the thread of a stream. The number sets its jitter.
    pub(crate) fn start(
        number: u32,
        hardware: Arc<Hardware>,
    ) -> std::io::Result<(Arc<Self>, JoinHandle<()>)> {
        let stream = Arc::new(Self {
            number,
            queue: Mutex::default(),
            pushed: Condvar::new(),
            progress: Arc::default(),
        });
        let shared = Arc::clone(&stream);
        let thread = thread::Builder::new()
            .name(format!("stream {number}"))
            .spawn(move || shared.work(&hardware))?;
        Ok((stream, thread))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, hardware: &Hardware) {
        // Jitter and links sleep for microseconds; by default the system adds 50 to each sleep.
        // Where it refuses, they only take longer.
        let _ = set_timerslack(1);
        let mut queue = self.lock();
        loop {
            if let Some(command) = queue.waiting.pop_front() {
                drop(queue);
                hardware.jitter(self.number, self.progress.done());
                command.execute(hardware);
                self.progress.advance();
                queue = self.lock();
            } else if queue.closed {
                return;
            } else {
                queue = self
                    .pushed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Enqueues a command.
    pub(crate) fn push(&self, command: Queued) {
        let mut queue = self.lock();
        assert!(!queue.closed, "nothing is pushed to a closed stream");
        queue.waiting.push_back(command);
        queue.pushed += 1;
        self.pushed.notify_one();
    }

    /// How many commands were enqueued so far.
    pub(crate) fn pushed(&self) -> u64 {
        self.lock().pushed
    }

    /// Whether all that was enqueued is done.
    pub(crate) fn idle(&self) -> bool {
        self.progress.done() == self.pushed()
    }

    /// What others wait for.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Lets the thread end when it has done what it was given.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.pushed.notify_one();
    }
}
