//! Between iterations: tensors can be read and written where they are (B2), and the runtime can be
//! measured and given up.

use vtensor::{Bytes, TensorId};

use crate::error::RuntimeError;
use crate::failed::Failed;
use crate::frozen::Frozen;
use crate::memory::{Usage, process_pss};
use crate::stats::Stats;

impl Frozen {
    /// Copies bytes `offset ..` of a persistent tensor to `buffer`, in executed sizes. Waits for
    /// released copies first; moves nothing.
    ///
    /// # Errors
    /// In an iteration; if a copy failed; if the range is not the tensor's, or holds nothing
    /// between iterations because the next op that uses it overwrites it.
    pub fn read(
        &mut self,
        tensor: TensorId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        self.rest("read")?;
        let parts = &self.parts;
        // SAFETY: the map is alive; no op runs, and every released copy is complete.
        unsafe { parts.content.read(&*parts.tier, tensor, offset, buffer) }
    }

    /// Copies `buffer` to bytes `offset ..` of a persistent tensor, in executed sizes, wherever it
    /// is: on the device, in the spill tier, or both. Waits for released copies first.
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
        // HOME has the new bytes; what else still lies on the device or in the tier is stale.
        self.course.rewritten();
        let parts = &self.parts;
        // SAFETY: the map is alive; no op runs, and every released copy is complete.
        unsafe { parts.content.write(&*parts.tier, tensor, offset, buffer) }
    }

    /// Checks that nothing runs, and waits until nothing moves.
    pub(crate) fn rest(&mut self, call: &'static str) -> Result<(), RuntimeError> {
        self.course.check_access(call)?;
        self.quiesce()
    }

    /// The size of a persistent tensor, as executed; `None` for other tensors.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> Option<Bytes> {
        self.parts.content.size(tensor).map(Bytes)
    }

    /// What the runtime has done so far. While copies run, their numbers may be a copy behind.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let crew = &self.parts.crew;
        let [moved_out, moved_in] = crew.moved().map(Bytes);
        let [out_busy_ns, in_busy_ns] = crew.busy_ns();
        Stats {
            iterations: self.course.iterations(),
            moved_out,
            moved_in,
            stall_ns: crew.stall_ns(),
            stalls: crew.stalls(),
            out_busy_ns,
            in_busy_ns,
            mappings: self.parts.map.mappings(),
            virtual_bytes: Bytes(self.parts.map.virtual_bytes()),
        }
    }

    /// The size of the arena: the budget, and hard.
    #[must_use]
    pub fn arena_bytes(&self) -> Bytes {
        let pages = u64::from(self.parts.plan.program.arena_pages);
        Bytes(pages * self.parts.scale.page().get())
    }

    /// The memory that the system holds for arena, spill tier and process now.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn usage(&self) -> Result<Usage, RuntimeError> {
        Ok(Usage {
            arena_allocated: self.parts.arena.allocated()?,
            spill_allocated: self.parts.tier.allocated()?,
            pss: process_pss()?,
        })
    }

    /// Gives the program up, after a failure, a divergence or at will, wherever it is (B4): lets
    /// what was released come to an end, and finds out which contents are intact.
    #[must_use]
    pub fn abandon(self) -> Failed {
        Failed::new(self)
    }
}
