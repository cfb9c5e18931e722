//! Where explicit copies go: pinned memory of the host, or a file, to which engines make them.

use std::ptr;
use std::sync::Arc;

use vtensor::{Bytes, TensorId};

use crate::copier::Transfer;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::memory::{Kind, Memory};
use crate::cuda::options::Options;
use crate::cuda::stream::Stream;
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::places::{AtRest, Spot};
use crate::scale::{Scale, to_usize};
use crate::spill::{Spill, Tier};

/// The slots of a program.
pub(super) enum Slots {
    /// A program that spills nothing.
    Nothing,
    /// Memory of exactly the size of the spill tier, taken once: it is short where memory is.
    Pinned(Memory),
    File(Arc<Tier>),
}

impl Slots {
    /// Takes the spill tier.
    pub(super) fn new(
        device: &Device,
        planned: Bytes,
        scale: Scale,
        options: &Options,
    ) -> Result<Self, RuntimeError> {
        let bytes = scale.bytes(planned.0);
        match options.spill {
            _ if bytes == 0 => Ok(Self::Nothing),
            Spill::Ram => {
                crate::memory::demand("pinned spill tier", bytes)?;
                Ok(Self::Pinned(Memory::new(
                    device,
                    Kind::Pinned,
                    to_usize(bytes),
                )?))
            }
            Spill::File(_) => {
                let tier = match scale.ratio() {
                    1 => Tier::new(&options.spill, &options.storage, bytes)?,
                    _ => Tier::scaled(&options.spill, &options.storage, bytes)?,
                };
                Ok(Self::File(Arc::new(tier)))
            }
        }
    }

    /// The file, if it is one.
    pub(super) const fn file(&self) -> Option<&Arc<Tier>> {
        match self {
            Self::File(tier) => Some(tier),
            Self::Nothing | Self::Pinned(_) => None,
        }
    }

    /// Enqueues a copy to or from pinned memory.
    ///
    /// # Safety
    /// As for [`super::Backing::copy`].
    pub(super) unsafe fn copy(
        &self,
        device: &Device,
        transfer: &Transfer,
        stream: &Stream,
    ) -> Result<(), CudaError> {
        let on_device = transfer.device.addr().get() as u64;
        match self {
            Self::Nothing => unreachable!("a program with copies has a tier"),
            Self::Pinned(memory) => {
                let slot = memory.host(transfer.slot, transfer.bytes);
                let (bytes, stream) = (transfer.bytes, stream.raw());
                match transfer.direction {
                    // SAFETY: slot and range are alive; their order is the caller's promise.
                    Direction::Out => unsafe { device.copy_out(slot, on_device, bytes, stream) },
                    // SAFETY: as above.
                    Direction::In => unsafe { device.copy_in(on_device, slot, bytes, stream) },
                }
            }
            Self::File(_) => unreachable!("engines make copies to and from a file"),
        }
    }

    /// Copies bytes of a slot while nothing moves.
    ///
    /// # Safety
    /// As for [`AtRest::load`].
    pub(super) unsafe fn load(
        &self,
        tensor: TensorId,
        slot: u64,
        to: &mut [u8],
    ) -> Result<(), RuntimeError> {
        match self {
            Self::Nothing => unreachable!("a program with slots has a tier"),
            Self::Pinned(memory) => {
                let from = memory.host(slot, to.len());
                // SAFETY: the tier holds the slot, and nothing copies there by the caller's word.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
                Ok(())
            }
            // SAFETY: the caller's promise is passed on.
            Self::File(tier) => unsafe { tier.load(tensor, Spot::Slot(slot), to) },
        }
    }

    /// Copies to bytes of a slot while nothing moves.
    ///
    /// # Safety
    /// As for [`AtRest::store`].
    pub(super) unsafe fn store(
        &self,
        tensor: TensorId,
        slot: u64,
        from: &[u8],
    ) -> Result<(), RuntimeError> {
        match self {
            Self::Nothing => unreachable!("a program with slots has a tier"),
            Self::Pinned(memory) => {
                let to = memory.host(slot, from.len());
                // SAFETY: the tier holds the slot, and nothing copies there by the caller's word.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
                Ok(())
            }
            // SAFETY: the caller's promise is passed on.
            Self::File(tier) => unsafe { tier.store(tensor, Spot::Slot(slot), from) },
        }
    }

    /// Pinned memory that was taken.
    pub(super) const fn pinned(&self) -> Bytes {
        match self {
            Self::Nothing | Self::File(_) => Bytes(0),
            Self::Pinned(memory) => Bytes(memory.bytes() as u64),
        }
    }
}
