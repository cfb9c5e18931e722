//! Contents of tensors on the heap: read and written where they are, brought and taken away.
//!
//! Guarantees: reading moves nothing; a write goes to every live copy; a tensor that was never
//! written reads as zeroes; one whose content was lost is an error until all of it is written.

use std::ptr::{self, NonNull};

use super::heap::{Heap, spilling};
use super::tensor::Key;
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::scale::to_usize;

/// Zeroes are written in parts of this size.
const ZEROES_BYTES: u64 = 1 << 20;

impl Heap {
    /// Copies bytes of a tensor to `buffer`, wherever they are. Moves nothing.
    pub(super) fn read(
        &self,
        key: Key,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let item = &self.items[&key];
        item.check_kept()?;
        match (item.at(), item.slot) {
            _ if !item.written => buffer.fill(0),
            (Some(device), _) => {
                let source = self.address(device + offset, buffer.len() as u64);
                // SAFETY: the range lies in the arena's view; no op runs: this borrows the heap.
                unsafe {
                    ptr::copy_nonoverlapping(source.as_ptr(), buffer.as_mut_ptr(), buffer.len())
                };
            }
            (None, Some(slot)) => {
                let (target, bytes) = (NonNull::from(&mut *buffer).cast(), buffer.len());
                // SAFETY: the target is a borrowed buffer; slots change under `&mut self` only.
                unsafe { self.garage.tier().read(slot + offset, target, bytes) }
                    .map_err(spilling(item, Direction::In))?;
            }
            (None, None) => unreachable!("a written content is somewhere"),
        }
        Ok(())
    }

    /// Copies `buffer` to bytes of a tensor, wherever they are. Lost content is not found again by
    /// writing less than all of it.
    pub(super) fn write(
        &mut self,
        key: Key,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), RuntimeError> {
        let bytes = buffer.len();
        let item = &self.items[&key];
        let (whole, padded) = (bytes as u64 == item.asked, item.asked < item.bytes);
        if !whole {
            item.check_kept()?;
        }
        self.settle(key, padded || !whole)?;
        let item = &self.items[&key];
        if let Some(device) = item.at() {
            let target = self.address(device + offset, bytes as u64);
            // SAFETY: the range lies in the arena's view, and no op runs: this borrows the heap.
            unsafe { ptr::copy_nonoverlapping(buffer.as_ptr(), target.as_ptr(), bytes) };
        }
        if let Some(slot) = item.slot {
            let source = NonNull::from(buffer).cast();
            // SAFETY: the source is a borrowed buffer; slots change under `&mut self` only.
            let written = unsafe { self.garage.tier().write(slot + offset, source, bytes) };
            if let Err(errno) = written {
                let error = spilling(item, Direction::Out)(errno);
                // It may be half old and half new.
                self.item(key).lost = true;
                return Err(error);
            }
        }
        let item = self.item(key);
        (item.written, item.lost) = (true, false);
        Ok(())
    }

    /// Makes sure that a tensor is somewhere, and, if it was never written and will be written in
    /// part, that the rest is zeroes.
    fn settle(&mut self, key: Key, zeroed: bool) -> Result<(), RuntimeError> {
        let item = &self.items[&key];
        if item.at().is_some() || item.slot.is_some() {
            return Ok(());
        }
        let bytes = item.bytes;
        let slot = self.garage.take(bytes)?;
        self.item(key).slot = Some(slot);
        if zeroed {
            let zeroes = vec![0; to_usize(bytes.min(ZEROES_BYTES))];
            let mut done = 0;
            while done < bytes {
                let part = &zeroes[..to_usize((bytes - done).min(ZEROES_BYTES))];
                let source = NonNull::from(part).cast();
                // SAFETY: the source is a local buffer; slots change under `&mut self` only.
                unsafe { self.garage.tier().write(slot + done, source, part.len()) }
                    .map_err(spilling(&self.items[&key], Direction::Out))?;
                done += part.len() as u64;
            }
        }
        Ok(())
    }

    /// Puts a content into the garage that `fill` brings, part by part; over the link.
    pub(super) fn deposit(
        &mut self,
        key: Key,
        buffer: &mut [u8],
        mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let bytes = self.items[&key].bytes;
        let slot = self.garage.take(bytes)?;
        let mut done = 0;
        while done < bytes {
            let part = to_usize((bytes - done).min(buffer.len() as u64));
            let copied = fill(done, &mut buffer[..part]).and_then(|()| {
                let source = NonNull::from(&mut buffer[..part]).cast();
                self.copy(key, Direction::Out, source, slot + done, part)
            });
            copied.inspect_err(|_| self.garage.give(slot))?;
            done += part as u64;
        }
        let item = self.item(key);
        (item.slot, item.written) = (Some(slot), true);
        Ok(())
    }

    /// Copies bytes of a content that is in the garage to `buffer`; over the link.
    pub(super) fn withdraw(
        &mut self,
        key: Key,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        match self.items[&key].slot {
            Some(slot) => {
                let (target, bytes) = (NonNull::from(&mut *buffer).cast(), buffer.len());
                self.copy(key, Direction::In, target, slot + offset, bytes)
            }
            None => self.read(key, offset, buffer),
        }
    }
}
