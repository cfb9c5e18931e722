//! Pins: persistent tensors that stay where they are, at the high end of the arena.
//!
//! Guarantees: the address of a pinned tensor does not change until it is unpinned, whatever runs.
//! What is pinned is taken from the budget of everything else: the heap and every program have the
//! arena below the lowest pin.

use std::ptr::{self, NonNull};

use vtensor::{Bytes, limits};

use super::heap::Heap;
use super::runtime::Runtime;
use super::tensor::{Key, Tensor};
use crate::error::RuntimeError;
use crate::failure::short_name;
use crate::scale::{system_page, to_usize};

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
        self.settle(key)?;
        Ok(self.heap.pointer(key))
    }

    /// Lets a pinned tensor move again. Its address is no longer good. One that is not pinned, or
    /// is of a kind that is kept, stays as it is.
    ///
    /// # Errors
    /// Inside an iteration; if there is no such tensor; if the spill tier fails.
    pub fn unpin(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        self.at_rest("unpin")?;
        let key = self.registry.resolve(tensor)?;
        if self.heap.is_pinned(key) && !self.heap.items[&key].keep {
            self.withdraw_programs()?;
            self.heap.clear_arena()?;
            self.heap.unpin(key)?;
        }
        Ok(())
    }

    /// Pins a tensor if it is of a kind that is kept.
    pub(super) fn keep(&mut self, key: Key) -> Result<(), RuntimeError> {
        match self.heap.items[&key].keep {
            true => self.settle(key),
            false => Ok(()),
        }
    }

    /// Pins what outlived its iteration and is kept.
    pub(super) fn keep_waiting(&mut self) -> Result<(), RuntimeError> {
        while let Some(&key) = self.to_keep.last() {
            if self.registry.spec(key).is_some() {
                self.keep(key)?;
            }
            self.to_keep.pop();
        }
        Ok(())
    }

    /// A tensor that is destroyed needs its place no more.
    pub(super) fn discard_pin(&mut self, key: Key) -> Result<(), RuntimeError> {
        if self.heap.is_pinned(key) {
            self.withdraw_programs()?;
            self.heap.clear_arena()?;
            self.heap.item(key).pinned = None;
            self.heap.resize();
        }
        Ok(())
    }

    /// Gives a tensor its place for life.
    fn settle(&mut self, key: Key) -> Result<(), RuntimeError> {
        if !self.heap.is_pinned(key) {
            self.withdraw_programs()?;
            self.heap.clear_arena_but(Some(key))?;
            self.heap.pin(key)?;
        }
        Ok(())
    }

    /// Gives all programs up: they were planned for another arena. What was recorded stays.
    fn withdraw_programs(&mut self) -> Result<(), RuntimeError> {
        self.vacate()?;
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

    /// What pinned tensors take.
    pub(super) fn pinned_bytes(&self) -> Bytes {
        Bytes(self.pins().iter().map(|(start, end)| end - start).sum())
    }

    /// The blocks of pinned tensors, from the highest.
    fn pins(&self) -> Vec<(u64, u64)> {
        let items = self.items.values();
        let block = |start, bytes| (start, start + pinned_bytes(bytes));
        let pinned = items.filter_map(|item| Some(block(item.pinned?, item.bytes)));
        let mut pins: Vec<(u64, u64)> = pinned.collect();
        pins.sort_unstable_by(|a, b| b.cmp(a));
        pins
    }

    /// Pins a tensor. No other one has a block in the arena.
    fn pin(&mut self, key: Key) -> Result<(), RuntimeError> {
        let item = &self.items[&key];
        let bytes = pinned_bytes(item.bytes);
        item.check_kept()?;
        // A seat shows whole pages.
        let align = match self.seats.get(key) {
            Some(_) => system_page(),
            None => limits::TENSOR_ALIGN,
        };
        let below = |top: u64| Some(top.checked_sub(bytes)? / align * align);
        let mut top = self.arena_bytes() / limits::TENSOR_ALIGN * limits::TENSOR_ALIGN;
        for (start, end) in self.pins() {
            if below(top).is_some_and(|start| start >= end) {
                break;
            }
            top = start;
        }
        let Some(start) = below(top) else {
            return Err(RuntimeError::PinTooLarge {
                name: short_name(&item.name),
                needed: Bytes(bytes),
                room: Bytes(top),
            });
        };
        self.claim_range(start, top)?;
        if let Some(from) = self.items[&key].device {
            let bytes = self.items[&key].bytes;
            let [source, target] = [from, start].map(|offset| self.address(offset, bytes));
            // SAFETY: both ranges lie in the arena's view, where no other tensor has a block and no
            // pin is; no op is open. They may overlap.
            unsafe { ptr::copy(source.as_ptr(), target.as_ptr(), to_usize(bytes)) };
            self.drop_block(key);
        } else {
            self.item(key).device = Some(start);
            let loaded = self.load(key);
            self.item(key).device = None;
            loaded?;
        }
        if let Some(slot) = self.item(key).slot.take() {
            self.garage.give(slot);
        }
        let item = self.item(key);
        (item.pinned, item.written) = (Some(start), true);
        self.resize();
        self.show(key)
    }

    /// Unpins a tensor: its content goes to the garage.
    fn unpin(&mut self, key: Key) -> Result<(), RuntimeError> {
        let item = self.item(key);
        (item.device, item.pinned) = (item.pinned, None);
        let saved = self.save(key);
        let item = self.item(key);
        match saved {
            Ok(()) => {
                item.device = None;
                self.hide(key);
            }
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

/// What a pinned tensor takes of the arena.
const fn pinned_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(limits::TENSOR_ALIGN)
}
