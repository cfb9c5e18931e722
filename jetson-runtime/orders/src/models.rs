//! What is run: application and engines, reduced to what they say to each other, and the bytes that
//! they say it about. Reading a byte whose write is not ordered before fails.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::counters::Counters;
use super::direction::Direction;
use crate::Model;

/// All models.
pub(crate) const ALL: [Model; 5] = [
    ("a waiter is woken", a_waiter_is_woken, 10),
    ("bytes go out and come in", bytes_go_out_and_come_in, 3),
    ("one engine does both", one_engine_does_both, 5),
    ("a failure is reported", a_failure_is_reported, 10),
    (
        "an engine that waits is stopped",
        an_engine_that_waits_is_stopped,
        10,
    ),
];

/// Of the first iteration: one command of each queue, and those of the iteration before it.
const FIRST: u64 = 2;

struct World {
    counters: Counters,
    /// A piece at its place in the arena, in the spill tier, and at the place where it returns.
    bytes: [UnsafeCell<u64>; 3],
}

// SAFETY: loom tells when a byte is used by two threads without an order between them.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            counters: Counters::new(1, 1),
            bytes: [0; 3].map(UnsafeCell::new),
        })
    }

    fn read(&self, place: usize) -> u64 {
        // SAFETY: as above.
        self.bytes[place].with(|byte| unsafe { *byte })
    }

    fn write(&self, place: usize, value: u64) {
        // SAFETY: as above.
        self.bytes[place].with_mut(|byte| unsafe { *byte = value });
    }

    fn copy(&self, direction: Direction) {
        let from = direction.index();
        self.write(from + 1, self.read(from));
        self.counters.complete(direction, FIRST, 1, 1);
    }

    fn may_copy(&self, direction: Direction) -> bool {
        let outs_done = match direction {
            Direction::Out => 0,
            Direction::In => FIRST,
        };
        self.counters.queue(direction).released() >= FIRST
            && self.counters.queue(Direction::Out).done() >= outs_done
    }

    /// An engine, until it has made its copies or is told to end; whether it has made them.
    fn engine(&self, parker: usize, copies: &[Direction]) -> bool {
        for &direction in copies {
            let parker = &self.counters.engines[parker];
            parker.wait_until(|| self.counters.ended() || self.may_copy(direction));
            if self.counters.ended() {
                return false;
            }
            self.copy(direction);
        }
        true
    }

    fn release(&self, direction: Direction) {
        self.counters.queue(direction).release(FIRST);
    }
}

/// An engine alone: the smallest case of one who waits and one who wakes, in both directions.
fn a_waiter_is_woken() {
    let world = World::new();
    let engine = start(&world, 0, &[Direction::Out]);
    world.write(0, 7);
    world.release(Direction::Out);
    world.counters.wake_engines();
    let done = || world.counters.queue(Direction::Out).done() >= FIRST;
    world.counters.application.wait_until(done);
    assert_eq!(world.read(1), 7);
    assert!(engine.join().expect("it ends"));
}

/// The in engine waits for the application and for the out engine; the application for both.
fn bytes_go_out_and_come_in() {
    let world = World::new();
    let engines = [
        start(&world, 0, &[Direction::Out]),
        start(&world, 1, &[Direction::In]),
    ];
    round_trip(&world);
    for engine in engines {
        assert!(engine.join().expect("it ends"));
    }
}

fn one_engine_does_both() {
    let world = World::new();
    let engine = start(&world, 0, &[Direction::Out, Direction::In]);
    round_trip(&world);
    assert!(engine.join().expect("it ends"));
}

/// The application writes, uses the page again once its bytes are out, and reads what came back.
fn round_trip(world: &World) {
    let counters = &world.counters;
    world.write(0, 7);
    world.release(Direction::Out);
    world.release(Direction::In);
    counters.wake_engines();
    let done = |direction| counters.queue(direction).done() >= FIRST;
    counters.application.wait_until(|| done(Direction::Out));
    world.write(0, 8);
    counters.application.wait_until(|| done(Direction::In));
    assert_eq!(world.read(2), 7);
}

/// The report is there for who sees the failed state.
fn a_failure_is_reported() {
    let world = World::new();
    let shared = Arc::clone(&world);
    let engine = thread::spawn(move || {
        shared.write(2, 5);
        shared.counters.fail();
    });
    let counters = &world.counters;
    let done = || counters.queue(Direction::In).done() >= FIRST;
    counters
        .application
        .wait_until(|| done() || counters.failed());
    assert_eq!(world.read(2), 5);
    engine.join().expect("it ends");
}

/// A runtime that is dropped ends an engine that waits, or that has just begun.
fn an_engine_that_waits_is_stopped() {
    let world = World::new();
    let engine = start(&world, 0, &[Direction::Out]);
    world.counters.stop();
    assert!(!engine.join().expect("it ends"));
}

fn start(
    world: &Arc<World>,
    parker: usize,
    copies: &'static [Direction],
) -> thread::JoinHandle<bool> {
    let world = Arc::clone(world);
    thread::spawn(move || world.engine(parker, copies))
}
