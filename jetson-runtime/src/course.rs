//! Where the application is in a frozen program, and whether a call fits there.
//!
//! In: the calls of an application, as they come. Out: what to wait for and what to release, as
//! absolute counts; or an error that says what was expected. Guarantees: a call out of order
//! changes nothing; one compare a step checks the sequence of ops; no allocation.
//!
//! *Not here*: waiting and releasing, which is the backend's matter.

use vtensor::{OpIndex, StepIndex};

use crate::error::RuntimeError;
use crate::residency::{Progress, Reached};
use crate::table::{StepRow, Table};

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

/// The course of an application through a program.
#[derive(Debug)]
pub(crate) struct Course {
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
    /// Released commands.
    pub(crate) released: [u64; 2],
}

impl Course {
    /// The course right after a freeze.
    pub(crate) fn new(table: &Table) -> Self {
        let counts = table.counts();
        Self {
            position: Position::Rest,
            iteration: 0,
            since: 1,
            next_step: 0,
            counts,
            // Iteration 0 is the freeze: it released and completed as much as any other.
            bases: [0; 2],
            released: counts,
        }
    }

    /// How far the execution came, with its copies.
    pub(crate) fn progress(&self, copies: Reached) -> Progress {
        Progress {
            iteration: self.iteration,
            since: self.since,
            steps: self.next_step,
            open: self.position == Position::Step,
            copies,
        }
    }

    /// Checks that an iteration may begin.
    pub(crate) fn check_rest(&self, call: &'static str) -> Result<(), RuntimeError> {
        match self.position {
            Position::Rest => Ok(()),
            _ => Err(self.out_of_order(call)),
        }
    }

    /// Begins an iteration, which [`Self::check_rest`] has allowed.
    pub(crate) fn begin(&mut self) {
        self.iteration += 1;
        self.next_step = 0;
        self.bases = self.counts.map(|count| count * self.iteration);
        self.position = Position::Between;
    }

    /// Checks that the step of `op` may begin.
    #[inline]
    pub(crate) fn check_step<'t>(
        &self,
        table: &'t Table,
        op: OpIndex,
    ) -> Result<&'t StepRow, RuntimeError> {
        if self.position != Position::Between {
            return Err(self.out_of_order("step_begin"));
        }
        match table.steps.get(self.next_step) {
            Some(row) if row.op == op => Ok(row),
            _ => Err(self.diverged(table, op)),
        }
    }

    /// What a step waits for, by direction.
    #[inline]
    pub(crate) fn needed(&self, row: &StepRow) -> [u64; 2] {
        let [outs, ins] = self.bases;
        [
            outs.wrapping_add_signed(row.counts.out_needed),
            ins.wrapping_add_signed(row.counts.in_needed),
        ]
    }

    /// Opens the step that was allowed, and for which everything has come.
    #[inline]
    pub(crate) const fn open(&mut self) {
        self.position = Position::Step;
    }

    /// Checks that a step is open, and says what its end releases.
    #[inline]
    pub(crate) fn releases(&self, table: &Table) -> Result<[u64; 2], RuntimeError> {
        if self.position != Position::Step {
            return Err(self.out_of_order("step_end"));
        }
        let counts = table.steps[self.next_step].counts;
        let [outs, ins] = self.bases;
        Ok([
            outs.wrapping_add_signed(counts.out_released),
            ins.wrapping_add_signed(counts.in_released),
        ])
    }

    /// Closes the open step. Answers whether anything new is released.
    #[inline]
    pub(crate) fn close(&mut self, released: [u64; 2]) -> bool {
        self.next_step += 1;
        self.position = Position::Between;
        let new = self.released != released;
        self.released = released;
        new
    }

    /// Ends the iteration.
    pub(crate) fn end(&mut self, table: &Table) -> Result<(), RuntimeError> {
        if self.position != Position::Between {
            return Err(self.out_of_order("iteration_end"));
        }
        if let Some(row) = table.steps.get(self.next_step) {
            return Err(RuntimeError::EndedEarly { expected: row.op });
        }
        self.position = Position::Rest;
        Ok(())
    }

    /// Checks that a tensor may be read or written now.
    pub(crate) fn check_access(&self, call: &'static str) -> Result<(), RuntimeError> {
        match self.check_rest(call) {
            Err(RuntimeError::Order { call, found, .. }) => Err(RuntimeError::Order {
                call,
                found,
                advice: "finish the iteration first",
            }),
            other => other,
        }
    }

    /// HOME has new content: what else still lies on the device or in the tier is stale.
    pub(crate) const fn rewritten(&mut self) {
        self.since = self.iteration + 1;
    }

    /// Iterations that are over.
    pub(crate) fn iterations(&self) -> u64 {
        self.iteration - u64::from(self.position != Position::Rest)
    }

    #[cold]
    fn out_of_order(&self, call: &'static str) -> RuntimeError {
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
    fn diverged(&self, table: &Table, given: OpIndex) -> RuntimeError {
        match table.steps.get(self.next_step) {
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
