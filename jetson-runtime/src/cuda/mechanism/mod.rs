//! Mechanisms: where tensors lie on the device, and how a copy is made.
//!
//! | mechanism | where tensors lie | a copy is |
//! |---|---|---|
//! | `mapped` | pages, which aliased windows show | a copy to or from pinned memory, or a file |
//! | `packed` | one plain allocation; every window is a stretch of it | the same |
//! | `managed` | each tensor at an address for life, the driver places pages | a prefetch |
//!
//! All three obey one trait, and are frozen, executed and given up by the same code.

mod explicit;
pub(super) mod kind;
mod managed;
mod mapped;
mod overlay;
mod packed;
mod slots;

use std::sync::Arc;

use lgm::plan::Plan;
use vtensor::Bytes;

pub use self::kind::Mechanism;
use super::device::Device;
use super::error::CudaError;
use super::options::Options;
use super::stream::Stream;
use super::vmm::Pages;
use crate::content::{Content, Segment};
use crate::copier::Transfer;
use crate::error::RuntimeError;
use crate::places::{AtRest, Places};
use crate::residency::{Lowered, Progress, Whose, residency};
use crate::scale::Scale;
use crate::spill::{Spill, Tier};

/// What a mechanism took, by the driver's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Memory of the device, or managed memory.
    pub device: Bytes,
    /// Pinned memory of the host.
    pub pinned: Bytes,
    /// Pages that are mapped somewhere, each time counted.
    pub mappings: u64,
    /// Addresses of windows.
    pub addresses: Bytes,
}

/// A mechanism with all of its memory taken.
pub(crate) trait Backing: Places + AtRest + Send {
    /// Enqueues a copy.
    ///
    /// # Safety
    /// The memory outlives the stream's work. The stream has come to where the copy may start
    /// (rules E2 and E3), which the verified plan makes sufficient.
    unsafe fn copy(&self, transfer: &Transfer, stream: &Stream) -> Result<(), CudaError>;

    /// The spill file, where copies go to one: then engines make them, and nobody calls
    /// [`Self::copy`].
    fn file(&self) -> Option<&Arc<Tier>> {
        None
    }

    /// Enqueues what the end of a step brings beside copies.
    ///
    /// # Safety
    /// As for [`Self::copy`]; the stream is that of the step.
    unsafe fn step_ended(&self, step: usize, compute: &Stream) -> Result<(), CudaError> {
        let _ = (step, compute);
        Ok(())
    }

    /// Where persistent bytes are at the boundary of an iteration.
    fn home(&self, plan: &Plan, scale: Scale) -> Content;

    /// Brings them there, once they have been written; nothing runs meanwhile.
    fn settle(&self, plan: &Plan, scale: Scale, stream: &Stream) -> Result<(), CudaError> {
        let _ = (plan, scale, stream);
        Ok(())
    }

    /// Where the latest versions of persistent bytes are when a program stops.
    fn intact(&self, lowered: Lowered<'_>, progress: Progress) -> Vec<Segment> {
        residency(lowered, progress, Whose::Persistent)
    }

    /// What was taken.
    fn taken(&self) -> Taken;
}

/// Takes all memory that a plan needs; or shows it on pages that are there, by `mapped`.
pub(super) fn take(
    options: &Options,
    device: &Device,
    (plan, scale): (&Plan, Scale),
    pages: Option<&Arc<Pages>>,
) -> Result<Box<dyn Backing>, RuntimeError> {
    let backing: Box<dyn Backing> = match options.mechanism {
        Mechanism::Mapped => {
            let windows = match pages {
                Some(pages) => mapped::Mapped::on(pages, &plan.program, scale)?,
                None => mapped::Mapped::new(device, &plan.program, scale)?,
            };
            Box::new(explicit::Explicit::new(
                device, windows, plan, scale, options,
            )?)
        }
        Mechanism::Packed => {
            let arena = packed::Packed::new(device, &plan.program, scale)?;
            Box::new(explicit::Explicit::new(
                device, arena, plan, scale, options,
            )?)
        }
        Mechanism::Managed if matches!(options.spill, Spill::File(_)) => {
            return Err(CudaError::Refused {
                choice: "a spill file",
                reason: "with `managed` the driver moves pages, between memories only; take \
                         `mapped` or `packed`"
                    .into(),
            }
            .into());
        }
        Mechanism::Managed => Box::new(managed::Managed::new(device, plan, scale)?),
    };
    Ok(backing)
}
