//! The heap: whole tensors in the arena, on demand. It keeps the budget while nothing is planned.
//!
//! In: the tensors that an op uses. Out: where they are. What is missing comes in; for room, the
//! least recently used tensors leave; what is free but scattered is moved together. So an op runs
//! whenever its tensors fit into the budget at all.
//!
//! Guarantees: bytes that were written are in the arena, in the garage, or marked as lost; a copy
//! that fails loses nothing that was there. *Not here*: pieces, prefetching, plans.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use vtensor::{Bytes, Kinds, Mode, limits};

use super::garage::Garage;
use super::losses::{Loss, Losses};
use super::score::Spec;
use super::seats::Seats;
use super::space::Space;
use super::tensor::Key;
use crate::copier::{Copier, Transfer};
use crate::error::RuntimeError;
use crate::failure::{Direction, short_name};
use crate::ground::Ground;
use crate::scale::to_usize;
use crate::stats::elapsed_ns;
use crate::storage::TransferError;

/// An arena without a budget claims memory in steps of this size.
pub(super) const CLAIM_BYTES: u64 = 1 << 20;

/// A tensor on the heap.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: Arc<str>,
    /// What it takes.
    pub(super) bytes: u64,
    /// What the application asked for: no more, and what is beyond means nothing.
    pub(super) asked: u64,
    /// Where it is in the arena.
    pub(super) device: Option<u64>,
    /// Where it is in the arena for good; then it is nowhere else.
    pub(super) pinned: Option<u64>,
    /// Where its present content is in the garage.
    pub(super) slot: Option<u64>,
    /// Whether it has a content; before, it reads as zeroes.
    pub(super) written: bool,
    /// What of that cannot be used.
    pub(super) losses: Losses,
    /// Whether its place is to be in the arena for good.
    pub(super) keep: bool,
    /// When an op last used it.
    used: u64,
}

impl Item {
    fn new(spec: &Spec, keep: Kinds) -> Self {
        Self {
            name: Arc::clone(&spec.name),
            bytes: spec.taken(),
            asked: spec.bytes,
            device: None,
            pinned: None,
            slot: None,
            written: false,
            losses: Losses::none(),
            keep: keep.contains(spec.kind),
            used: 0,
        }
    }

    /// Refuses a content of which anything was lost.
    pub(super) fn check_kept(&self) -> Result<(), RuntimeError> {
        self.check_range(0, self.asked)
    }

    /// Refuses bytes `start .. end` if any of them was lost.
    pub(super) fn check_range(&self, start: u64, end: u64) -> Result<(), RuntimeError> {
        match self.losses.within(start, end) {
            Some(lost) => Err(RuntimeError::LostContent {
                name: short_name(&self.name),
                lost,
            }),
            None => Ok(()),
        }
    }

    /// Whether any of its content is somewhere.
    fn has_content(&self) -> bool {
        self.written && !self.losses.is_all_of(self.asked)
    }

    /// Where it is in the arena.
    pub(super) fn at(&self) -> Option<u64> {
        self.pinned.or(self.device)
    }
}

/// What the heap has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// Bytes by direction.
    pub(super) bytes: [u64; 2],
    /// Time spent on copies, in nanoseconds.
    pub(super) ns: u64,
}

/// Memory on demand.
pub(super) struct Heap {
    /// The arena.
    ground: Arc<dyn Ground>,
    pub(super) space: Space,
    /// How far the arena is known to be claimed.
    claimed: u64,
    pub(super) garage: Garage,
    copier: Box<dyn Copier>,
    keep: Kinds,
    /// Addresses of tensors that keep theirs.
    pub(super) seats: Seats,
    pub(super) items: BTreeMap<Key, Item>,
    clock: u64,
    pub(super) moved: Moved,
}

impl Heap {
    /// A heap on an arena, `claimed` bytes of which hold memory. Tensors of the kinds `keep` leave
    /// the arena last.
    pub(super) fn new(
        ground: &Arc<dyn Ground>,
        claimed: u64,
        garage: Garage,
        copier: Box<dyn Copier>,
        keep: Kinds,
    ) -> Self {
        Self {
            ground: Arc::clone(ground),
            space: Space::new(ground.bytes(), limits::TENSOR_ALIGN),
            claimed,
            garage,
            copier,
            keep,
            seats: Seats::default(),
            items: BTreeMap::new(),
            clock: 0,
            moved: Moved::default(),
        }
    }

    /// Takes a tensor in that has no content yet.
    pub(super) fn admit(&mut self, key: Key, spec: &Spec) {
        self.items.insert(key, Item::new(spec, self.keep));
    }

    /// Brings what an op uses into the arena. Each tensor is named once.
    pub(super) fn acquire(
        &mut self,
        op: &str,
        accesses: &[(Key, Mode)],
    ) -> Result<(), RuntimeError> {
        self.clock += 1;
        let mut needed = 0_u64;
        for (key, mode) in accesses {
            let item = self.items.get_mut(key).expect("the registry knows it");
            if mode.reads() {
                item.check_kept()?;
            }
            item.used = self.clock;
            if item.pinned.is_some() {
                continue;
            }
            needed = needed.saturating_add(self.space.taken_by(item.bytes));
        }
        self.check_room(op, Bytes(needed))?;
        let mut blank = Vec::new();
        for &(key, mode) in accesses {
            if self.items[&key].at().is_some() {
                continue;
            }
            if let Err(error) = self.bring(key, mode) {
                // What they hold in the garage still counts: the op has not begun.
                blank.into_iter().for_each(|key| self.drop_block(key));
                return Err(error);
            }
            if !mode.reads() {
                blank.push(key);
            }
        }
        Ok(())
    }

    /// Refuses an op whose tensors take more than there is.
    pub(super) fn check_room(&self, op: &str, needed: Bytes) -> Result<(), RuntimeError> {
        let budget = Bytes(self.space.size());
        match needed <= budget {
            true => Ok(()),
            false => Err(RuntimeError::OpTooLarge {
                op: short_name(op),
                needed,
                budget,
            }),
        }
    }

    /// Gives a tensor a block, with its content if an op reads it.
    fn bring(&mut self, key: Key, mode: Mode) -> Result<(), RuntimeError> {
        let offset = self.room(self.items[&key].bytes)?;
        self.item(key).device = Some(offset);
        let loaded = match mode.reads() {
            true => self.load(key),
            false => Ok(()),
        };
        let shown = loaded.and_then(|()| self.show(key));
        shown.inspect_err(|_| self.drop_block(key))
    }

    /// An op has written tensors: their copies in the garage are stale.
    pub(super) fn note_writes(&mut self, accesses: &[(Key, Mode)]) {
        for (key, _) in accesses.iter().filter(|(_, mode)| mode.writes()) {
            let item = self.items.get_mut(key).expect("the registry knows it");
            item.written = true;
            item.losses = Losses::none();
            if let Some(slot) = item.slot.take() {
                self.garage.give(slot);
            }
        }
    }

    /// An op was given up while it wrote: what it was writing is neither old nor new.
    pub(super) fn note_torn(&mut self, accesses: &[(Key, Mode)]) {
        self.note_writes(accesses);
        for (key, _) in accesses.iter().filter(|(_, mode)| mode.writes()) {
            self.drop_block(*key);
            self.lose(*key, Loss::Torn);
        }
    }

    /// The address of a tensor that was acquired, as the application sees it.
    pub(super) fn pointer(&self, key: Key) -> NonNull<u8> {
        match self.seats.get(key) {
            Some(seat) => seat.pointer(),
            None => self.inside(key),
        }
    }

    /// Where a tensor is in the arena's view.
    fn inside(&self, key: Key) -> NonNull<u8> {
        let item = &self.items[&key];
        self.address(item.at().expect("an acquired tensor is there"), item.bytes)
    }

    pub(super) fn ground(&self) -> &Arc<dyn Ground> {
        &self.ground
    }

    pub(super) fn item(&mut self, key: Key) -> &mut Item {
        self.items.get_mut(&key).expect("the registry knows it")
    }

    /// The size of the arena.
    pub(super) fn arena_bytes(&self) -> u64 {
        self.ground.bytes()
    }

    /// Claims a range of an arena without a budget.
    pub(super) fn claim_range(&self, start: u64, end: u64) -> Result<(), RuntimeError> {
        self.ground.claim(start, end)
    }

    /// Whether a tensor has a content, be it lost.
    pub(super) fn is_written(&self, key: Key) -> bool {
        self.items[&key].written
    }

    /// Forgets a tensor and all that it has.
    pub(super) fn forget(&mut self, key: Key) {
        if self.items.contains_key(&key) {
            self.drop_block(key);
            if let Some(slot) = self.item(key).slot {
                self.garage.give(slot);
            }
            self.items.remove(&key);
        }
        if key.is_transient() {
            self.seats.remove(key);
        }
    }

    /// Renames a tensor.
    pub(super) fn rename(&mut self, from: Key, to: Key) {
        if let Some(item) = self.items.remove(&from) {
            self.items.insert(to, item);
        }
        if let Some(seat) = self.seats.remove(from) {
            self.seats.insert(to, seat);
        }
    }

    /// Empties the arena: every content goes to the garage.
    pub(super) fn clear_arena(&mut self) -> Result<(), RuntimeError> {
        self.clear_arena_but(None)
    }

    /// Empties the arena, but for one tensor.
    pub(super) fn clear_arena_but(&mut self, stays: Option<Key>) -> Result<(), RuntimeError> {
        let there = self.there().map(|(key, _)| key);
        let leave: Vec<Key> = there.filter(|key| Some(*key) != stays).collect();
        leave.into_iter().try_for_each(|key| self.evict(key))
    }

    /// Gives memory of an arena without a budget back: a program claims what it needs.
    pub(super) fn release_arena(&mut self) -> Result<(), RuntimeError> {
        self.claimed = 0;
        self.ground
            .release(0, self.space.size() / CLAIM_BYTES * CLAIM_BYTES)
    }

    /// Finds room for a block of the arena.
    fn room(&mut self, bytes: u64) -> Result<u64, RuntimeError> {
        loop {
            if let Some(start) = self.space.take(bytes) {
                self.claim(start + bytes)
                    .inspect_err(|_| self.space.give(start))?;
                return Ok(start);
            }
            let idle = self.there().filter(|(_, item)| item.used < self.clock);
            let oldest = idle.min_by_key(|(_, item)| (item.keep, item.used));
            let oldest = oldest.map(|(key, _)| key);
            match oldest {
                Some(key) if self.space.free_bytes() < self.space.taken_by(bytes) => {
                    self.evict(key)?;
                }
                _ => self.move_together()?,
            }
        }
    }

    fn claim(&mut self, end: u64) -> Result<(), RuntimeError> {
        if end > self.claimed {
            let end = end.next_multiple_of(CLAIM_BYTES).min(self.ground.bytes());
            self.ground.claim(self.claimed, end)?;
            self.claimed = end;
        }
        Ok(())
    }

    /// Tensors in the arena.
    fn there(&self) -> impl Iterator<Item = (Key, &Item)> {
        let all = self.items.iter().map(|(&key, item)| (key, item));
        all.filter(|(_, item)| item.device.is_some())
    }

    /// A tensor leaves the arena.
    fn evict(&mut self, key: Key) -> Result<(), RuntimeError> {
        self.save(key)?;
        self.drop_block(key);
        Ok(())
    }

    /// Copies a content out that is nowhere else.
    pub(super) fn save(&mut self, key: Key) -> Result<(), RuntimeError> {
        let item = &self.items[&key];
        if item.has_content() && item.slot.is_none() {
            let bytes = item.bytes;
            let slot = self.garage.take(bytes)?;
            let source = self.inside(key);
            self.copy(key, Direction::Out, source, slot, to_usize(bytes))
                .inspect_err(|_| self.garage.give(slot))?;
            self.item(key).slot = Some(slot);
        }
        Ok(())
    }

    pub(super) fn drop_block(&mut self, key: Key) {
        if let Some(device) = self.item(key).device.take() {
            self.space.give(device);
            self.hide(key);
        }
    }

    /// Fills a block that a tensor has just got.
    pub(super) fn load(&mut self, key: Key) -> Result<(), RuntimeError> {
        let target = self.inside(key);
        let item = &self.items[&key];
        let bytes = to_usize(item.bytes);
        match item.slot {
            Some(slot) => self.copy(key, Direction::In, target, slot, bytes),
            None => {
                assert!(!item.written, "a written content is somewhere");
                // SAFETY: the block is this tensor's own.
                unsafe { self.ground.zero(target, bytes) }
            }
        }
    }

    /// Moves all blocks to the low end of the arena.
    fn move_together(&mut self) -> Result<(), RuntimeError> {
        let mut blocks: Vec<(u64, Key)> = self
            .there()
            .filter_map(|(key, item)| item.device.map(|device| (device, key)))
            .collect();
        blocks.sort_unstable();
        self.space.clear();
        let mut moved = Ok(());
        for (from, key) in blocks {
            let bytes = self.items[&key].bytes;
            let to = self.space.take(bytes).expect("they all fitted before");
            assert!(to <= from, "blocks move down, in order");
            let [source, target] = [from, to].map(|offset| self.address(offset, bytes));
            // SAFETY: both ranges lie in the arena; no pointer of an op is out, for this happens
            // before an op begins.
            let shifted = unsafe { self.ground.shift(source, target, to_usize(bytes)) };
            self.item(key).device = Some(to);
            if shifted.is_err() {
                self.lose(key, Loss::Lost);
            }
            moved = moved.and(shifted);
        }
        moved?;
        let there: Vec<Key> = self.there().map(|(key, _)| key).collect();
        there.into_iter().try_for_each(|key| self.show(key))
    }

    /// A tensor's content is gone.
    pub(super) fn lose(&mut self, key: Key, loss: Loss) {
        let item = self.item(key);
        item.written = true;
        item.losses = Losses::all(item.asked, loss);
    }

    pub(super) fn address(&self, offset: u64, bytes: u64) -> NonNull<u8> {
        self.ground.address(offset, to_usize(bytes))
    }

    /// Makes one copy over the link.
    pub(super) fn copy(
        &mut self,
        key: Key,
        direction: Direction,
        device: NonNull<u8>,
        slot: u64,
        bytes: usize,
    ) -> Result<(), RuntimeError> {
        let start = Instant::now();
        let transfer = Transfer::unplanned(direction, device, slot, bytes);
        // SAFETY: `device` is a block of the arena or a borrowed buffer, as long as `bytes`; the
        // slot was taken for the tensor. Nobody else has either while the heap is borrowed.
        let copied = unsafe { self.copier.copy(&transfer, None) };
        copied.map_err(|error| match direction {
            Direction::In => {
                let all = to_usize(self.items[&key].asked);
                self.unreadable(key, 0, all, error)
            }
            Direction::Out => spilling(&self.items[&key], direction)(error),
        })?;
        self.moved.bytes[direction.index()] += bytes as u64;
        self.moved.ns = self.moved.ns.saturating_add(elapsed_ns(start));
        Ok(())
    }
}

/// A copy of the heap that failed.
pub(super) fn spilling(
    item: &Item,
    direction: Direction,
) -> impl Fn(TransferError) -> RuntimeError {
    let (name, bytes) = (short_name(&item.name), Bytes(item.bytes));
    move |error| RuntimeError::Spilling {
        direction,
        name: name.clone(),
        bytes,
        errno: error.errno,
    }
}
