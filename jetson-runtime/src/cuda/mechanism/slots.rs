//! Where explicit copies go: pinned memory of the host, or a file.
//!
//! A file is reached through a bounce buffer, which is pinned memory of the host: the device copies
//! there, and what is there goes to the file, sealed, around the page cache; and back. Such a copy
//! is made at once, part by part, by the thread that ends the step which releases it: when it
//! returns, it is complete.
//!
//! Limits: so the GPU idles while a file is written or read. *Not here yet*: a thread that does
//! this beside kernels.

use std::cell::RefCell;
use std::ptr::{self, NonNull};
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
use crate::spill::{Port, Spill, Tier};

/// Bytes of the bounce buffer. Copies that are longer go in parts: whole blocks of the file.
const BOUNCE_BYTES: usize = 4 << 20;

const _: () = assert!((BOUNCE_BYTES as u64).is_multiple_of(vtensor::limits::SLOT_ALIGN));

/// The slots of a program.
pub(super) enum Slots {
    /// A program that spills nothing.
    Nothing,
    /// Memory of exactly the size of the spill tier, taken once: it is short where memory is.
    Pinned(Memory),
    File(Box<Filed>),
}

/// A file, as the device reaches it.
pub(super) struct Filed {
    tier: Arc<Tier>,
    /// Borrowed for the time of a copy, by one call at a time.
    port: RefCell<Port>,
    bounce: Memory,
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
                let tier = Arc::new(tier);
                Ok(Self::File(Box::new(Filed {
                    port: RefCell::new(Port::new(&tier)?),
                    bounce: Memory::new(device, Kind::Pinned, BOUNCE_BYTES)?,
                    tier,
                })))
            }
        }
    }

    /// Makes a copy: enqueues it, or with a file makes it now.
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
                // SAFETY: slot and range are alive; their order is the caller's promise.
                unsafe { pass(device, transfer, on_device, slot, transfer.bytes, stream) }
            }
            // SAFETY: the caller's promise is passed on.
            Self::File(filed) => unsafe { filed.copy(device, transfer, on_device, stream) },
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
            Self::File(filed) => unsafe { filed.tier.load(tensor, Spot::Slot(slot), to) },
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
            Self::File(filed) => unsafe { filed.tier.store(tensor, Spot::Slot(slot), from) },
        }
    }

    /// Pinned memory that was taken.
    pub(super) const fn pinned(&self) -> Bytes {
        match self {
            Self::Nothing => Bytes(0),
            Self::Pinned(memory) => Bytes(memory.bytes() as u64),
            Self::File(filed) => Bytes(filed.bounce.bytes() as u64),
        }
    }
}

impl Filed {
    /// Makes a copy, part by part.
    ///
    /// # Safety
    /// As for [`super::Backing::copy`].
    unsafe fn copy(
        &self,
        device: &Device,
        transfer: &Transfer,
        on_device: u64,
        stream: &Stream,
    ) -> Result<(), CudaError> {
        let mut port = self.port.borrow_mut();
        let mut done = 0;
        while done < transfer.bytes {
            let part = (transfer.bytes - done).min(BOUNCE_BYTES);
            let (address, slot) = (on_device + done as u64, transfer.slot + done as u64);
            let bounce = self.bounce.host(0, part);
            let failed = |error: crate::storage::TransferError| CudaError::Spill {
                direction: transfer.direction,
                tensor: transfer.tensor,
                offset: Bytes(done as u64 + error.offset),
                errno: error.errno,
            };
            if transfer.direction == Direction::In {
                // SAFETY: the bounce buffer is as long and this copy's own. The outs that wrote
                // the slot were enqueued before (V3), hence made, and whoever overwrites it comes
                // later.
                unsafe { port.read(slot, bounce, part) }.map_err(failed)?;
            }
            // SAFETY: range and bounce buffer are alive; the order is the caller's promise.
            unsafe { pass(device, transfer, address, bounce, part, stream) }?;
            stream.synchronize()?;
            if transfer.direction == Direction::Out {
                // SAFETY: the stream has filled the bounce buffer, which is this copy's own. Ins
                // that read what the slot held were enqueued before (V8), hence made.
                unsafe { port.write(slot, bounce, part) }.map_err(failed)?;
            }
            done += part;
        }
        Ok(())
    }
}

/// Enqueues a copy between the device and pinned memory.
///
/// # Safety
/// As for [`super::Backing::copy`].
unsafe fn pass(
    device: &Device,
    transfer: &Transfer,
    on_device: u64,
    host: NonNull<u8>,
    bytes: usize,
    stream: &Stream,
) -> Result<(), CudaError> {
    match transfer.direction {
        // SAFETY: the caller's promise is passed on.
        Direction::Out => unsafe { device.copy_out(host, on_device, bytes, stream.raw()) },
        // SAFETY: as above.
        Direction::In => unsafe { device.copy_in(on_device, host, bytes, stream.raw()) },
    }
}
