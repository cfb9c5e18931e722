//! Between iterations: tensors can be read and written where they are (B2), and the program can be
//! given up (B4).

use vtensor::TensorId;

use super::frozen::{Frozen, Parts};
use crate::content::{Content, Segment};
use crate::error::RuntimeError;
use crate::failed::Failed;
use crate::residency::{Lowered, Whose};

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

    /// Gives the program up, after a failure, a divergence or at will, wherever it is (B4): lets
    /// what was enqueued come to an end, and finds out which contents are intact.
    ///
    /// Where the GPU has failed for good, nothing on it can be read any more. Where a call failed
    /// with work under way, which of it was done is unknown. Then everything is lost.
    #[must_use]
    pub fn abandon(mut self) -> Failed {
        let (progress, known) = self.progress();
        let Parts { copies, plan, .. } = &mut self.parts;
        let failure = copies.failure(&plan.skeleton.tensors);
        let parts = self.parts;
        let lowered = parts.lowered();
        let segments = match known {
            true => parts.backing.intact(lowered, progress),
            false => all_lost(lowered, Whose::Persistent),
        };
        let content = Content::new(&parts.plan, parts.scale, segments);
        Failed::of(Box::new(parts), content, failure, progress)
    }
}

/// Every byte, lost.
pub(super) fn all_lost(lowered: Lowered<'_>, whose: Whose) -> Vec<Segment> {
    let tensors = lowered.plan.skeleton.tensors.iter().enumerate();
    let held = tensors.filter(|(_, tensor)| tensor.persistent || whose == Whose::All);
    let lost = held.map(|(index, tensor)| Segment {
        tensor: TensorId::from_index(index),
        start: 0,
        end: lowered.scale.bytes(tensor.bytes.0),
        device: None,
        slot: None,
        lost: true,
    });
    lost.collect()
}
