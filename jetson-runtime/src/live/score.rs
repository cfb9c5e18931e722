//! A score: what an iteration did, in order.
//!
//! In: the application's calls. Out: a sequence that can be compared with another iteration's.
//! Guarantees: two scores are equal if and only if the application created, used and destroyed the
//! same tensors in the same ops, by name, size and mode.

use std::fmt;
use std::sync::Arc;

use lgm::trace::Phase;
use vtensor::{Mode, TensorKind};

use super::tensor::{Key, TensorDesc};
use crate::scale::system_page;

/// What a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) name: Arc<str>,
    /// What the application asked for.
    pub(super) bytes: u64,
    pub(super) kind: TensorKind,
    pub(super) scratch: bool,
    pub(super) fixed: bool,
}

impl Spec {
    pub(super) fn new(desc: &TensorDesc<'_>) -> Self {
        Self {
            name: desc.name.into(),
            bytes: desc.bytes.0,
            kind: desc.kind,
            scratch: desc.scratch,
            fixed: desc.fixed,
        }
    }

    /// What it takes: one with a fixed address whole pages.
    pub(super) fn taken(&self) -> u64 {
        match self.fixed {
            true => self.bytes.next_multiple_of(system_page()),
            false => self.bytes,
        }
    }

    /// Whether it describes the same tensor.
    pub(super) fn is(&self, desc: &TensorDesc<'_>) -> bool {
        (self.bytes, self.kind) == (desc.bytes.0, desc.kind)
            && (self.scratch, self.fixed) == (desc.scratch, desc.fixed)
            && *self.name == *desc.name
    }
}

/// An op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpEvent {
    pub(super) name: Arc<str>,
    pub(super) phase: Phase,
    /// As the application gave them: a tensor may be named twice.
    pub(super) accesses: Vec<(Key, Mode)>,
    /// Whether it may run again.
    pub(super) replayable: bool,
}

impl OpEvent {
    /// The accesses, each tensor once, with the modes of all that name it.
    pub(super) fn merged(&self) -> Vec<(Key, Mode)> {
        merged(&self.accesses)
    }
}

/// Each tensor once: its mode reads if one of its accesses reads, and writes if one writes.
pub(super) fn merged(accesses: &[(Key, Mode)]) -> Vec<(Key, Mode)> {
    let mut merged: Vec<(Key, Mode)> = Vec::with_capacity(accesses.len());
    for &(key, mode) in accesses {
        match merged.iter_mut().find(|(other, _)| *other == key) {
            None => merged.push((key, mode)),
            Some((_, other)) if *other != mode => *other = Mode::ReadWrite,
            Some(_) => {}
        }
    }
    merged
}

/// One call of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It created the next transient.
    Create(Spec),
    /// It destroyed a tensor of this iteration.
    Destroy(Key),
    /// It ran an op.
    Op(OpEvent),
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.name, self.bytes)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(spec) => write!(f, "creation of tensor {spec}"),
            Self::Destroy(key) => {
                write!(f, "destruction of tensor {} of the iteration", key.index())
            }
            Self::Op(op) => write!(f, "op {:?} with {} tensors", op.name, op.accesses.len()),
        }
    }
}

/// An iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) events: Vec<Event>,
    /// Tensors that the iteration created and left behind, by number. An iteration with such has no
    /// successor that is equal and complete, so it is never planned.
    pub(super) kept: Vec<u32>,
}

impl Score {
    /// The ops, in order.
    pub(super) fn ops(&self) -> impl Iterator<Item = &OpEvent> {
        self.events.iter().filter_map(|event| match event {
            Event::Op(op) => Some(op),
            Event::Create(_) | Event::Destroy(_) => None,
        })
    }

    /// What it creates, in order.
    pub(super) fn created(&self) -> impl Iterator<Item = &Spec> {
        self.events.iter().filter_map(|event| match event {
            Event::Create(spec) => Some(spec),
            Event::Destroy(_) | Event::Op(_) => None,
        })
    }

    /// The persistent tensors that its ops use, each once, in the order of their first use.
    pub(super) fn persistent(&self) -> Vec<Key> {
        let accesses = self.ops().flat_map(|op| &op.accesses);
        let keys = accesses
            .map(|(key, _)| *key)
            .filter(|key| !key.is_transient());
        let mut seen = std::collections::BTreeSet::new();
        keys.filter(|key| seen.insert(*key)).collect()
    }

    /// Bytes of its tensors at once, at most; `persistent` is what those take that it did not make.
    pub(super) fn peak(&self, persistent: u64) -> u64 {
        let mut made: Vec<u64> = Vec::new();
        let (mut now, mut most) = (persistent, persistent);
        for event in &self.events {
            match event {
                Event::Create(spec) => {
                    made.push(spec.bytes);
                    now = now.saturating_add(spec.bytes);
                    most = most.max(now);
                }
                Event::Destroy(key) => now -= made[key.index()],
                Event::Op(_) => {}
            }
        }
        most
    }
}

/// The tensors that accesses write.
pub(super) fn written(accesses: &[(Key, Mode)]) -> impl Iterator<Item = Key> {
    let writes = accesses.iter().filter(|(_, mode)| mode.writes());
    writes.map(|(key, _)| *key)
}

/// The mode of a tensor in a list that names each once, this one among them.
pub(super) fn mode_of(key: Key, merged: &[(Key, Mode)]) -> Mode {
    let found = merged.iter().find(|(other, _)| *other == key);
    found.expect("merging drops no tensor").1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_one_tensor_merge_to_the_strongest_mode() {
        let key = Key::transient;
        let (r, w, rw) = (Mode::Read, Mode::Write, Mode::ReadWrite);
        let accesses = [
            (key(0), r),
            (key(1), w),
            (key(0), r),
            (key(1), r),
            (key(2), w),
            (key(2), w),
        ];
        assert_eq!(merged(&accesses), [(key(0), r), (key(1), rw), (key(2), w)]);
        assert_eq!(merged(&[(key(0), rw), (key(0), w)]), [(key(0), rw)]);
    }
}
