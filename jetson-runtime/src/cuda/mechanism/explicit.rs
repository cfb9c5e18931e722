//! Explicit copies between the device and pinned memory of the host.
//!
//! The pinned arena has exactly the size of the program's spill tier and is taken once: pinned
//! memory is short where memory is.

use std::ptr::{self, NonNull};

use lgm::plan::Plan;
use vtensor::{Bytes, TensorId};

use super::{Backing, Taken};
use crate::content::Content;
use crate::copier::Transfer;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::memory::{Kind, Memory};
use crate::cuda::stream::Stream;
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::places::{AtRest, Places, Site, Spot};
use crate::scale::{Scale, to_usize};

/// The device's part of an explicit mechanism.
pub(super) trait DeviceArena: Places + Send {
    fn taken(&self) -> Taken;
}

/// A device's arena with a spill tier in pinned memory. Fields are dropped in this order.
pub(super) struct Explicit<A> {
    arena: A,
    /// `None` if the program spills nothing.
    tier: Option<Memory>,
    device: Device,
}

impl<A: DeviceArena> Explicit<A> {
    /// Takes the spill tier.
    pub(super) fn new(
        device: &Device,
        arena: A,
        plan: &Plan,
        scale: Scale,
    ) -> Result<Self, RuntimeError> {
        let bytes = to_usize(scale.bytes(plan.program.spill_bytes.0));
        let tier = match bytes {
            0 => None,
            bytes => {
                crate::memory::demand("pinned spill tier", bytes as u64)?;
                Some(Memory::new(device, Kind::Pinned, bytes)?)
            }
        };
        Ok(Self {
            arena,
            tier,
            device: device.clone(),
        })
    }

    fn slot(&self, slot: u64, bytes: usize) -> NonNull<u8> {
        let tier = self.tier.as_ref();
        tier.expect("a program with slots has a tier")
            .host(slot, bytes)
    }
}

impl<A: DeviceArena> Places for Explicit<A> {
    fn address(&self, site: Site) -> NonNull<u8> {
        self.arena.address(site)
    }
}

impl<A: DeviceArena> AtRest for Explicit<A> {
    unsafe fn load(&self, _: TensorId, from: Spot, to: &mut [u8]) -> Result<(), RuntimeError> {
        match from {
            Spot::Device(from) => {
                // SAFETY: the caller vouches for the source.
                unsafe { self.device.load(from.addr().get() as u64, to) }?;
            }
            Spot::Slot(slot) => {
                let from = self.slot(slot, to.len());
                // SAFETY: the tier holds the slot, and nothing copies there by the caller's word.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
            }
        }
        Ok(())
    }

    unsafe fn store(&self, _: TensorId, to: Spot, from: &[u8]) -> Result<(), RuntimeError> {
        match to {
            Spot::Device(to) => {
                // SAFETY: the caller vouches for the target.
                unsafe { self.device.store(to.addr().get() as u64, from) }?;
            }
            Spot::Slot(slot) => {
                let to = self.slot(slot, from.len());
                // SAFETY: the tier holds the slot, and nothing copies there by the caller's word.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
            }
        }
        Ok(())
    }
}

impl<A: DeviceArena> Backing for Explicit<A> {
    unsafe fn copy(&self, transfer: &Transfer, stream: &Stream) -> Result<(), CudaError> {
        let Transfer { slot, bytes, .. } = *transfer;
        let on_device = transfer.device.addr().get() as u64;
        let slot = self.slot(slot, bytes);
        match transfer.direction {
            // SAFETY: slot and range are alive; their order is the caller's promise.
            Direction::Out => unsafe { self.device.copy_out(slot, on_device, bytes, stream.raw()) },
            // SAFETY: as above.
            Direction::In => unsafe { self.device.copy_in(on_device, slot, bytes, stream.raw()) },
        }
    }

    fn home(&self, plan: &Plan, scale: Scale) -> Content {
        Content::home(plan, scale, self)
    }

    fn taken(&self) -> Taken {
        Taken {
            pinned: Bytes(self.tier.as_ref().map_or(0, |tier| tier.bytes() as u64)),
            ..self.arena.taken()
        }
    }
}
