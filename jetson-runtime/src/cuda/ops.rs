//! The ops of a replay, on the tensors of the open step.
//!
//! In: an access of the step that is open. Out: work on the program's stream. Guarantees: an op
//! touches what its access may touch, no more; that nothing else does meanwhile is what the
//! verifier proved. So these are safe to call.

use vtensor::TensorId;

use super::frozen::Frozen;
use super::kernels::{Kernels, Pattern};
use super::tally::Tally;
use crate::course::Position;
use crate::error::RuntimeError;
use crate::step::Accesses;

impl Frozen {
    /// The open step.
    ///
    /// # Panics
    /// If none is open.
    #[must_use]
    pub fn open_step(&self) -> Accesses<'_> {
        assert_eq!(self.course.position, Position::Step, "a step is open");
        let table = &self.parts.table;
        Accesses::new(table.accesses_of(&table.steps[self.course.next_step]))
    }

    /// Overwrites the tensor of an access with a content: a version of a tensor.
    ///
    /// # Panics
    /// If no step is open, it has no such access, or the access only reads.
    ///
    /// # Errors
    /// If the launch fails; then the program is over.
    pub fn fill(
        &mut self,
        kernels: &Kernels,
        access: usize,
        content: (TensorId, u32),
    ) -> Result<(), RuntimeError> {
        let step = self.open_step();
        assert!(step.mode(access).writes(), "the op only reads this tensor");
        let (address, bytes, pattern) = range(&step, access, content);
        // SAFETY: the stream has waited for the step's tensors, and the next step or copy waits
        // for the step. Kernels and program are of one process, hence of one primary context.
        let filled = unsafe { kernels.fill(self.stream(), address, bytes, pattern) };
        self.check_call(filled)
    }

    /// Counts the bytes of the tensor of an access that are not of a content.
    ///
    /// # Panics
    /// If no step is open, it has no such access, or the tally no such counter.
    ///
    /// # Errors
    /// If the launch fails; then the program is over.
    pub fn check_content(
        &mut self,
        kernels: &Kernels,
        access: usize,
        content: (TensorId, u32),
        tally: &Tally,
        counter: usize,
    ) -> Result<(), RuntimeError> {
        let (address, bytes, pattern) = range(&self.open_step(), access, content);
        let wrong = tally.address(counter);
        // SAFETY: as for `fill`; counters are used by this stream, and by the host at rest.
        let checked = unsafe { kernels.check(self.stream(), address, bytes, pattern, wrong) };
        self.check_call(checked)
    }

    /// Keeps the stream busy for a time.
    ///
    /// # Errors
    /// If the launch fails; then the program is over.
    pub fn spin(&mut self, kernels: &Kernels, nanoseconds: u64) -> Result<(), RuntimeError> {
        // SAFETY: the stream is the program's own, or the application's by its word.
        let spun = unsafe { kernels.spin(self.stream(), nanoseconds) };
        self.check_call(spun)
    }
}

fn range(
    step: &Accesses<'_>,
    access: usize,
    (TensorId(tensor), version): (TensorId, u32),
) -> (u64, u64, Pattern) {
    let pattern = Pattern {
        tensor,
        version,
        offset: 0,
    };
    let address = step.pointer(access).addr().get() as u64;
    (address, step.bytes(access) as u64, pattern)
}
