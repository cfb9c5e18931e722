//! Between iterations: tensors can be read and written where they are (B2), and the program can be
//! given up (B4).

use vtensor::TensorId;

use super::frozen::{Frozen, Parts};
use crate::content::{Content, Segment};
use crate::error::RuntimeError;
use crate::failed::Failed;
use crate::places::{AtRest, Spot};
use crate::residency::Lowered;

impl Frozen {
    /// Copies bytes `offset ..` of a persistent tensor to `buffer`, in executed sizes. Waits until
    /// the GPU is at rest; moves nothing.
    ///
    /// # Errors
    /// In an iteration; if the GPU failed; if the range is not the tensor's, or holds nothing
    /// between iterations because the next op that uses it overwrites it.
    pub fn read(
        &mut self,
        tensor: TensorId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        self.rest("read")?;
        let Parts {
            content, backing, ..
        } = &self.parts;
        // SAFETY: the memory is alive, and every stream is at rest.
        unsafe { content.read(&**backing, tensor, offset, buffer) }
    }

    /// Copies `buffer` to bytes `offset ..` of a persistent tensor, in executed sizes, wherever it
    /// is: on the device, in the spill tier, or both. Waits until the GPU is at rest.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn write(
        &mut self,
        tensor: TensorId,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), RuntimeError> {
        self.rest("write")?;
        self.course.rewritten();
        let Parts {
            content, backing, ..
        } = &self.parts;
        // SAFETY: the memory is alive, and every stream is at rest.
        unsafe { content.write(&**backing, tensor, offset, buffer) }
    }

    fn rest(&mut self, call: &'static str) -> Result<(), RuntimeError> {
        self.course.check_access(call)?;
        self.quiesce()
    }

    /// Gives the program up, after a failure, a divergence or at will, wherever it is (B4): lets
    /// what was enqueued come to an end, and finds out which contents are intact.
    ///
    /// Where the GPU has failed for good, nothing on it can be read any more. Where a call failed
    /// with work under way, which of it was done is unknown. Then everything is lost.
    #[must_use]
    pub fn abandon(mut self) -> Failed {
        let Parts { copies, plan, .. } = &mut self.parts;
        let reached = copies.stop(&plan.skeleton.tensors);
        let failure = copies.failure(&plan.skeleton.tensors);
        let doubt = self.doubt || copies.in_doubt();
        let progress = self.course.progress(reached);
        let parts = self.parts;
        let lowered = Lowered {
            plan: &parts.plan,
            table: &parts.table,
            scale: parts.scale,
            places: &*parts.backing,
        };
        let segments = match parts.synchronize() {
            Ok(()) if doubt => all_lost(lowered),
            Ok(()) => parts.backing.intact(lowered, progress),
            Err(error) => {
                tracing::warn!(%error, "the GPU cannot be brought to rest");
                all_lost(lowered)
            }
        };
        let content = Content::new(&parts.plan, parts.scale, segments);
        Failed::of(Box::new(parts), content, failure, progress)
    }
}

/// Every persistent byte, lost.
fn all_lost(lowered: Lowered<'_>) -> Vec<Segment> {
    let tensors = lowered.plan.skeleton.tensors.iter().enumerate();
    let persistent = tensors.filter(|(_, tensor)| tensor.persistent);
    let lost = persistent.map(|(index, tensor)| Segment {
        tensor: TensorId::from_index(index),
        start: 0,
        end: lowered.scale.bytes(tensor.bytes.0),
        device: None,
        slot: None,
        lost: true,
    });
    lost.collect()
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
