//! The phase of execution: the step path of a frozen program, and nothing else.
//!
//! In: the application's ops, in the recorded order. Out: for each op the addresses of its
//! tensors, the same in every iteration, once the copies that it depends on are complete.
//!
//! Guarantees: `step_begin` and `step_end` allocate nothing, take no lock, log nothing, and call
//! the system only to wait for a copy or to wake an engine that sleeps. A call out of order is an
//! error and changes nothing. A failed copy is an error of the next call; the runtime can be
//! dropped or abandoned in every state.
//!
//! *Not here*: reading and writing tensors between iterations (see `boundary`).

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use lgm::plan::Plan;
use vtensor::{OpIndex, StepKind, TensorId};

use crate::arena::Arena;
use crate::content::Content;
use crate::course::{Course, Position};
use crate::crew::Crew;
use crate::engine::EngineOptions;
use crate::error::RuntimeError;
use crate::places::{AtRest, Spot};
use crate::residency::Lowered;
use crate::scale::Scale;
use crate::spill::Tier;
use crate::step::Step;
use crate::table::{StepRow, Table};
use crate::window_map::WindowMap;

/// What a frozen runtime owns. Fields are dropped in this order: engines end before the memory
/// that they copy goes.
pub(crate) struct Parts {
    pub(crate) crew: Crew,
    pub(crate) table: Table,
    pub(crate) content: Content,
    pub(crate) map: WindowMap,
    pub(crate) arena: Arc<Arena>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) plan: Plan,
    pub(crate) scale: Scale,
    pub(crate) engine_options: EngineOptions,
}

impl Parts {
    pub(crate) fn lowered(&self) -> Lowered<'_> {
        Lowered {
            plan: &self.plan,
            table: &self.table,
            scale: self.scale,
            places: &self.map,
        }
    }
}

impl AtRest for Parts {
    unsafe fn load(&self, tensor: TensorId, from: Spot, to: &mut [u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.tier.load(tensor, from, to) }
    }

    unsafe fn store(&self, tensor: TensorId, to: Spot, from: &[u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.tier.store(tensor, to, from) }
    }
}

/// A program in execution. Calls may come from any thread, one at a time.
pub struct Frozen {
    pub(crate) parts: Parts,
    pub(crate) course: Course,
}

impl Frozen {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            course: Course::new(&parts.table),
            parts,
        }
    }

    /// The state right after the freeze. The crew must be a new one.
    pub(crate) fn begin_anew(&mut self) {
        self.course = Course::new(&self.parts.table);
    }

    /// Begins an iteration.
    ///
    /// # Errors
    /// If an iteration runs already, or a copy failed.
    pub fn iteration_begin(&mut self) -> Result<(), RuntimeError> {
        self.course.check_rest("iteration_begin")?;
        if self.parts.crew.has_failed() {
            return Err(self.failed());
        }
        self.course.begin();
        Ok(())
    }

    /// What the step that comes next, or that is open, does; `None` after the last one. A step that
    /// runs an op again is begun and ended like any other, by its own number.
    #[must_use]
    #[inline]
    pub fn due(&self) -> Option<StepKind> {
        Some(self.parts.table.steps.get(self.course.next_step)?.kind)
    }

    /// Begins step `op`, which is the op of that number unless the program runs ops again: waits
    /// until its tensors are in place (E1), and fills the scratch of an op that runs again.
    ///
    /// # Errors
    /// If `op` is not the step that was recorded here, no iteration runs, a step is open, or a copy
    /// failed.
    #[inline]
    pub fn step_begin(&mut self, op: OpIndex) -> Result<Step<'_>, RuntimeError> {
        let row = *self.course.check_step(&self.parts.table, op)?;
        if self.parts.crew.has_failed() {
            return Err(self.failed());
        }
        let needed = self.course.needed(&row);
        if !self.parts.crew.wait(needed) {
            return Err(self.failed());
        }
        self.course.open();
        // The same page has several addresses, which a compiler takes for different memory: what
        // follows must not be moved before what an earlier step did.
        compiler_fence(Ordering::SeqCst);
        if row.fill_count > 0 {
            self.fill(&row);
        }
        Ok(Step::new(self.parts.table.accesses_of(&row)))
    }

    /// Gives the scratch of a step that is open what it begins with.
    fn fill(&self, row: &StepRow) {
        for fill in self.parts.table.fills_of(row) {
            // SAFETY: both are tensors of the open step, of one size, in mapped windows; tensors of
            // a step do not overlap, and no engine writes either, by the verified plan.
            unsafe { ptr::copy_nonoverlapping(fill.from.as_ptr(), fill.to.as_ptr(), fill.bytes) };
        }
        compiler_fence(Ordering::SeqCst);
    }

    /// The open step again.
    ///
    /// # Panics
    /// If none is open.
    #[must_use]
    pub fn open_step(&mut self) -> Step<'_> {
        assert_eq!(self.course.position, Position::Step, "a step is open");
        let table = &self.parts.table;
        Step::new(table.accesses_of(&table.steps[self.course.next_step]))
    }

    /// Ends the step: its writes are done, and the copies that wait for it may start.
    ///
    /// # Errors
    /// If no step is open.
    #[inline]
    pub fn step_end(&mut self) -> Result<(), RuntimeError> {
        let released = self.course.releases(&self.parts.table)?;
        compiler_fence(Ordering::SeqCst);
        if self.course.close(released) {
            self.parts.crew.release(released);
        }
        Ok(())
    }

    /// Ends the iteration. Copies may still run; the next iteration may begin at once.
    ///
    /// # Errors
    /// If a step is open, or the iteration has ops left; then nothing has changed.
    pub fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        self.course.end(&self.parts.table)
    }

    /// Waits until every released copy is complete. Between iterations, the persistent tensors
    /// then are at HOME.
    ///
    /// # Errors
    /// If a copy failed.
    pub fn quiesce(&mut self) -> Result<(), RuntimeError> {
        match self.parts.crew.wait(self.course.released) {
            true => Ok(()),
            false => Err(self.failed()),
        }
    }

    /// How long the application has waited for copies, in nanoseconds.
    pub(crate) const fn stall_ns(&self) -> u64 {
        self.parts.crew.stall_ns()
    }

    /// The error of a failed copy.
    #[cold]
    fn failed(&mut self) -> RuntimeError {
        let parts = &mut self.parts;
        parts.crew.error(&parts.plan.skeleton.tensors)
    }
}
