//! Ops that may run again: what an application gives up and computes anew where a program says so.
//!
//! In: ops that are declared so, each with a token, and one replayer for all of them. Out: before
//! an op of a frozen iteration, the ops that are due run again on the lives of tensors that the
//! program names. Guarantees: the replayer is called in the call that begins an op (or ends the
//! iteration), on its thread, and sees the tensors of its op in the order of the op's accesses;
//! nothing is allocated, locked or decided here.
//!
//! *Not here*: programs that stop before what they had given up was computed (see `recovery`).

use std::time::Instant;

use vtensor::StepKind;

use super::op::{Op, Token};
use super::place::{Cursor, Place};
use super::runtime::Runtime;
use crate::error::RuntimeError;
use crate::stats::elapsed_ns;

impl Runtime {
    /// Sets what runs ops again that [`Self::op_begin_replayable`] began. `replayer(token, op)` has
    /// the token that the op was begun with in this iteration, and its tensors: the same as then,
    /// in the same order and modes, at other addresses. It computes what the op computed: what it
    /// overwrites it writes whole, with the same bytes.
    ///
    /// A replayer that fails stops the program; what it was to compute is lost, by name.
    pub fn set_replayer(
        &mut self,
        replayer: impl FnMut(Token, &mut Op<'_>) -> Result<(), &'static str> + Send + 'static,
    ) {
        self.holdings.replayer = Some(Box::new(replayer));
    }

    /// Begins the next op of the program that runs.
    #[inline]
    pub(super) fn replay_op(
        &mut self,
        cursor: Cursor,
        token: Option<Token>,
    ) -> Result<(), RuntimeError> {
        self.run_due(cursor)?;
        let program = self.holdings.tracks[cursor.track].program.as_mut();
        let program = program.expect("it runs");
        if let Some(token) = token {
            program.tokens[cursor.op] = token;
        }
        if let Err(error) = program.frozen.step_begin() {
            return Err(self.failed_step(error));
        }
        if let Place::Replaying(cursor) = &mut self.place {
            cursor.open = true;
        }
        Ok(())
    }

    /// Runs again what is due before the next op.
    #[inline]
    pub(super) fn run_due(&mut self, cursor: Cursor) -> Result<(), RuntimeError> {
        let holdings = &mut self.holdings;
        let track = &mut holdings.tracks[cursor.track];
        let program = track.program.as_mut().expect("it runs");
        let Some(StepKind::Replay(_)) = program.frozen.due() else {
            return Ok(());
        };
        let replayer = holdings.replayer.as_mut();
        let replayer = replayer.expect("ops are replayable with one");
        let (begin, stalled) = (Instant::now(), program.frozen.stall_ns());
        let ran = program.run_again(&track.score, replayer, &**holdings.heap.ground());
        let stalled = program.frozen.stall_ns() - stalled;
        holdings.stats.recompute_ns += elapsed_ns(begin).saturating_sub(stalled);
        ran.map_err(|error| self.failed_step(error))
    }

    /// The program cannot go on: the iteration goes on on demand.
    #[cold]
    fn failed_step(&mut self, error: RuntimeError) -> RuntimeError {
        match error {
            RuntimeError::Replay { .. } => self.holdings.stats.failed_replays += 1,
            _ => self.holdings.stats.failed_copies += 1,
        }
        self.diverge(&|| error.to_string());
        error
    }
}
