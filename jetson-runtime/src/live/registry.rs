//! The registry: what each handle stands for.
//!
//! Guarantees: a handle that was never given out, or whose tensor is gone, is refused. Persistent
//! tensors have rows that are used again, with a generation that tells their tenants apart;
//! transients have the number of their creation, and the iteration.

use std::collections::BTreeMap;

use super::score::Spec;
use super::tensor::{Key, Tensor};
use crate::error::RuntimeError;

#[derive(Debug)]
struct Row {
    generation: u32,
    spec: Option<Spec>,
}

/// A transient of the present iteration.
#[derive(Debug)]
struct Transient {
    spec: Spec,
    alive: bool,
}

/// What handles stand for.
#[derive(Debug, Default)]
pub(super) struct Registry {
    rows: Vec<Row>,
    free: Vec<u32>,
    transients: Vec<Transient>,
    /// Iterations so far; transients of others are gone.
    pub(super) serial: u32,
    /// Handles of transients that outlived their iteration, and what they are now.
    promoted: BTreeMap<Tensor, Key>,
}

impl Registry {
    /// A new persistent tensor.
    pub(super) fn create(&mut self, spec: Spec) -> Key {
        let row = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row {
                generation: 0,
                spec: None,
            });
            number(self.rows.len() - 1)
        });
        let entry = &mut self.rows[row as usize];
        entry.spec = Some(spec);
        Key::persistent(Tensor::persistent(row, entry.generation))
    }

    /// A new tensor of the present iteration.
    pub(super) fn create_transient(&mut self, spec: Spec) -> Key {
        self.transients.push(Transient { spec, alive: true });
        Key::transient(number(self.transients.len() - 1))
    }

    /// The tensor that the iteration has created last was none: its number is free again.
    pub(super) fn destroy_newest(&mut self) {
        self.transients.pop();
    }

    /// What a handle stands for.
    pub(super) fn resolve(&self, tensor: Tensor) -> Result<Key, RuntimeError> {
        let passing = Key::transient(number(tensor.index()));
        let key = if !tensor.is_transient() {
            Some(Key::persistent(tensor))
        } else if passing.handle(self.serial) == tensor && self.spec(passing).is_some() {
            Some(passing)
        } else {
            // Also right after the end of its iteration, before another begins.
            self.promoted.get(&tensor).copied()
        };
        key.filter(|key| self.spec(*key).is_some())
            .ok_or(RuntimeError::NoTensor(tensor.to_bits()))
    }

    /// Whether a handle is that of a recorded tensor. One that outlived its iteration has two.
    #[inline]
    pub(super) fn is(&self, key: Key, tensor: Tensor) -> bool {
        let renamed = || self.resolve(tensor).is_ok_and(|other| other == key);
        key.handle(self.serial) == tensor || (!key.is_transient() && renamed())
    }

    /// What a key stands for, if it is alive.
    pub(super) fn spec(&self, key: Key) -> Option<&Spec> {
        if key.is_transient() {
            let transient = self.transients.get(key.index())?;
            return transient.alive.then_some(&transient.spec);
        }
        let row = self.rows.get(key.index())?;
        let same = key.handle(0) == Tensor::persistent(number(key.index()), row.generation);
        row.spec.as_ref().filter(|_| same)
    }

    /// The tensor is gone.
    pub(super) fn destroy(&mut self, key: Key) {
        if key.is_transient() {
            self.transients[key.index()].alive = false;
            return;
        }
        let row = &mut self.rows[key.index()];
        row.spec = None;
        row.generation = row.generation.wrapping_add(1);
        self.free.push(number(key.index()));
        self.promoted.retain(|_, promoted| *promoted != key);
    }

    /// The persistent tensors that are alive, by row.
    pub(super) fn persistent(&self) -> impl Iterator<Item = Key> {
        let numbered = self.rows.iter().enumerate();
        numbered
            .filter(|(_, row)| row.spec.is_some())
            .map(|(at, row)| Key::persistent(Tensor::persistent(number(at), row.generation)))
    }

    /// The transients that are alive.
    pub(super) fn alive(&self) -> impl Iterator<Item = Key> {
        let numbered = self.transients.iter().enumerate();
        numbered
            .filter(|(_, transient)| transient.alive)
            .map(|(index, _)| Key::transient(number(index)))
    }

    /// A transient becomes persistent; its handle stays good.
    pub(super) fn promote(&mut self, key: Key) -> Key {
        let spec = self.transients[key.index()].spec.clone();
        self.transients[key.index()].alive = false;
        let promoted = self.create(spec);
        self.promoted.insert(key.handle(self.serial), promoted);
        promoted
    }

    /// The transients of an iteration are gone.
    pub(super) fn end_iteration(&mut self) {
        self.transients.clear();
    }
}

/// A row or number as handles hold it.
fn number(index: usize) -> u32 {
    u32::try_from(index).expect("handles count tensors in u32")
}

#[cfg(test)]
mod tests {
    use vtensor::TensorKind;

    use super::*;

    fn spec(name: &str) -> Spec {
        Spec {
            name: name.into(),
            bytes: 1,
            kind: TensorKind::Buffer,
            scratch: false,
            fixed: false,
        }
    }

    #[test]
    fn handles_end_with_their_tensors() {
        let mut registry = Registry::default();
        let first = registry.create(spec("first"));
        let handle = first.handle(0);
        assert_eq!(registry.resolve(handle).unwrap(), first);
        registry.destroy(first);
        assert!(registry.resolve(handle).is_err());
        let second = registry.create(spec("second"));
        assert_eq!(second.index(), first.index());
        assert!(registry.resolve(handle).is_err(), "the row is another's");
        assert!(registry.resolve(Tensor::from_bits(12345)).is_err());
        assert!(registry.resolve(Tensor::from_bits(u64::MAX)).is_err());
    }

    #[test]
    fn transients_end_with_their_iteration_unless_they_are_promoted() {
        let mut registry = Registry {
            serial: 4,
            ..Registry::default()
        };
        let keys = ["gone", "kept"].map(|name| registry.create_transient(spec(name)));
        let handles = keys.map(|key| key.handle(registry.serial));
        assert_eq!(handles.map(|h| registry.resolve(h).unwrap()), keys);
        let promoted = registry.promote(keys[1]);
        registry.end_iteration();
        assert_eq!(registry.resolve(handles[1]).unwrap(), promoted);
        registry.serial += 1;
        assert!(registry.resolve(handles[0]).is_err());
        assert_eq!(registry.resolve(handles[1]).unwrap(), promoted);
        assert_eq!(&*registry.spec(promoted).unwrap().name, "kept");
        registry.destroy(promoted);
        assert!(registry.resolve(handles[1]).is_err());
    }
}
