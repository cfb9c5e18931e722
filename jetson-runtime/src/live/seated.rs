//! Seated: tensors of the heap that have seats.

use std::sync::Arc;

use super::heap::Heap;
use super::score::Spec;
use super::seats::Seat;
use super::tensor::Key;
use crate::arena::Arena;
use crate::cuda::CudaError;
use crate::error::RuntimeError;
use crate::scale::system_page;

impl Heap {
    /// Gives a tensor an address for life.
    pub(super) fn reserve_seat(&mut self, key: Key, spec: &Spec) -> Result<(), RuntimeError> {
        if !self.ground().on_host() {
            return Err(CudaError::Refused {
                choice: "an address for life",
                reason: "a tensor of a GPU has another one in each op; ask the op".into(),
            }
            .into());
        }
        self.take_whole_pages()?;
        self.seats.insert(key, Arc::new(Seat::new(spec)?));
        Ok(())
    }

    /// Blocks are whole pages from now on: there are seats, or will be when a program is left.
    pub(super) fn take_whole_pages(&mut self) -> Result<(), RuntimeError> {
        if self.space.align() != system_page() {
            self.clear_arena()?;
            self.space.align_to(system_page());
        }
        Ok(())
    }

    /// Shows a tensor that has just come into the arena at its seat, if it has one.
    pub(super) fn show(&self, key: Key) -> Result<(), RuntimeError> {
        let item = &self.items[&key];
        match (self.seats.get(key), item.at()) {
            (Some(seat), Some(at)) => seat.show(self.seats_arena(), [(at, item.bytes)]),
            _ => Ok(()),
        }
    }

    /// What seats show.
    fn seats_arena(&self) -> &Arena {
        let arena = self.ground().arena();
        arena.expect("there are no seats elsewhere")
    }

    /// Shows nothing at a tensor's seat.
    pub(super) fn hide(&self, key: Key) {
        if let Some(seat) = self.seats.get(key) {
            seat.hide();
        }
    }
}
