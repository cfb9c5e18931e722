//! The two questions in which backends differ: which address has a place, and how does one reach
//! bytes there while nothing moves.

use std::ptr::{self, NonNull};

use vtensor::{Place, TensorId};

use crate::error::RuntimeError;
use crate::spill::Tier;
use crate::storage::TransferError;

/// Bytes of a tensor that have a place together, in executed sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) tensor: TensorId,
    /// The first byte, counted from the start of the tensor.
    pub(crate) offset: u64,
    /// Where it is on the device, by the plan.
    pub(crate) place: Place,
    pub(crate) bytes: usize,
}

/// Gives places their addresses, the same ones at every call.
pub(crate) trait Places {
    /// The address of a site's first byte. What it means is the backend's matter: it may be
    /// followed only where the device's memory is the host's.
    ///
    /// # Panics
    /// If the site leaves what was mapped: places come from a verified plan.
    fn address(&self, site: Site) -> NonNull<u8>;
}

/// One of the places of a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spot {
    /// An address that [`Places`] gave.
    Device(NonNull<u8>),
    /// A byte of the spill tier.
    Slot(u64),
}

/// Reaches bytes while nothing moves.
pub(crate) trait AtRest {
    /// Copies bytes of `tensor` to `to`.
    ///
    /// # Safety
    /// The spot has that many bytes, it is alive, and nobody writes it meanwhile.
    unsafe fn load(&self, tensor: TensorId, from: Spot, to: &mut [u8]) -> Result<(), RuntimeError>;

    /// Copies `from` to bytes of `tensor`.
    ///
    /// # Safety
    /// The spot has that many bytes, it is alive, and nobody touches it meanwhile.
    unsafe fn store(&self, tensor: TensorId, to: Spot, from: &[u8]) -> Result<(), RuntimeError>;
}

/// The host: its device is memory as any other.
impl AtRest for Tier {
    unsafe fn load(&self, tensor: TensorId, from: Spot, to: &mut [u8]) -> Result<(), RuntimeError> {
        let bytes = to.len();
        match from {
            // SAFETY: the caller vouches for the source; a borrowed buffer cannot overlap it.
            Spot::Device(from) => unsafe {
                ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), bytes);
            },
            Spot::Slot(slot) => {
                let target = NonNull::from(to).cast();
                // SAFETY: the target is a borrowed buffer; the caller vouches for the slot.
                unsafe { self.read(slot, target, bytes) }.map_err(|error| failed(tensor, error))?;
            }
        }
        Ok(())
    }

    unsafe fn store(&self, tensor: TensorId, to: Spot, from: &[u8]) -> Result<(), RuntimeError> {
        let bytes = from.len();
        match to {
            // SAFETY: the caller vouches for the target; a borrowed buffer cannot overlap it.
            Spot::Device(to) => unsafe {
                ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes);
            },
            Spot::Slot(slot) => {
                let source = NonNull::from(from).cast();
                // SAFETY: the source is a borrowed buffer; the caller vouches for the slot.
                unsafe { self.write(slot, source, bytes) }
                    .map_err(|error| failed(tensor, error))?;
            }
        }
        Ok(())
    }
}

/// The error of a copy of bytes of a tensor, with the place among them.
const fn failed(tensor: TensorId, error: TransferError) -> RuntimeError {
    RuntimeError::Tier {
        tensor,
        offset: error.offset,
        errno: error.errno,
    }
}
