//! Attempts: calls in a frozen iteration that would be refused on demand, too.
//!
//! In: a call that is not what was recorded next. Out: the error that it would end with on demand,
//! where that is known beforehand: a handle that stands for nothing, a tensor that nothing has
//! written, an op that the budget has no room for. Such a call changes nothing, so it does not stop
//! the program: an application that tries something and falls back does so in every iteration.
//!
//! Guarantees: what is refused here is refused on demand with the same error. What passes may still
//! fail there, by what the spill tier does, or by what the program had given up.

use vtensor::{Bytes, Mode};

use super::holdings::Holdings;
use super::place::Cursor;
use super::score::{Event, Spec, merged, written};
use super::tensor::{Access, Key, Tensor};
use crate::error::RuntimeError;
use crate::failure::short_name;

impl Holdings {
    /// Refuses a handle that stands for nothing in a frozen iteration.
    pub(super) fn check_alive(&self, cursor: Cursor, tensor: Tensor) -> Result<(), RuntimeError> {
        self.key_in(cursor, tensor).map(|_| ())
    }

    /// What a handle stands for in a frozen iteration.
    pub(super) fn key_in(&self, cursor: Cursor, tensor: Tensor) -> Result<Key, RuntimeError> {
        let number = u32::try_from(tensor.index()).unwrap_or(u32::MAX);
        let key = Key::transient(number);
        if !tensor.is_transient() || key.handle(self.registry.serial) != tensor {
            return self.registry.resolve(tensor);
        }
        match number < cursor.created && !self.past(cursor).contains(&Event::Destroy(key)) {
            true => Ok(key),
            false => Err(RuntimeError::NoTensor(tensor.to_bits())),
        }
    }

    /// Refuses an op that would be refused on demand. No op is open.
    #[cold]
    pub(super) fn check_op(
        &self,
        cursor: Cursor,
        name: &str,
        accesses: &[Access],
    ) -> Result<(), RuntimeError> {
        let keys: Result<Vec<(Key, Mode)>, RuntimeError> = accesses
            .iter()
            .map(|access| Ok((self.key_in(cursor, access.tensor)?, access.mode)))
            .collect();
        let once = merged(&keys?);
        let undefined = |&&(key, mode): &&(Key, Mode)| {
            key.is_transient() && mode == Mode::Read && !self.was_written(cursor, key)
        };
        if let Some(&(key, _)) = once.iter().find(undefined) {
            return Err(RuntimeError::ReadBeforeWrite {
                op: short_name(name),
                name: short_name(&self.spec_in(cursor, key).name),
            });
        }
        let mut needed = 0_u64;
        for &(key, mode) in &once {
            let item = self.heap.items.get(&key);
            if let Some(item) = item.filter(|_| mode.reads()) {
                item.check_kept()?;
            }
            if !self.heap.is_pinned(key) {
                let taken = self.spec_in(cursor, key).taken();
                needed = needed.saturating_add(self.heap.space.taken_by(taken));
            }
        }
        self.heap.check_room(name, Bytes(needed))
    }

    /// Refuses to destroy what outlives the iteration.
    pub(super) fn check_passing(&self, key: Key) -> Result<(), RuntimeError> {
        match self.registry.spec(key).filter(|_| !key.is_transient()) {
            Some(spec) => Err(RuntimeError::DestroyedInside {
                name: short_name(&spec.name),
            }),
            None => Ok(()),
        }
    }

    /// Refuses to destroy what cannot be destroyed in a frozen iteration.
    pub(super) fn check_destroy(&self, cursor: Cursor, tensor: Tensor) -> Result<(), RuntimeError> {
        self.check_passing(self.key_in(cursor, tensor)?)
    }

    /// Whether an op of this frozen iteration has written one of its tensors.
    pub(super) fn was_written(&self, cursor: Cursor, key: Key) -> bool {
        let writes = |event: &Event| match event {
            Event::Op(op) => written(&op.accesses).any(|other| other == key),
            Event::Create(_) | Event::Destroy(_) => false,
        };
        self.past(cursor).iter().any(writes)
    }

    /// The calls of a frozen iteration so far.
    fn past(&self, cursor: Cursor) -> &[Event] {
        &self.tracks[cursor.track].score.events[..cursor.event]
    }

    /// What a tensor is that is alive in a frozen iteration.
    fn spec_in(&self, cursor: Cursor, key: Key) -> &Spec {
        if !key.is_transient() {
            return self.registry.spec(key).expect("it is alive");
        }
        let created = self.past(cursor).iter().filter_map(|event| match event {
            Event::Create(spec) => Some(spec),
            Event::Destroy(_) | Event::Op(_) => None,
        });
        let mut created = created.skip(key.index());
        created.next().expect("it was created in this iteration")
    }
}
