//! What is run: callers of one slot, some of which end what is in it. A use of the value that is
//! not ordered after the one before fails.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::slot::{Refusal, Slot, UNUSED};
use crate::Model;
use crate::stand_in::UnsafeCell;

/// All models.
pub(crate) const ALL: [Model; 4] = [
    ("a slot has one caller", a_slot_has_one_caller, 10),
    ("a value is dropped once", a_value_is_dropped_once, 10),
    ("a value is ended once", a_value_is_ended_once, 10),
    ("a slot is used again", a_slot_is_used_again, 3),
];

/// A value that counts its callers, and its end.
struct Value {
    calls: u64,
    drops: Arc<AtomicU64>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

struct World {
    slot: Slot<Value>,
    drops: Arc<AtomicU64>,
}

impl World {
    /// A slot that is free.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            slot: Slot::of(AtomicU64::new(UNUSED), UnsafeCell::new(None)),
            drops: Arc::default(),
        })
    }

    /// Puts a value into a free slot, and tells its generation.
    fn insert(&self) -> Option<u32> {
        let mut entered = self.slot.claim()?;
        let before = entered.held().replace(Value {
            calls: 0,
            drops: Arc::clone(&self.drops),
        });
        assert!(before.is_none(), "a free slot is empty");
        Some(entered.generation())
    }

    /// A call; which one it was on this value.
    fn call(&self, generation: u32) -> Result<u64, Refusal> {
        let mut entered = self.slot.enter(generation)?;
        let value = entered.held().as_mut().expect("a living slot has a value");
        value.calls += 1;
        Ok(value.calls)
    }

    fn drops(&self) -> u64 {
        self.drops.load(Ordering::Relaxed)
    }
}

fn in_thread<T: 'static>(
    world: &Arc<World>,
    body: impl FnOnce(&World) -> T + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn(move || body(&world))
}

fn a_slot_has_one_caller() {
    let world = World::new();
    let generation = world.insert().expect("it is free");
    let other = in_thread(&world, move |world| world.call(generation));
    let here = world.call(generation);
    let there = other.join().expect("it ends");
    match (here, there) {
        (Ok(here), Ok(there)) => assert_ne!(here, there),
        (Ok(1), Err(Refusal::Busy)) | (Err(Refusal::Busy), Ok(1)) => {}
        other => panic!("{other:?}"),
    }
}

/// Whoever has the last say: the caller, or who ends it.
fn a_value_is_dropped_once() {
    let world = World::new();
    let generation = world.insert().expect("it is free");
    let other = in_thread(&world, move |world| world.call(generation));
    world.slot.end(generation).expect("it lives");
    assert_eq!(world.call(generation), Err(Refusal::Gone));
    let there = other.join().expect("it ends");
    assert!(matches!(there, Ok(1) | Err(Refusal::Gone)), "{there:?}");
    assert_eq!(world.drops(), 1);
    assert_eq!(world.insert(), Some(generation + 1));
}

fn a_value_is_ended_once() {
    let world = World::new();
    let generation = world.insert().expect("it is free");
    let other = in_thread(&world, move |world| world.slot.end(generation).is_ok());
    let here = world.slot.end(generation).is_ok();
    assert_ne!(here, other.join().expect("it ends"));
    assert_eq!(world.drops(), 1);
}

/// Two want the same slot as soon as a third has ended what was there.
fn a_slot_is_used_again() {
    let world = World::new();
    let generation = world.insert().expect("it is free");
    let ender = in_thread(&world, move |world| world.slot.end(generation));
    let other = in_thread(&world, |world| world.insert());
    let here = world.insert();
    let there = other.join().expect("it ends");
    assert_eq!(ender.join().expect("it ends"), Ok(()));
    assert!(here.is_none() || there.is_none(), "one slot has one value");
    if let Some(next) = here.or(there) {
        assert_eq!(next, generation + 1);
        assert_eq!(world.call(next), Ok(1));
        assert_eq!(world.call(generation), Err(Refusal::Gone));
    }
    assert_eq!(world.drops(), 1);
}
