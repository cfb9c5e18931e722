//! Making one copy. Adaptors stack on a copier: `fault` fails it, `throttle` slows it down.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use vtensor::{PieceRun, TensorId};

use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::spill::{Port, Tier};
use crate::storage::{BlockCopy, TransferError};

/// A copy, in executed sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) direction: Direction,
    pub(crate) tensor: TensorId,
    pub(crate) pieces: PieceRun,
    /// The first byte on the device, in a window that outlives the engines.
    pub(crate) device: NonNull<u8>,
    /// The first byte in the spill tier.
    pub(crate) slot: u64,
    pub(crate) bytes: usize,
    /// The bytes of the plan, which the model of the link counts in.
    pub(crate) planned_bytes: u64,
}

impl Transfer {
    /// A copy that no plan made.
    pub(crate) const fn unplanned(
        direction: Direction,
        device: NonNull<u8>,
        slot: u64,
        bytes: usize,
    ) -> Self {
        Self {
            direction,
            tensor: TensorId(0),
            pieces: PieceRun { first: 0, count: 0 },
            device,
            slot,
            bytes,
            planned_bytes: bytes as u64,
        }
    }
}

// SAFETY: a transfer is an address range; who may touch it when is the verified plan's matter.
unsafe impl Send for Transfer {}
// SAFETY: a shared transfer is only read.
unsafe impl Sync for Transfer {}

/// Makes copies, one after the other. Each engine has its own.
pub(crate) trait Copier: Send {
    /// Copies; when it returns, the bytes are in place and the source may be overwritten.
    /// `ready` is the moment at which an engine that had to wait saw that it may start; `None`
    /// if it did not have to wait.
    ///
    /// # Safety
    /// The range and the slot lie in live windows and tier, nobody writes the source and nobody
    /// touches the target meanwhile. The engine upholds it by the rules E2 and E3, which the
    /// verified plan makes sufficient.
    unsafe fn copy(
        &mut self,
        transfer: &Transfer,
        ready: Option<Instant>,
    ) -> Result<(), TransferError>;

    /// Lets a copy that may start begin while those before it are made. Answers whether it was
    /// taken on; one that was not is none the worse.
    ///
    /// # Safety
    /// As for the copy itself, from now on until it was made, or one before it has failed, or the
    /// copier is gone. The copies that follow are the announced ones, in this order.
    unsafe fn announce(&mut self, _: &Transfer) -> bool {
        false
    }
}

impl<C: Copier + ?Sized> Copier for Box<C> {
    unsafe fn copy(
        &mut self,
        transfer: &Transfer,
        ready: Option<Instant>,
    ) -> Result<(), TransferError> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { (**self).copy(transfer, ready) }
    }

    unsafe fn announce(&mut self, transfer: &Transfer) -> bool {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { (**self).announce(transfer) }
    }
}

/// The real thing: between the arena's windows and the spill tier.
pub(crate) struct TierCopier {
    port: Port,
}

impl TierCopier {
    /// # Errors
    /// If the machine refuses memory or files.
    pub(crate) fn new(tier: &Arc<Tier>) -> Result<Self, RuntimeError> {
        let port = Port::new(tier)?;
        Ok(Self { port })
    }
}

impl Copier for TierCopier {
    unsafe fn copy(
        &mut self,
        transfer: &Transfer,
        _: Option<Instant>,
    ) -> Result<(), TransferError> {
        let Transfer {
            device,
            slot,
            bytes,
            ..
        } = *transfer;
        match transfer.direction {
            // SAFETY: the caller vouches for the source and the slot.
            Direction::Out => unsafe { self.port.write(slot, device, bytes) },
            // SAFETY: the caller vouches for the target and the slot.
            Direction::In => unsafe { self.port.read(slot, device, bytes) },
        }
    }
    unsafe fn announce(&mut self, transfer: &Transfer) -> bool {
        let copy = BlockCopy {
            write: transfer.direction == Direction::Out,
            slot: transfer.slot,
            memory: transfer.device,
            bytes: transfer.bytes,
        };
        // SAFETY: the caller's promise is passed on.
        unsafe { self.port.announce(copy) }
    }
}
