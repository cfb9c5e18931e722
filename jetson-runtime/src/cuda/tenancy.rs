//! Tenancy: as on the host, a program gives its memory up, wherever it is, and takes it again.
//!
//! Guarantees: nothing is given up before the caller says so; a stop in the middle is exact, unless
//! a call of the driver failed with work under way: then which of it was done is not known, and
//! everything is lost.

use vtensor::TensorId;

use super::boundary::all_lost;
use super::freeze::copies;
use super::frozen::{Frozen, Parts};
use crate::content::Content;
use crate::course::Course;
use crate::error::RuntimeError;
use crate::places::{AtRest, Spot};
use crate::planned::bring_home;
use crate::residency::{Lowered, Progress, Whose, residency};

impl Parts {
    pub(super) fn lowered(&self) -> Lowered<'_> {
        Lowered {
            plan: &self.plan,
            table: &self.table,
            scale: self.scale,
            places: &*self.backing,
        }
    }
}

impl Frozen {
    /// Checks that nothing runs, and waits until nothing moves.
    pub(crate) fn rest(&mut self, call: &'static str) -> Result<(), RuntimeError> {
        self.course.check_access(call)?;
        self.quiesce()
    }

    /// Lets what was enqueued come to an end, and says how far execution came; nothing if that is
    /// not known.
    pub(super) fn progress(&mut self) -> (Progress, bool) {
        let Parts { copies, plan, .. } = &mut self.parts;
        let reached = copies.stop(&plan.skeleton.tensors);
        let doubt = self.doubt || copies.in_doubt();
        let known = match self.parts.synchronize() {
            Ok(()) => !doubt,
            Err(error) => {
                tracing::warn!(%error, "the GPU cannot be brought to rest");
                false
            }
        };
        (self.course.progress(reached), known)
    }

    /// Stops in the middle of an iteration: where every byte is that the iteration holds. The
    /// program needs [`Self::restart`] before it runs again.
    pub(crate) fn halt(&mut self) -> Content {
        let (progress, known) = self.progress();
        self.over = true;
        let lowered = self.parts.lowered();
        let segments = match known {
            true => residency(lowered, progress, Whose::All),
            false => all_lost(lowered, Whose::All),
        };
        Content::new(&self.parts.plan, self.parts.scale, segments)
    }

    /// Gives the slots of a file back: what the program holds there was carried away. Pinned memory
    /// stays: taking it again takes long.
    pub(crate) fn release_slots(&self) -> Result<(), RuntimeError> {
        match self.parts.backing.file() {
            Some(tier) => tier.release(0, tier.bytes()),
            None => Ok(()),
        }
    }

    /// Takes slots again, and brings every persistent piece to HOME.
    pub(crate) fn return_home(
        &mut self,
        fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        self.rest("return_home")?;
        let Parts {
            backing, content, ..
        } = &self.parts;
        if let Some(tier) = backing.file() {
            tier.claim(0, tier.bytes())?;
        }
        bring_home(content, &**backing, fill)?;
        self.course.rewritten();
        Ok(())
    }

    /// After [`Self::halt`]: the program as it was frozen, without content, at rest; its numbers
    /// begin anew.
    ///
    /// # Errors
    /// If the device makes no streams and events any more.
    pub(crate) fn restart(&mut self) -> Result<(), RuntimeError> {
        let Parts {
            device,
            table,
            backing,
            duplex,
            fault,
            ..
        } = &self.parts;
        let copies = copies(device, table, &**backing, *duplex, *fault)?;
        self.parts.copies = copies;
        self.course = Course::new(&self.parts.table);
        (self.over, self.doubt) = (false, false);
        Ok(())
    }

    pub(crate) const fn parts(&self) -> &Parts {
        &self.parts
    }

    pub(crate) const fn course(&self) -> &Course {
        &self.course
    }

    /// What the spill file takes now, and pinned memory.
    pub(crate) fn spill_allocated(&self) -> Result<vtensor::Bytes, RuntimeError> {
        match self.parts.backing.file() {
            Some(tier) => tier.allocated(),
            None => Ok(self.taken().pinned),
        }
    }
}

impl AtRest for Parts {
    unsafe fn load(&self, tensor: TensorId, from: Spot, to: &mut [u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.backing.load(tensor, from, to) }
    }

    unsafe fn store(&self, tensor: TensorId, to: Spot, from: &[u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.backing.store(tensor, to, from) }
    }
}
