//! Keeping: persistent tensors that stay in the arena, at one address.
//!
//! Guarantees: the address of a tensor that is kept does not change until it is released, whatever
//! runs. What it takes is taken from the budget of everything else: the heap and every program have
//! the arena below the lowest pin, so programs that were planned for more are given up.

use super::holdings::Holdings;
use super::tensor::Key;
use crate::error::RuntimeError;

impl Holdings {
    /// Gives a tensor its place for life.
    pub(super) fn settle(&mut self, key: Key) -> Result<(), RuntimeError> {
        if !self.heap.is_pinned(key) {
            self.withdraw_programs()?;
            self.heap.clear_arena_but(Some(key))?;
            self.heap.pin(key)?;
        }
        Ok(())
    }

    /// Lets a tensor move again that is pinned, and not of a kind that is kept.
    pub(super) fn release(&mut self, key: Key) -> Result<(), RuntimeError> {
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
            self.heap.discard_pin(key);
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
