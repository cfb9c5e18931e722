//! Contents of tensors on the heap: read and written where they are, brought and taken away.
//!
//! Guarantees: reading moves nothing; a write leaves no stale copy; a tensor that was never written
//! reads as zeroes; bytes that were lost are an error until they are written, and no others are.

use std::ptr::{self, NonNull};

use nix::errno::Errno;

use vtensor::limits;

use super::heap::{Heap, spilling};
use super::losses::Loss;
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
        item.check_range(offset, offset + buffer.len() as u64)?;
        if buffer.is_empty() {
            return Ok(());
        }
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

    /// Copies `buffer` to bytes of a tensor, wherever they are. What was lost of them is whole
    /// again.
    pub(super) fn write(
        &mut self,
        key: Key,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), RuntimeError> {
        let bytes = buffer.len();
        if bytes == 0 {
            return Ok(());
        }
        let item = &self.items[&key];
        let (whole, padded) = (bytes as u64 == item.asked, item.asked < item.bytes);
        self.settle(key, padded || !whole)?;
        let item = &self.items[&key];
        match (item.at(), item.slot) {
            (Some(device), slot) => {
                let target = self.address(device + offset, bytes as u64);
                // SAFETY: the range lies in the arena's view, and no op runs.
                unsafe { ptr::copy_nonoverlapping(buffer.as_ptr(), target.as_ptr(), bytes) };
                // Writing the copy, too, could fail; it is made again when the tensor leaves.
                if let Some(slot) = slot {
                    self.garage.give(slot);
                    self.item(key).slot = None;
                }
            }
            (None, Some(slot)) => self.write_slot(key, slot, offset, buffer)?,
            (None, None) => unreachable!("it has settled"),
        }
        let item = self.item(key);
        item.written = true;
        item.losses.heal(offset, offset + bytes as u64);
        Ok(())
    }

    /// Writes bytes of a tensor that is in the garage alone. If that fails, blocks of the tier that
    /// it has touched may be old in part, new in part: they are lost.
    fn write_slot(
        &mut self,
        key: Key,
        slot: u64,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), RuntimeError> {
        let (source, bytes) = (NonNull::from(buffer).cast(), buffer.len());
        // SAFETY: the source is a borrowed buffer; slots change under `&mut self` only.
        let written = unsafe { self.garage.tier().write(slot + offset, source, bytes) };
        written.map_err(|errno| {
            let error = spilling(&self.items[&key], Direction::Out)(errno);
            self.lose_blocks(key, offset, offset + bytes as u64);
            error
        })
    }

    /// Bytes of a tensor are gone, with all blocks of the spill tier that they touch.
    pub(super) fn lose_blocks(&mut self, key: Key, start: u64, end: u64) {
        let item = self.item(key);
        let start = start / limits::SLOT_ALIGN * limits::SLOT_ALIGN;
        let end = end.next_multiple_of(limits::SLOT_ALIGN).min(item.asked);
        item.written = true;
        item.losses.add(start, end, Loss::Lost);
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
        if zeroed && let Err(errno) = self.zero(slot, bytes) {
            self.garage.give(slot);
            return Err(spilling(&self.items[&key], Direction::Out)(errno));
        }
        self.item(key).slot = Some(slot);
        Ok(())
    }

    /// Fills a slot with zeroes.
    fn zero(&self, slot: u64, bytes: u64) -> Result<(), Errno> {
        let zeroes = vec![0; to_usize(bytes.min(ZEROES_BYTES))];
        let mut done = 0;
        while done < bytes {
            let part = &zeroes[..to_usize((bytes - done).min(ZEROES_BYTES))];
            let source = NonNull::from(part).cast();
            // SAFETY: the source is a local buffer; the slot was just taken, nobody else knows it.
            unsafe { self.garage.tier().write(slot + done, source, part.len()) }?;
            done += part.len() as u64;
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

    /// Puts what is left of a content into the garage: the ranges `kept`, in order, which `fill`
    /// brings, part by part. The rest is lost, and so are parts that cannot be brought or stored.
    pub(super) fn salvage(
        &mut self,
        key: Key,
        buffer: &mut [u8],
        kept: impl Iterator<Item = (u64, u64)>,
        mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) {
        self.lose(key, Loss::Lost);
        let Ok(slot) = self.garage.take(self.items[&key].bytes) else {
            return;
        };
        for (start, end) in kept {
            let mut done = start;
            while done < end {
                let bytes = to_usize((end - done).min(buffer.len() as u64));
                let part = &mut buffer[..bytes];
                let source = NonNull::from(&mut *part).cast();
                let copied = fill(done, part).and_then(|()| match done % limits::SLOT_ALIGN {
                    0 => self.copy(key, Direction::Out, source, slot + done, bytes),
                    // Engines write whole blocks; the beginning of this one may be there already.
                    // SAFETY: the source is a borrowed buffer; slots change under `&mut self` only.
                    _ => unsafe { self.garage.tier().write(slot + done, source, bytes) }
                        .map_err(spilling(&self.items[&key], Direction::Out)),
                });
                if copied.is_ok() {
                    self.item(key).losses.heal(done, done + bytes as u64);
                }
                done += bytes as u64;
            }
        }
        let item = self.item(key);
        if item.losses.is_all_of(item.asked) {
            self.garage.give(slot);
        } else {
            item.slot = Some(slot);
        }
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
