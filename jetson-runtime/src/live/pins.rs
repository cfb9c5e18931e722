//! Pins: places at the high end of the arena, for tensors that stay where they are.
//!
//! Guarantees: pins do not overlap, and the heap has the arena below the lowest one. *Not here*:
//! programs that were planned for more of the arena (see `keeping`).

use vtensor::{Bytes, limits};

use super::heap::Heap;
use super::tensor::Key;
use crate::error::RuntimeError;
use crate::failure::short_name;
use crate::scale::{system_page, to_usize};

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
    pub(super) fn pin(&mut self, key: Key) -> Result<(), RuntimeError> {
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
            // SAFETY: both ranges lie in the arena, where no other tensor has a block and no pin
            // is; no op is open.
            unsafe { self.ground().shift(source, target, to_usize(bytes)) }?;
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
    pub(super) fn unpin(&mut self, key: Key) -> Result<(), RuntimeError> {
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

    /// Unpins a tensor that is destroyed: its content is gone.
    pub(super) fn discard_pin(&mut self, key: Key) {
        self.item(key).pinned = None;
        self.resize();
    }

    /// What is below the pins is the heap's.
    fn resize(&mut self) {
        let lowest = self.pins().last().map(|(start, _)| *start);
        self.space.resize(lowest.unwrap_or(self.arena_bytes()));
    }
}

/// What a pinned tensor takes of the arena.
const fn pinned_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(limits::TENSOR_ALIGN)
}
