//! Memory by address: for applications that hold raw pointers, such as a framework whose allocator
//! calls here.
//!
//! What is allocated is a tensor with an address for life. Between two touches its bytes may be
//! elsewhere; a touch says which allocations the op that begins now uses, and ends the op before.
//! Since a pointer does not tell how it is used, a touch reads and writes: such tensors have no
//! clean copies in the spill tier. An op whose modes are known is better begun with
//! [`Runtime::op_begin`], with the handles of [`Runtime::tensor_at`].

use std::ptr::NonNull;

use vtensor::Mode;

use super::place::{Cursor, Place};
use super::runtime::Runtime;
use super::score::Event;
use super::tensor::{Access, Key, Tensor, TensorDesc};
use crate::error::RuntimeError;

/// The name of an op that a touch begins.
const TOUCH: &str = "touch";

impl Runtime {
    /// Creates a tensor whose address never changes, and answers that. Where it is created says how
    /// long it lives, as for [`Self::create`]. Its bytes may be used while an op that names it is
    /// open: after [`Self::touch`], until the next call.
    ///
    /// # Errors
    /// As [`Self::create`]; if the machine has no addresses or mappings left.
    pub fn alloc(&mut self, desc: &TensorDesc<'_>) -> Result<NonNull<u8>, RuntimeError> {
        let desc = TensorDesc {
            fixed: true,
            ..*desc
        };
        let tensor = self.create(&desc)?;
        let pointer = self.address(tensor);
        Ok(pointer.expect("it was created with an address"))
    }

    /// Destroys what [`Self::alloc`] has created.
    ///
    /// # Errors
    /// As [`Self::destroy`]; if nothing begins there.
    pub fn free(&mut self, pointer: NonNull<u8>) -> Result<(), RuntimeError> {
        let tensor = self.tensor_at(pointer)?;
        self.destroy(tensor)
    }

    /// Ends the op of the touch before, and begins one that uses these allocations: their bytes are
    /// there until the next touch, allocation, op, or the end of the iteration.
    ///
    /// # Errors
    /// Outside an iteration; if nothing begins at a pointer; as [`Self::op_begin`].
    pub fn touch(&mut self, pointers: &[NonNull<u8>]) -> Result<(), RuntimeError> {
        self.end_touch()?;
        if let Place::Replaying(cursor) = self.place
            && self.is_next_touch(cursor, pointers)
        {
            self.replay_op(cursor, None)?;
            self.touching = true;
            return Ok(());
        }
        let accesses: Result<Vec<Access>, RuntimeError> = pointers
            .iter()
            .map(|pointer| {
                let tensor = self.tensor_at(*pointer)?;
                // What is new holds nothing that an op could read.
                let mode = match self.is_new(tensor)? {
                    true => Mode::Write,
                    false => Mode::ReadWrite,
                };
                Ok(Access { tensor, mode })
            })
            .collect();
        self.op_begin(TOUCH, &accesses?)?;
        self.touching = true;
        Ok(())
    }

    /// Whether a tensor is one of the iteration that no op has written.
    fn is_new(&self, tensor: Tensor) -> Result<bool, RuntimeError> {
        if let Place::Replaying(cursor) = self.place {
            let key = self.holdings.key_in(cursor, tensor)?;
            return Ok(key.is_transient() && !self.holdings.was_written(cursor, key));
        }
        let key = self.holdings.registry.resolve(tensor)?;
        Ok(key.is_transient() && !self.holdings.heap.is_written(key))
    }

    /// The handle of what [`Self::alloc`] has created.
    ///
    /// # Errors
    /// If nothing that is alive begins there.
    pub fn tensor_at(&self, pointer: NonNull<u8>) -> Result<Tensor, RuntimeError> {
        let nothing = || RuntimeError::NoAllocation(pointer.as_ptr() as usize);
        let serial = self.holdings.registry.serial;
        if let Place::Replaying(cursor) = self.place {
            let program = self.holdings.tracks[cursor.track].program.as_ref();
            let seats = &program.expect("it runs").seats;
            if let Some(key) = seats.find(pointer).filter(|key| key.is_transient()) {
                let tensor = key.handle(serial);
                return match self.holdings.check_alive(cursor, tensor) {
                    Ok(()) => Ok(tensor),
                    Err(_) => Err(nothing()),
                };
            }
        }
        let key = self.holdings.heap.seats.find(pointer).ok_or_else(nothing)?;
        Ok(key.handle(serial))
    }

    /// The address of a tensor that has one for life.
    #[must_use]
    pub fn address(&self, tensor: Tensor) -> Option<NonNull<u8>> {
        let seats = match self.place {
            Place::Replaying(cursor) if tensor.is_transient() => {
                &self.holdings.tracks[cursor.track].program.as_ref()?.seats
            }
            _ => &self.holdings.heap.seats,
        };
        let key = match (&self.place, tensor.is_transient()) {
            (Place::Replaying(_), true) => Key::transient(u32::try_from(tensor.index()).ok()?),
            _ => self.holdings.registry.resolve(tensor).ok()?,
        };
        seats.get(key).map(|seat| seat.pointer())
    }

    /// Whether a touch is what was recorded next.
    fn is_next_touch(&self, cursor: Cursor, pointers: &[NonNull<u8>]) -> bool {
        let track = &self.holdings.tracks[cursor.track];
        let Some(Event::Op(op)) = track.score.events.get(cursor.event) else {
            return false;
        };
        let rows = track.program.as_ref().expect("it runs").rows(cursor.op);
        !cursor.open
            && *op.name == *TOUCH
            && !op.replayable
            && rows.len() == pointers.len()
            && rows
                .iter()
                .zip(pointers)
                .all(|(row, &pointer)| row.pointer == pointer)
    }
}
