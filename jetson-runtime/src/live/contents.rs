//! Contents of tensors on the heap: read and written where they are, brought and taken away.
//!
//! Guarantees: reading moves nothing; a write leaves no stale copy; a tensor that was never written
//! reads as zeroes; bytes that were lost are an error until they are written, and no others are.

use std::ptr::NonNull;

use nix::errno::Errno;

use vtensor::limits;

use super::heap::{Heap, spilling};
use super::losses::Loss;
use super::tensor::Key;
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::private::PrivateBuffer;
use crate::scale::to_usize;
use crate::storage::TransferError;

/// What the spill tier says of a block that does not hold what was written.
pub(super) const DAMAGED: Errno = Errno::EBADMSG;
/// Zeroes are written in parts of this size.
const ZEROES_BYTES: u64 = 1 << 20;

impl Heap {
    /// Copies bytes of a tensor to `buffer`, wherever they are. Moves nothing.
    pub(super) fn read(
        &mut self,
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
                // SAFETY: the range lies in the arena; no op runs: this borrows the heap.
                unsafe { self.ground().load(source, buffer) }?;
            }
            (None, Some(slot)) => {
                let (target, bytes) = (NonNull::from(&mut *buffer).cast(), buffer.len());
                // SAFETY: the target is a borrowed buffer; slots change under `&mut self` only.
                unsafe { self.garage.tier().read(slot + offset, target, bytes) }
                    .map_err(|error| self.unreadable(key, offset, bytes, error))?;
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
                // SAFETY: the range lies in the arena, and no op runs.
                unsafe { self.ground().store(target, buffer) }?;
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
        written.map_err(|error| {
            let error = spilling(&self.items[&key], Direction::Out)(error);
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
        if zeroed && let Err(error) = self.zero(slot, bytes) {
            self.garage.give(slot);
            return Err(spilling(&self.items[&key], Direction::Out)(error));
        }
        self.item(key).slot = Some(slot);
        Ok(())
    }

    /// Fills a slot with zeroes.
    fn zero(&self, slot: u64, bytes: u64) -> Result<(), TransferError> {
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

    /// The error of bytes of a slot that cannot be read. Blocks that do not hold what was written
    /// are lost.
    pub(super) fn unreadable(
        &mut self,
        key: Key,
        offset: u64,
        bytes: usize,
        error: TransferError,
    ) -> RuntimeError {
        if error.errno == DAMAGED {
            self.find_damage(key);
            let lost = self.items[&key].check_range(offset, offset + bytes as u64);
            if let Err(error) = lost {
                return error;
            }
        }
        spilling(&self.items[&key], Direction::In)(error)
    }

    /// Looks for blocks of a slot that do not hold what was written.
    fn find_damage(&mut self, key: Key) {
        let item = &self.items[&key];
        let (slot, bytes) = (item.slot, item.bytes);
        let Some(slot) = slot else {
            return;
        };
        let Ok(mut block) = PrivateBuffer::new(to_usize(limits::SLOT_ALIGN)) else {
            return;
        };
        for at in (0..bytes).step_by(block.len()) {
            let length = to_usize(limits::SLOT_ALIGN.min(bytes - at));
            let target = NonNull::from(&mut block[..length]).cast();
            let tier = self.garage.tier();
            // SAFETY: the target is a local buffer; slots change under `&mut self` only.
            let read = unsafe { tier.read(slot + at, target, length) };
            if read.is_err_and(|error| error.errno == DAMAGED) {
                // A part of it may be written again: then there is nothing else to be kept. If its
                // space cannot be taken back, that write says so.
                let _ = tier
                    .release(slot + at, limits::SLOT_ALIGN)
                    .and_then(|()| tier.claim(slot + at, limits::SLOT_ALIGN));
                self.lose_blocks(key, at, at + length as u64);
            }
        }
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
            // Parts to come, the first one last.
            let mut parts = vec![(start, end)];
            while let Some((start, end)) = parts.pop() {
                let size = end - start;
                if size > buffer.len() as u64 {
                    let cut = start + buffer.len() as u64;
                    parts.extend([(cut, end), (start, cut)]);
                    continue;
                }
                let part = &mut buffer[..to_usize(size)];
                let copied = fill(start, part);
                match copied.and_then(|()| self.store(key, slot, start, part)) {
                    Ok(()) => self.item(key).losses.heal(start, end),
                    // Some blocks of it are damaged: the others are not.
                    Err(RuntimeError::Tier { errno: DAMAGED, .. }) if size > limits::SLOT_ALIGN => {
                        let cut = (start + size / 2)
                            .next_multiple_of(limits::SLOT_ALIGN)
                            .min(end);
                        let cut = if cut == end {
                            start + limits::SLOT_ALIGN
                        } else {
                            cut
                        };
                        parts.extend([(cut, end), (start, cut)]);
                    }
                    Err(_) => {}
                }
            }
        }
        let item = self.item(key);
        if item.losses.is_all_of(item.asked) {
            self.garage.give(slot);
        } else {
            item.slot = Some(slot);
        }
    }

    /// Copies bytes of a content to the slot that it is to have.
    fn store(
        &mut self,
        key: Key,
        slot: u64,
        offset: u64,
        part: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let (source, bytes) = (NonNull::from(&mut *part).cast(), part.len());
        match offset % limits::SLOT_ALIGN {
            0 => self.copy(key, Direction::Out, source, slot + offset, bytes),
            // Engines write whole blocks; the beginning of this one may be there already.
            // SAFETY: the source is a borrowed buffer; slots change under `&mut self` only.
            _ => unsafe { self.garage.tier().write(slot + offset, source, bytes) }
                .map_err(spilling(&self.items[&key], Direction::Out)),
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
