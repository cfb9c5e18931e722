//! The counters through which application and engines speak. All are absolute: they count from
//! the freeze on and never go back; the counts of a program are relative to an iteration's base.
//!
//! | counter | stored by | says |
//! |---|---|---|
//! | `released` | application | so many commands of the queue may start |
//! | `begun` | engine | no more commands of the queue have touched anything |
//! | `done` | engine | so many commands of the queue are complete, as a prefix |
//! | `state` | whoever stops | an engine failed, or the runtime ends |
//!
//! Memory order: `done` is stored with release ordering after the copy and loaded with acquire
//! ordering before the bytes are used; `released` the same, the other way round. Neither needs
//! more: nobody draws a conclusion from the order of two counters, except who waits and who wakes,
//! and those have the fence of [`waiting`](super::waiting).

// By their places, not their names: `jetson-runtime/orders` runs this file with another `sync`.
use super::direction::Direction;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::waiting::{Parker, wake_all};

const FAILED: u32 = 1;
const STOPPED: u32 = 2;

/// A counter on its own cache lines (two, because processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    released: Counter,
    done: Counter,
    begun: AtomicU64,
    moved_bytes: Counter,
    busy_ns: AtomicU64,
}

impl Queue {
    /// A queue of `commands` commands, all of which were complete in the iteration before the
    /// first one: HOME is the state after that (B1), so negative relative counts hold.
    fn new(commands: u64) -> Self {
        Self {
            released: Counter(AtomicU64::new(commands)),
            done: Counter(AtomicU64::new(commands)),
            begun: AtomicU64::new(commands),
            ..Self::default()
        }
    }

    pub(crate) fn released(&self) -> u64 {
        self.released.0.load(Ordering::Acquire)
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.0.load(Ordering::Acquire)
    }

    /// Releases commands. The caller wakes the engines.
    pub(crate) fn release(&self, count: u64) {
        debug_assert!(self.released() <= count, "released counts never go back");
        self.released.0.store(count, Ordering::Release);
    }

    /// Commands that may have touched what they read and write. For who has seen the engines end.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Notes that so many commands may touch what they read and write. Only the engine of the
    /// queue calls it.
    pub(crate) fn begin(&self, count: u64) {
        // Relaxed: it is looked at once the engine has ended.
        self.begun.fetch_max(count, Ordering::Relaxed);
    }

    /// Notes a completed command. Only the engine of the queue calls it.
    fn complete(&self, count: u64, bytes: u64, busy_ns: u64) {
        // Relaxed: numbers for people. Who has seen `done` sees them as of then, at least.
        self.moved_bytes.0.fetch_add(bytes, Ordering::Relaxed);
        self.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
        self.done.0.store(count, Ordering::Release);
    }

    pub(crate) fn moved_bytes(&self) -> u64 {
        self.moved_bytes.0.load(Ordering::Relaxed)
    }

    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns.load(Ordering::Relaxed)
    }
}

/// All counters of a runtime.
#[derive(Debug)]
pub(crate) struct Counters {
    queues: [Queue; 2],
    state: AtomicU32,
    /// Where the application sleeps.
    pub(crate) application: Parker,
    /// Where the engines sleep. With one engine the second is unused.
    pub(crate) engines: [Parker; 2],
}

impl Counters {
    /// Counters for queues of so many commands.
    pub(crate) fn new(outs: u64, ins: u64) -> Self {
        Self {
            queues: [Queue::new(outs), Queue::new(ins)],
            state: AtomicU32::new(0),
            application: Parker::default(),
            engines: Default::default(),
        }
    }

    pub(crate) const fn queue(&self, direction: Direction) -> &Queue {
        &self.queues[direction.index()]
    }

    /// Notes a completed command and wakes who may wait for it: the application, and the other
    /// engine, whose ins may wait for an out.
    pub(crate) fn complete(&self, direction: Direction, count: u64, bytes: u64, busy_ns: u64) {
        self.queue(direction).complete(count, bytes, busy_ns);
        match direction {
            Direction::Out => wake_all([&self.application, &self.engines[1]]),
            Direction::In => wake_all([&self.application]),
        }
    }

    /// Wakes the engines after a release.
    pub(crate) fn wake_engines(&self) {
        wake_all([&self.engines[0], &self.engines[1]]);
    }

    /// Whether a command failed.
    pub(crate) fn failed(&self) -> bool {
        self.state.load(Ordering::Acquire) & FAILED != 0
    }

    /// Whether engines must end: a command failed, or the runtime ends.
    pub(crate) fn ended(&self) -> bool {
        self.state.load(Ordering::Acquire) != 0
    }

    /// Marks a failure; every waiter sees it. What the caller stored before is visible to them.
    pub(crate) fn fail(&self) {
        self.end(FAILED);
    }

    /// Tells the engines to end after the copy that they are at.
    pub(crate) fn stop(&self) {
        self.end(STOPPED);
    }

    fn end(&self, flag: u32) {
        // Released, so that who sees the flag sees what the caller stored before, its report.
        // Acquired, so that one flag passes on what came before the other.
        self.state.fetch_or(flag, Ordering::AcqRel);
        wake_all([&self.application, &self.engines[0], &self.engines[1]]);
    }
}
