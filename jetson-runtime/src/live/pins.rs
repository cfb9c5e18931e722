//! Pins: persistent tensors that stay where they are, at the high end of the arena.
//!
//! Guarantees: the address of a pinned tensor does not change until it is unpinned, whatever runs.
//! What is pinned is taken from the budget of everything else: the heap and every program have the
//! arena below the lowest pin.

use std::ptr::NonNull;

use vtensor::{Bytes, limits};

use super::heap::Heap;
use super::runtime::Runtime;
use super::tensor::{Key, Tensor};
use crate::error::RuntimeError;
use crate::failure::short_name;

impl Runtime {
    /// Keeps a persistent tensor in the arena, at one address, until [`Self::unpin`]. The bytes
    /// there are the tensor's content; the application may use them whenever no op that accesses
    /// the tensor is open. Programs are planned anew for the rest of the budget. Pinning again
    /// answers the same address.
    ///
    /// # Errors
    /// Inside an iteration; if there is no such tensor, its content was lost, or the arena has no
    /// room for it; if the spill tier fails.
    pub fn pin(&mut self, tensor: Tensor) -> Result<NonNull<u8>, RuntimeError> {
        self.at_rest("pin")?;
        let key = self.registry.resolve(tensor)?;
        if !self.heap.is_pinned(key) {
            self.withdraw_programs()?;
            self.heap.pin(key)?;
        }
        Ok(self.heap.pointer(key))
    }

    /// Lets a pinned tensor move again. Its address is no longer good. One that is not pinned stays
    /// as it is.
    ///
    /// # Errors
    /// Inside an iteration; if there is no such tensor; if the spill tier fails.
    pub fn unpin(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        self.at_rest("unpin")?;
        let key = self.registry.resolve(tensor)?;
        if self.heap.is_pinned(key) {
            self.withdraw_programs()?;
            self.heap.unpin(key)?;
        }
        Ok(())
    }

    /// Gives all programs up: they were planned for another arena. What was recorded stays.
    fn withdraw_programs(&mut self) -> Result<(), RuntimeError> {
        self.vacate()?;
        self.heap.clear_arena()?;
        for track in &mut self.tracks {
            let program = track.program.take();
            (track.loaded, track.refusal) = (None, None);
            if let Some(program) = program {
                self.stats.absorb(&program.frozen.stats());
            }
        }
        Ok(())
    }
}

impl Heap {
    /// How much of the arena is not pinned.
    pub(super) fn limit(&self) -> u64 {
        self.space.size()
    }

    /// Whether a tensor is pinned.
    pub(super) fn is_pinned(&self, key: Key) -> bool {
        self.items
            .get(&key)
            .is_some_and(|item| item.pinned.is_some())
    }

    /// The blocks of pinned tensors, from the highest.
    fn pins(&self) -> Vec<(u64, u64)> {
        let items = self.items.values();
        let block = |start, bytes| (start, start + self.space.taken_by(bytes));
        let pinned = items.filter_map(|item| Some(block(item.pinned?, item.bytes)));
        let mut pins: Vec<(u64, u64)> = pinned.collect();
        pins.sort_unstable_by(|a, b| b.cmp(a));
        pins
    }

    /// Pins a tensor. The arena is clear of blocks.
    fn pin(&mut self, key: Key) -> Result<(), RuntimeError> {
        let item = &self.items[&key];
        let bytes = self.space.taken_by(item.bytes);
        item.check_kept()?;
        let mut top = self.arena_bytes() / limits::TENSOR_ALIGN * limits::TENSOR_ALIGN;
        for (start, end) in self.pins() {
            if top - end >= bytes {
                break;
            }
            top = start;
        }
        let Some(start) = top.checked_sub(bytes) else {
            return Err(RuntimeError::PinTooLarge {
                name: short_name(&item.name),
                needed: Bytes(bytes),
                room: Bytes(top),
            });
        };
        self.claim_range(start, top)?;
        self.item(key).device = Some(start);
        let loaded = self.load(key);
        self.item(key).device = None;
        loaded?;
        if let Some(slot) = self.item(key).slot.take() {
            self.garage.give(slot);
        }
        let item = self.item(key);
        (item.pinned, item.written) = (Some(start), true);
        self.resize();
        Ok(())
    }

    /// Unpins a tensor: its content goes to the garage.
    fn unpin(&mut self, key: Key) -> Result<(), RuntimeError> {
        let item = self.item(key);
        (item.device, item.pinned) = (item.pinned, None);
        let saved = self.save(key);
        let item = self.item(key);
        match saved {
            Ok(()) => item.device = None,
            Err(error) => {
                (item.pinned, item.device) = (item.device, None);
                return Err(error);
            }
        }
        self.resize();
        Ok(())
    }

    /// What is below the pins is the heap's.
    pub(super) fn resize(&mut self) {
        let lowest = self.pins().last().map(|(start, _)| *start);
        self.space.resize(lowest.unwrap_or(self.arena_bytes()));
    }
}
