//! The copies of a program: made by streams, or, where a file is involved, by engines.
//!
//! | way | who makes a copy | a step waits for it |
//! |---|---|---|
//! | [`Queued`] | the device, when its stream has come there | on the stream of steps |
//! | [`Staged`] | an engine: the device, then the disk, or the other way round | on the host |

use lgm::skeleton::Tensor;
use vtensor::Bytes;

use super::error::CudaError;
use super::queued::{Queued, With};
use super::staged::Staged;
use super::stats::Stats;
use super::stream::Stream;
use crate::error::RuntimeError;
use crate::failure::Failure;
use crate::residency::Reached;

/// Who makes the copies.
pub(super) enum Copies {
    Queued(Queued),
    Staged(Staged),
}

impl Copies {
    /// The streams that take copies as steps end.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Stream> {
        let queued = match self {
            Self::Queued(queued) => Some(queued),
            Self::Staged(_) => None,
        };
        queued.into_iter().flat_map(Queued::streams)
    }

    /// Begins an iteration. The host has seen the end of the last but one on every stream.
    pub(super) fn begin_iteration(
        &mut self,
        iteration: u64,
        tensors: &[Tensor],
    ) -> Result<(), RuntimeError> {
        match self {
            Self::Queued(queued) => queued.begin_iteration(iteration),
            Self::Staged(staged) => {
                if !staged.begin_iteration(iteration) {
                    return Err(staged.error(tensors));
                }
            }
        }
        Ok(())
    }

    /// Makes a step wait until its tensors are in place: so many copies, in absolute counts.
    #[inline]
    pub(super) fn begin_step(
        &mut self,
        step: usize,
        needed: [u64; 2],
        compute: &Stream,
        tensors: &[Tensor],
    ) -> Result<(), RuntimeError> {
        match self {
            Self::Queued(queued) => Ok(queued.begin_step(step, compute)?),
            Self::Staged(staged) => match staged.wait(needed) {
                true => Ok(()),
                false => Err(staged.error(tensors)),
            },
        }
    }

    /// Lets the copies begin that step `step` releases, once it has ended on the device.
    pub(super) fn release(
        &mut self,
        step: usize,
        released: [u64; 2],
        with: With<'_>,
    ) -> Result<(), CudaError> {
        match self {
            Self::Queued(queued) => queued.release(step, released, with),
            Self::Staged(staged) => staged.release(step, released, with.compute),
        }
    }

    /// Waits for the copies that the host must wait for itself; streams are for the caller.
    pub(super) fn drain(&mut self, tensors: &[Tensor]) -> Result<(), RuntimeError> {
        match self {
            Self::Queued(_) => Ok(()),
            Self::Staged(staged) => match staged.drain() {
                true => Ok(()),
                false => Err(staged.error(tensors)),
            },
        }
    }

    /// Lets what was released come to an end, on the host's side; nothing is released any more.
    /// Says how far copies came once the streams are at rest.
    pub(super) fn stop(&mut self, tensors: &[Tensor]) -> Reached {
        match self {
            Self::Queued(queued) => queued.reached(),
            Self::Staged(staged) => staged.stop(tensors),
        }
    }

    /// The copy that a disk failed.
    pub(super) fn failure(&mut self, tensors: &[Tensor]) -> Option<Failure> {
        match self {
            Self::Queued(_) => None,
            Self::Staged(staged) => staged.failure(tensors),
        }
    }

    /// Whether a copy failed in a way that leaves open what the device did.
    pub(super) fn in_doubt(&self) -> bool {
        match self {
            Self::Queued(_) => false,
            Self::Staged(staged) => staged.in_doubt(),
        }
    }

    /// Adds what was done to numbers.
    pub(super) fn count(&self, stats: &mut Stats) {
        match self {
            Self::Queued(queued) => {
                stats.moved = queued.moved();
                stats.waits = queued.waited();
            }
            Self::Staged(staged) => {
                let crew = staged.crew();
                stats.moved = crew.moved();
                stats.host_waits += crew.stalls();
                stats.host_wait_ns += crew.stall_ns();
            }
        }
    }

    /// Pinned memory that copies go through.
    pub(super) fn pinned(&self) -> Bytes {
        match self {
            Self::Queued(_) => Bytes(0),
            Self::Staged(staged) => Bytes(staged.pinned()),
        }
    }
}
