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

use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Instant;

use lgm::plan::Plan;
use vtensor::{OpIndex, StepIndex};

use crate::arena::Arena;
use crate::content::Content;
use crate::counters::Counters;
use crate::engine::{EngineOptions, Engines};
use crate::error::RuntimeError;
use crate::failure::{Direction, Failure};
use crate::scale::Scale;
use crate::spill::Tier;
use crate::stats::elapsed_ns;
use crate::step::Step;
use crate::table::Table;
use crate::window_map::WindowMap;

/// What a frozen runtime owns. Fields are dropped in this order: engines end before the memory
/// that they copy goes.
pub(crate) struct Parts {
    pub(crate) engines: Engines,
    pub(crate) counters: Arc<Counters>,
    pub(crate) table: Table,
    pub(crate) content: Content,
    pub(crate) map: WindowMap,
    pub(crate) arena: Arc<Arena>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) plan: Plan,
    pub(crate) scale: Scale,
    pub(crate) engine_options: EngineOptions,
}

/// Where the application is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Between two iterations.
    Rest,
    /// In an iteration, between two steps.
    Between,
    /// In a step.
    Step,
}

/// A program in execution. Calls may come from any thread, one at a time.
pub struct Frozen {
    pub(crate) parts: Parts,
    pub(crate) position: Position,
    /// The iteration that runs, or ran last; counted from 1.
    pub(crate) iteration: u64,
    /// The first iteration since contents were brought to HOME, or written there.
    pub(crate) since: u64,
    /// The step that runs or comes next.
    pub(crate) next_step: usize,
    /// Commands per iteration, by direction.
    counts: [u64; 2],
    /// Where this iteration's counts begin, by direction.
    bases: [u64; 2],
    /// Completed commands as last seen: saves a look at a cache line that an engine writes.
    seen: [u64; 2],
    /// Released commands.
    released: [u64; 2],
    pub(crate) stall_ns: u64,
    pub(crate) stalls: u64,
    pub(crate) failure: Option<Failure>,
}

impl Frozen {
    pub(crate) fn new(parts: Parts) -> Self {
        let counts = [parts.table.outs.len() as u64, parts.table.ins.len() as u64];
        Self {
            parts,
            position: Position::Rest,
            iteration: 0,
            since: 1,
            next_step: 0,
            counts,
            // Iteration 0 is the freeze: it released and completed as much as any other.
            bases: [0; 2],
            seen: counts,
            released: counts,
            stall_ns: 0,
            stalls: 0,
            failure: None,
        }
    }

    /// The state right after the freeze. The counters must be new ones.
    pub(crate) fn begin_anew(&mut self) {
        self.position = Position::Rest;
        self.iteration = 0;
        self.since = 1;
        self.next_step = 0;
        self.bases = [0; 2];
        self.seen = self.counts;
        self.released = self.counts;
        self.stall_ns = 0;
        self.stalls = 0;
        self.failure = None;
    }

    /// Begins an iteration.
    ///
    /// # Errors
    /// If an iteration runs already, or a copy failed.
    pub fn iteration_begin(&mut self) -> Result<(), RuntimeError> {
        if self.position != Position::Rest {
            return Err(self.out_of_order("iteration_begin"));
        }
        if self.parts.counters.failed() {
            return Err(self.failed());
        }
        self.iteration += 1;
        self.next_step = 0;
        self.bases = self.counts.map(|count| count * self.iteration);
        self.position = Position::Between;
        Ok(())
    }

    /// Begins the step of op `op`: waits until its tensors are in place (E1).
    ///
    /// # Errors
    /// If `op` is not the op that was recorded here, no iteration runs, a step is open, or a copy
    /// failed.
    #[inline]
    pub fn step_begin(&mut self, op: OpIndex) -> Result<Step<'_>, RuntimeError> {
        if self.position != Position::Between {
            return Err(self.out_of_order("step_begin"));
        }
        let row = match self.parts.table.steps.get(self.next_step) {
            Some(row) if row.op == op => *row,
            _ => return Err(self.diverged(op)),
        };
        if self.parts.counters.failed() {
            return Err(self.failed());
        }
        let counts = row.counts;
        let [out_base, in_base] = self.bases;
        let outs = out_base.wrapping_add_signed(counts.out_needed);
        let ins = in_base.wrapping_add_signed(counts.in_needed);
        if self.seen[0] < outs || self.seen[1] < ins {
            self.wait([outs, ins])?;
        }
        self.position = Position::Step;
        // The same page has several addresses, which a compiler takes for different memory: what
        // follows must not be moved before what an earlier step did.
        compiler_fence(Ordering::SeqCst);
        let first = row.first_access as usize;
        Ok(Step::new(
            &self.parts.table.accesses[first..first + row.access_count as usize],
        ))
    }

    /// Ends the step: its writes are done, and the copies that wait for it may start.
    ///
    /// # Errors
    /// If no step is open.
    #[inline]
    pub fn step_end(&mut self) -> Result<(), RuntimeError> {
        if self.position != Position::Step {
            return Err(self.out_of_order("step_end"));
        }
        compiler_fence(Ordering::SeqCst);
        let counts = self.parts.table.steps[self.next_step].counts;
        let [out_base, in_base] = self.bases;
        let outs = out_base.wrapping_add_signed(counts.out_released);
        let ins = in_base.wrapping_add_signed(counts.in_released);
        self.next_step += 1;
        self.position = Position::Between;
        if self.released != [outs, ins] {
            self.released = [outs, ins];
            self.parts.counters.queue(Direction::Out).release(outs);
            self.parts.counters.queue(Direction::In).release(ins);
            self.parts.counters.wake_engines();
        }
        Ok(())
    }

    /// Ends the iteration. Copies may still run; the next iteration may begin at once.
    ///
    /// # Errors
    /// If a step is open, or the iteration has ops left; then nothing has changed.
    pub fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        if self.position != Position::Between {
            return Err(self.out_of_order("iteration_end"));
        }
        if let Some(row) = self.parts.table.steps.get(self.next_step) {
            return Err(RuntimeError::EndedEarly { expected: row.op });
        }
        self.position = Position::Rest;
        Ok(())
    }

    /// Waits until every released copy is complete. Between iterations, the persistent tensors
    /// then are at HOME.
    ///
    /// # Errors
    /// If a copy failed.
    pub fn quiesce(&mut self) -> Result<(), RuntimeError> {
        self.wait(self.released)
    }

    /// Waits until so many outs and ins are complete.
    fn wait(&mut self, wanted: [u64; 2]) -> Result<(), RuntimeError> {
        let counters = &*self.parts.counters;
        let mut seen = self.seen;
        let mut arrived = || {
            seen = [
                counters.queue(Direction::Out).done(),
                counters.queue(Direction::In).done(),
            ];
            seen[0] >= wanted[0] && seen[1] >= wanted[1]
        };
        let mut complete = arrived();
        if !complete {
            let start = Instant::now();
            counters.application.wait_until(|| {
                complete = arrived();
                complete || counters.failed()
            });
            self.stall_ns = self.stall_ns.saturating_add(elapsed_ns(start));
            self.stalls += 1;
        }
        self.seen = seen;
        if complete { Ok(()) } else { Err(self.failed()) }
    }

    /// The error of a failed copy.
    #[cold]
    pub(crate) fn failed(&mut self) -> RuntimeError {
        if self.failure.is_none() {
            self.failure = {
                let parts = &mut self.parts;
                parts.engines.failure(&parts.plan.skeleton.tensors)
            };
        }
        match &self.failure {
            Some(failure) => RuntimeError::CopyFailed(failure.clone()),
            None => RuntimeError::EngineDied,
        }
    }

    #[cold]
    pub(crate) fn out_of_order(&self, call: &'static str) -> RuntimeError {
        let (found, advice) = match self.position {
            Position::Rest => ("outside an iteration", "call iteration_begin first"),
            Position::Between => (
                "in an iteration, between two steps",
                "go on with step_begin, or with iteration_end after the last step",
            ),
            Position::Step => ("inside a step", "call step_end first"),
        };
        RuntimeError::Order {
            call,
            found,
            advice,
        }
    }

    #[cold]
    fn diverged(&self, given: OpIndex) -> RuntimeError {
        match self.parts.table.steps.get(self.next_step) {
            Some(row) => RuntimeError::Diverged {
                step: StepIndex::from_index(self.next_step),
                expected: row.op,
                given,
            },
            None => RuntimeError::PastTheEnd {
                steps: u32::try_from(self.next_step).expect("steps are counted in u32"),
                given,
            },
        }
    }
}
