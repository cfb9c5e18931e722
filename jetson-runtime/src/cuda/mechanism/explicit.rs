//! Explicit copies between the device and slots.

use std::ptr::NonNull;
use std::sync::Arc;

use lgm::plan::Plan;
use vtensor::TensorId;

use super::slots::Slots;
use super::{Backing, Taken};
use crate::content::Content;
use crate::copier::Transfer;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::options::Options;
use crate::cuda::stream::Stream;
use crate::error::RuntimeError;
use crate::places::{AtRest, Places, Site, Spot};
use crate::scale::Scale;
use crate::spill::Tier;

/// The device's part of an explicit mechanism.
pub(super) trait DeviceArena: Places + Send {
    fn taken(&self) -> Taken;
}

/// A device's arena with its slots. Fields are dropped in this order.
pub(super) struct Explicit<A> {
    arena: A,
    slots: Slots,
    device: Device,
}

impl<A: DeviceArena> Explicit<A> {
    /// Takes the spill tier.
    pub(super) fn new(
        device: &Device,
        arena: A,
        plan: &Plan,
        scale: Scale,
        options: &Options,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            arena,
            slots: Slots::new(device, plan.program.spill_bytes, scale, options)?,
            device: device.clone(),
        })
    }
}

impl<A: DeviceArena> Places for Explicit<A> {
    fn address(&self, site: Site) -> NonNull<u8> {
        self.arena.address(site)
    }
}

impl<A: DeviceArena> AtRest for Explicit<A> {
    unsafe fn load(&self, tensor: TensorId, from: Spot, to: &mut [u8]) -> Result<(), RuntimeError> {
        match from {
            Spot::Device(from) => {
                // SAFETY: the caller vouches for the source.
                unsafe { self.device.load(from.addr().get() as u64, to) }?;
            }
            // SAFETY: the caller's promise is passed on.
            Spot::Slot(slot) => unsafe { self.slots.load(tensor, slot, to) }?,
        }
        Ok(())
    }

    unsafe fn store(&self, tensor: TensorId, to: Spot, from: &[u8]) -> Result<(), RuntimeError> {
        match to {
            Spot::Device(to) => {
                // SAFETY: the caller vouches for the target.
                unsafe { self.device.store(to.addr().get() as u64, from) }?;
            }
            // SAFETY: the caller's promise is passed on.
            Spot::Slot(slot) => unsafe { self.slots.store(tensor, slot, from) }?,
        }
        Ok(())
    }
}

impl<A: DeviceArena> Backing for Explicit<A> {
    unsafe fn copy(&self, transfer: &Transfer, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.slots.copy(&self.device, transfer, stream) }
    }

    fn file(&self) -> Option<&Arc<Tier>> {
        self.slots.file()
    }

    fn home(&self, plan: &Plan, scale: Scale) -> Content {
        Content::home(plan, scale, self)
    }

    fn taken(&self) -> Taken {
        Taken {
            pinned: self.slots.pinned(),
            ..self.arena.taken()
        }
    }
}
