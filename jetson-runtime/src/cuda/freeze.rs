//! From a proven plan to a program on a GPU: everything that is taken, is taken here.
//!
//! Guarantees: what can be refused without taking anything is refused first, with the reason; if
//! anything fails later, all that was taken is given back.

use std::sync::Arc;

use lgm::verify::VerifiedPlan;
use tracing::info;
use vtensor::TensorId;

use super::class::Class;
use super::copies::Copies;
use super::device::{Device, Rest};
use super::frozen::{Frozen, Parts};
use super::mechanism::{self, Backing};
use super::options::Options;
use super::queued::Queued;
use super::staged::Staged;
use super::stream::{EventUse, Events, Stream};
use super::vmm::Pages;
use crate::error::RuntimeError;
use crate::fault::Fault;
use crate::memory;
use crate::planned::bring_home;
use crate::scale::Scale;
use crate::spill::Spill;
use crate::table::Table;

impl Frozen {
    /// Freezes a plan on a device, with a stream of its own for the application's kernels.
    ///
    /// `fill(tensor, offset, bytes)` writes the initial content of bytes `offset ..` of a tensor,
    /// in executed sizes; it is called for every range that has content at the boundary of an
    /// iteration, in any order, and for no other.
    ///
    /// # Errors
    /// If the plan does not fit the device or the options, or the driver refuses what it takes.
    /// Nothing is left behind.
    pub fn freeze(
        device: &Device,
        plan: VerifiedPlan,
        options: &Options,
        fill: impl FnMut(TensorId, u64, &mut [u8]),
    ) -> Result<Self, RuntimeError> {
        let compute = Stream::new(device)?;
        freeze(device, plan, options, With::own(compute), on_its_own(fill))
    }

    /// The same with a stream of the application.
    ///
    /// # Safety
    /// `stream` is a stream of the device's primary context that outlives the program.
    ///
    /// # Errors
    /// As [`Self::freeze`].
    pub unsafe fn freeze_on(
        device: &Device,
        plan: VerifiedPlan,
        options: &Options,
        stream: *mut std::ffi::c_void,
        fill: impl FnMut(TensorId, u64, &mut [u8]),
    ) -> Result<Self, RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        let compute = unsafe { Stream::of_application(device, stream) };
        freeze(device, plan, options, With::own(compute), on_its_own(fill))
    }
}

/// What a program is given.
pub(super) struct With<'a> {
    /// Its memory, if it is others' at other times.
    pub(super) pages: Option<&'a Arc<Pages>>,
    pub(super) compute: Arc<Stream>,
}

impl With<'_> {
    fn own(compute: Stream) -> Self {
        Self {
            pages: None,
            compute: Arc::new(compute),
        }
    }
}

/// Contents that cannot fail to come.
fn on_its_own(
    mut fill: impl FnMut(TensorId, u64, &mut [u8]),
) -> impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError> {
    move |tensor, offset, bytes| {
        fill(tensor, offset, bytes);
        Ok(())
    }
}

/// Freezes a plan with what it is given.
pub(super) fn freeze(
    device: &Device,
    plan: VerifiedPlan,
    options: &Options,
    With { pages, compute }: With<'_>,
    fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
) -> Result<Frozen, RuntimeError> {
    let plan = plan.into_inner();
    let class = Class::of(device.facts());
    let to_host = options.spill == Spill::Ram;
    let spills = plan.program.spill_bytes.0 > 0;
    if spills && to_host && class.one_memory() && !options.force_host_spill {
        let advice = "spill to a file, give it a larger budget, or force it";
        return Err(class.frees_nothing(device.facts(), advice).into());
    }
    let page = options.executed_page.unwrap_or(plan.program.page_bytes);
    let scale = Scale::of(&plan.program, page)?;
    Table::check_kinds(&plan.program)?;
    if class.one_memory() {
        // Where that runs out the kernel ends processes, before the driver says anything.
        let arena = match pages {
            None => u64::from(plan.program.arena_pages) * scale.page().get(),
            Some(_) => 0,
        };
        let spilled = match to_host {
            true => scale.bytes(plan.program.spill_bytes.0),
            false => 0,
        };
        let bytes = arena.saturating_add(spilled);
        memory::demand("arena in the memory of host and device", bytes)?;
    }
    let backing = mechanism::take(options, device, (&plan, scale), pages)?;
    // If anything fails from here on, the device comes to rest before its memory goes.
    let _rest = Rest(device);
    let table = Table::new(&plan, scale, &*backing);
    let content = backing.home(&plan, scale);
    bring_home(&content, &*backing, fill)?;
    backing.settle(&plan, scale, &compute)?;
    let duplex = options.duplex.unwrap_or(device.facts().copy_engines >= 2);
    let copies = copies(device, &table, &*backing, duplex, options.fault)?;
    let ends = Events::new(device, 6, EventUse::Host)?;
    info!(
        mechanism = options.mechanism.name(),
        duplex,
        steps = table.steps.len(),
        taken = ?backing.taken(),
        "frozen on a GPU"
    );
    Ok(Frozen::new(Parts {
        copies,
        compute,
        ends,
        table,
        content,
        backing,
        plan,
        scale,
        mechanism: options.mechanism,
        duplex,
        fault: options.fault,
        device: device.clone(),
    }))
}

/// Who makes the copies of a program, at their start.
pub(super) fn copies(
    device: &Device,
    table: &Table,
    backing: &dyn Backing,
    duplex: bool,
    fault: Option<Fault>,
) -> Result<Copies, RuntimeError> {
    Ok(match backing.file() {
        None => Copies::Queued(Queued::new(device, table, duplex)?),
        Some(tier) => Copies::Staged(Staged::new(device, table, tier, duplex, fault)?),
    })
}
