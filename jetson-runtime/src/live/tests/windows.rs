//! An application that holds raw pointers: what it allocated is where it was allocated, always.

use std::collections::HashMap;
use std::ptr::NonNull;

use lgm::policy::Policy;
use vtensor::{Bytes, TensorKind};

use super::{TRAIN, config, unit};
use crate::error::RuntimeError;
use crate::live::{Access, Config, Runtime, Tensor, TensorDesc};
use crate::scale::system_page;
use crate::spill::Spill;
use crate::tests::disk;

type Pointer = NonNull<u8>;

/// A runtime, and what every allocation holds.
struct Holder {
    runtime: Runtime,
    model: HashMap<Pointer, Vec<u8>>,
    turns: u8,
}

impl Holder {
    fn new(config: Config) -> Self {
        Self {
            runtime: Runtime::new(config).unwrap(),
            model: HashMap::new(),
            turns: 0,
        }
    }

    fn alloc(&mut self, name: &str, bytes: u64, kind: TensorKind) -> Pointer {
        let desc = TensorDesc::new(name, Bytes(bytes), kind);
        let pointer = self.runtime.alloc(&desc).unwrap();
        assert_eq!(pointer.as_ptr() as u64 % system_page(), 0);
        let old = self.model.insert(pointer, vec![0; bytes as usize]);
        assert!(old.is_none(), "two allocations do not overlap");
        pointer
    }

    fn activation(&mut self, bytes: u64) -> Pointer {
        self.alloc("activation", bytes, TensorKind::Activation)
    }

    fn free(&mut self, pointer: Pointer) {
        self.runtime.free(pointer).unwrap();
        self.model.remove(&pointer);
    }

    /// Checks `reads` and fills `writes` anew.
    fn compute(&mut self, reads: &[Pointer], writes: &[Pointer]) {
        let all: Vec<Pointer> = reads.iter().chain(writes).copied().collect();
        self.runtime.touch(&all).unwrap();
        for pointer in reads {
            let model = &self.model[pointer];
            // SAFETY: the allocation was touched, and has so many bytes.
            let found = unsafe { std::slice::from_raw_parts(pointer.as_ptr(), model.len()) };
            assert!(found == &model[..], "turn {}", self.turns);
        }
        for pointer in writes {
            self.turns = self.turns.wrapping_add(1);
            let model = self.model.get_mut(pointer).unwrap();
            for (at, byte) in model.iter_mut().enumerate() {
                *byte = (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ self.turns;
            }
            // SAFETY: as above, and no view of it is alive.
            unsafe {
                pointer.copy_from_nonoverlapping(NonNull::from(&mut model[..]).cast(), model.len())
            };
        }
    }

    /// Four layers forward and backward; `odd` runs one op more.
    fn step(&mut self, weight: Pointer, odd: bool) -> Vec<Pointer> {
        self.runtime.iteration_begin(TRAIN).unwrap();
        let mut layers: Vec<Pointer> = Vec::new();
        for layer in 0..4_u64 {
            let made = self.activation(20 * unit() + layer * 5000);
            let mut reads = vec![weight];
            reads.extend(layers.last());
            self.compute(&reads, &[made]);
            layers.push(made);
        }
        if odd {
            self.compute(&[layers[0]], &[]);
        }
        let used = layers.clone();
        while let Some(layer) = layers.pop() {
            let gradient = self.activation(8 * unit());
            self.compute(&[layer], &[gradient]);
            self.compute(&[gradient], &[weight]);
            self.free(layer);
            self.free(gradient);
        }
        self.runtime.iteration_end().unwrap();
        used
    }
}

#[test]
fn pointers_stay_good_while_pages_move() {
    // The weight takes several small pages and a part of a large one.
    let budget = if unit() == 4096 { 108 } else { 100 } * unit();
    for spill in [Spill::Ram, Spill::File(disk())] {
        let mut holder = Holder::new(Config {
            spill,
            ..config(budget)
        });
        let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
        let mut used = Vec::new();
        for _ in 0..6 {
            used.push(holder.step(weight, false));
        }
        let stats = holder.runtime.stats();
        assert_eq!(
            (stats.frozen_iterations, stats.divergences),
            (4, 0),
            "{stats:?}"
        );
        assert!(stats.moved_in.0 > 0, "{stats:?}");
        // A frozen program answers the addresses of the iteration that was recorded last.
        assert!(used[1..].iter().all(|step| *step == used[1]), "{used:?}");
        let handle = holder.runtime.tensor_at(weight).unwrap();
        let mut bytes = vec![0; 10_000];
        holder.runtime.read(handle, 0, &mut bytes).unwrap();
        assert_eq!(bytes, holder.model[&weight]);
        // What was not recorded goes on on demand, at the same addresses.
        assert_eq!(holder.step(weight, true), used[1]);
        assert_eq!(holder.runtime.stats().divergences, 1);
        for _ in 0..4 {
            holder.step(weight, true);
        }
        let programs = holder.runtime.programs();
        assert_eq!(holder.runtime.stats().frozen_iterations, 7, "{programs:?}");
        holder.free(weight);
        assert!(matches!(
            holder.runtime.tensor_at(weight),
            Err(RuntimeError::NoAllocation(_))
        ));
    }
}

#[test]
fn pointers_and_handles_go_together() {
    let mut holder = Holder::new(config(96 * unit()));
    let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
    let handle = holder.runtime.tensor_at(weight).unwrap();
    assert_eq!(holder.runtime.address(handle), Some(weight));
    for _ in 0..5 {
        holder.runtime.iteration_begin(TRAIN).unwrap();
        let made = holder.activation(60 * unit());
        let tensor = holder.runtime.tensor_at(made).unwrap();
        let accesses = [Access::read(handle), Access::write(tensor)];
        let op = holder.runtime.op_begin("by handle", &accesses).unwrap();
        assert_eq!((op.pointer(0), op.pointer(1)), (weight, made));
        holder.runtime.op_end().unwrap();
        let other = holder.activation(30 * unit());
        holder.compute(&[], &[other]);
        holder.compute(&[], &[made]);
        holder.compute(&[made], &[]);
        holder.free(made);
        holder.free(other);
        holder.runtime.iteration_end().unwrap();
    }
    assert_eq!(holder.runtime.stats().frozen_iterations, 3);
    let pinned = holder.runtime.pin(handle).unwrap();
    assert_eq!(
        pinned, weight,
        "a pin has the address that its tensor has anyway"
    );
}

#[test]
fn what_begins_nowhere_is_refused_and_stops_nothing() {
    let mut holder = Holder::new(config(96 * unit()));
    let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
    let inside = NonNull::new(weight.as_ptr().wrapping_add(512)).unwrap();
    assert!(
        holder.runtime.touch(&[weight]).is_err(),
        "outside an iteration"
    );
    for iteration in 0..5 {
        holder.runtime.iteration_begin(TRAIN).unwrap();
        let made = holder.activation(20 * unit());
        holder.compute(&[weight], &[made]);
        for wrong in [inside, NonNull::dangling()] {
            let refused = holder.runtime.touch(&[wrong]).unwrap_err();
            assert!(
                matches!(refused, RuntimeError::NoAllocation(_)),
                "{refused}"
            );
            assert!(holder.runtime.free(wrong).is_err());
        }
        holder.free(made);
        assert!(
            holder.runtime.touch(&[made]).is_err(),
            "iteration {iteration}"
        );
        assert!(holder.runtime.free(made).is_err());
        holder.runtime.iteration_end().unwrap();
    }
    let stats = holder.runtime.stats();
    assert_eq!(
        (stats.frozen_iterations, stats.divergences),
        (3, 0),
        "{stats:?}"
    );
}

#[test]
fn a_touch_that_is_given_up_loses_what_it_touched() {
    let mut holder = Holder::new(config(96 * unit()));
    let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
    let other = holder.alloc("other", 10_000, TensorKind::Buffer);
    for _ in 0..3 {
        holder.step(weight, false);
    }
    holder.runtime.iteration_begin(TRAIN).unwrap();
    holder.runtime.touch(&[weight]).unwrap();
    holder.runtime.iteration_abort().unwrap();
    let [weight, other] = [weight, other].map(|at| holder.runtime.tensor_at(at).unwrap());
    let lost = holder.runtime.read(weight, 0, &mut [0]).unwrap_err();
    assert!(matches!(lost, RuntimeError::LostContent { .. }), "{lost}");
    holder.runtime.read(other, 0, &mut [0]).unwrap();
    // All that was asked for is all of it, though pages are larger; and there is nothing beyond.
    holder.runtime.write(weight, 0, &[7; 10_000]).unwrap();
    let mut bytes = vec![0; 10_000];
    holder.runtime.read(weight, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    let beyond = holder.runtime.read(weight, 10_000, &mut [0]).unwrap_err();
    assert!(matches!(beyond, RuntimeError::Bounds { .. }), "{beyond}");
}

#[test]
fn a_touch_that_fails_on_demand_fails_alike_in_a_frozen_program_and_does_not_stop_it() {
    let mut holder = Holder::new(config(96 * unit()));
    let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
    let large = holder.alloc("large", 100 * unit(), TensorKind::Buffer);
    let mut errors = Vec::new();
    for _ in 0..5 {
        let rt = &mut holder.runtime;
        rt.iteration_begin(TRAIN).unwrap();
        rt.touch(&[weight]).unwrap();
        // It ends the touch before.
        errors.push(rt.touch(&[large, weight]).unwrap_err().to_string());
        assert!(matches!(rt.op_end(), Err(RuntimeError::Order { .. })));
        rt.touch(&[weight]).unwrap();
        rt.iteration_end().unwrap();
    }
    assert!(errors[0].contains("at once"), "{}", errors[0]);
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    let stats = holder.runtime.stats();
    assert_eq!((stats.frozen_iterations, stats.divergences), (3, 0));
}

#[test]
fn a_loaded_program_that_is_left_gives_addresses_of_whole_pages() {
    let holder = || {
        let mut holder = Holder::new(config(96 * unit()));
        let small = TensorDesc::new("small", Bytes(600), TensorKind::Buffer);
        let small = holder.runtime.create(&small).unwrap();
        (holder, small)
    };
    let made = |(holder, small): &mut (Holder, Tensor), odd: bool| {
        holder.runtime.iteration_begin(TRAIN).unwrap();
        let first = holder.activation(30 * unit());
        holder.compute(&[], &[first]);
        if odd {
            let small = [Access::read_write(*small)];
            holder.runtime.op("small", &small, |_| ()).unwrap();
        }
        holder.compute(&[first], &[]);
        holder.free(first);
        holder.runtime.iteration_end().unwrap();
    };
    let mut recorded = holder();
    (0..3).for_each(|_| made(&mut recorded, false));
    let saved = recorded.0.runtime.save_plan(TRAIN).unwrap();
    let mut loaded = holder();
    loaded.0.runtime.load_plan(TRAIN, &saved).unwrap();
    made(&mut loaded, false);
    made(&mut loaded, true);
    let stats = loaded.0.runtime.stats();
    assert_eq!((stats.frozen_iterations, stats.divergences), (1, 1));
}

#[test]
fn a_saved_program_has_addresses_of_its_own() {
    let saved = {
        let mut holder = Holder::new(config(96 * unit()));
        let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
        for _ in 0..3 {
            holder.step(weight, false);
        }
        holder.runtime.save_plan(TRAIN).unwrap()
    };
    let mut holder = Holder::new(config(96 * unit()));
    let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
    holder.runtime.load_plan(TRAIN, &saved).unwrap();
    let first = holder.step(weight, false);
    assert_eq!(first, holder.step(weight, false));
    assert_eq!(holder.runtime.stats().frozen_iterations, 2);
}

#[test]
fn a_policy_that_gives_other_addresses_stays_on_demand() {
    let mut holder = Holder::new(Config {
        policy: Policy::Lru,
        ..config(96 * unit())
    });
    let weight = holder.alloc("weight", 10_000, TensorKind::Parameter);
    for _ in 0..4 {
        holder.step(weight, false);
    }
    assert_eq!(holder.runtime.stats().frozen_iterations, 0);
    let refusal = holder.runtime.programs()[0].refusal.clone().unwrap();
    assert!(refusal.contains("another address each time"), "{refusal}");
}
