//! The phase after a failure, or after a program was given up: nothing moves any more, and what is
//! intact can be saved.
//!
//! Guarantees: a read answers the latest version that an op wrote, or an error; never stale bytes.
//! What the op that was open was writing counts as lost; so does what a failed in was to read,
//! for its slot cannot be trusted. A failed out loses nothing: its source is still there.

use tracing::warn;
use vtensor::{Bytes, StepIndex, TensorId};

use crate::content::Content;
use crate::error::RuntimeError;
use crate::failure::Failure;
use crate::frozen::Frozen;
use crate::places::AtRest;
use crate::residency::{Progress, Whose, residency};

/// Where a program stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedAt {
    /// The iteration, counted from 1; 0 before the first.
    pub iteration: u64,
    /// The step that was open, or would have been next.
    pub step: StepIndex,
    /// Whether it was open.
    pub open: bool,
}

/// Bytes of a persistent tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorRange {
    /// The tensor.
    pub tensor: TensorId,
    /// The first byte, as executed.
    pub offset: u64,
    /// How many, as executed.
    pub bytes: Bytes,
}

/// A program that was given up.
pub struct Failed {
    /// What the program held, alive.
    memory: Box<dyn AtRest + Send>,
    content: Content,
    failure: Option<Failure>,
    stopped_at: StoppedAt,
}

impl Failed {
    /// Ends the engines and finds out what is intact.
    pub(crate) fn new(mut frozen: Frozen) -> Self {
        let progress = frozen.progress();
        let segments = residency(frozen.parts.lowered(), progress, Whose::Persistent);
        let mut parts = frozen.parts;
        let failure = parts.crew.failure(&parts.plan.skeleton.tensors).cloned();
        let content = Content::new(&parts.plan, parts.scale, segments);
        Self::of(Box::new(parts), content, failure, progress)
    }

    /// A program that stopped there, with `content` in `memory`.
    pub(crate) fn of(
        memory: Box<dyn AtRest + Send>,
        content: Content,
        failure: Option<Failure>,
        progress: Progress,
    ) -> Self {
        let failed = Self {
            memory,
            content,
            failure,
            stopped_at: StoppedAt {
                iteration: progress.iteration,
                step: StepIndex::from_index(progress.steps),
                open: progress.open,
            },
        };
        let lost_bytes: u64 = failed.lost().map(|range| range.bytes.0).sum();
        warn!(stopped_at = ?failed.stopped_at, failure = ?failed.failure, lost_bytes, "abandoned");
        failed
    }

    /// The copy that failed, if one did.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Where the program stopped. Optimizer steps before it are in the tensors, later ones are
    /// not: whether the model is consistent is for the application to say.
    #[must_use]
    pub const fn stopped_at(&self) -> StoppedAt {
        self.stopped_at
    }

    /// What is lost, by tensor and offset.
    pub fn lost(&self) -> impl Iterator<Item = TensorRange> {
        let lost = self
            .content
            .segments()
            .iter()
            .filter(|segment| segment.lost);
        lost.map(|segment| TensorRange {
            tensor: segment.tensor,
            offset: segment.start,
            bytes: Bytes(segment.end - segment.start),
        })
    }

    /// Copies bytes `offset ..` of a persistent tensor to `buffer`, in executed sizes.
    ///
    /// # Errors
    /// If the range is not the tensor's, or any of it is lost or not kept at this step, or the
    /// spill tier fails.
    pub fn read(
        &self,
        tensor: TensorId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        // SAFETY: the memory is alive; nothing copies any more, and no op runs.
        unsafe { self.content.read(&*self.memory, tensor, offset, buffer) }
    }

    /// The size of a persistent tensor, as executed; `None` for other tensors.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> Option<Bytes> {
        self.content.size(tensor).map(Bytes)
    }
}
