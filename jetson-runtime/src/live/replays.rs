//! Ops that may run again: what an application gives up and computes anew where a program says so.
//!
//! In: ops that are declared so, each with a token, and one replayer for all of them. Out: before
//! an op of a frozen iteration, the ops that are due run again on the lives of tensors that the
//! program names. Guarantees: the replayer is called in the call that begins an op (or ends the
//! iteration), on its thread, and sees the tensors of its op in the order of the op's accesses;
//! nothing is allocated, locked or decided here.
//!
//! *Not here*: programs that stop before what they had given up was computed (see `recovery`).

use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Instant;

use vtensor::{OpIndex, StepKind};

use super::iteration::{Cursor, Place};
use super::op::Op;
use super::program::Program;
use super::runtime::Runtime;
use super::score::Score;
use super::tensor::Access;
use crate::error::RuntimeError;
use crate::failure::short_name;
use crate::stats::elapsed_ns;

/// What the application says of an op, for its replayer: two words, such as a function and its
/// data.
pub type Token = [usize; 2];

/// Runs an op again: computes what the op computed, on the tensors that it is given now. The error
/// is a sentence for people.
pub(super) type Replayer = Box<dyn FnMut(Token, &mut Op<'_>) -> Result<(), &'static str> + Send>;

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
        self.replayer = Some(Box::new(replayer));
    }

    /// As [`Self::op_begin`], for an op that may run again later in this iteration, any number of
    /// times: so a program may give up what it writes. What the op overwrites is a function of
    /// what it reads; what it reads and writes, of that and of its content before. The latter has
    /// no influence on what it overwrites: running statistics are an example, which a run of the
    /// op that comes later does not change.
    ///
    /// # Errors
    /// As [`Self::op_begin`]; without a replayer; if an op that is due could not run again.
    #[inline]
    pub fn op_begin_replayable(
        &mut self,
        name: &str,
        accesses: &[Access],
        token: Token,
    ) -> Result<Op<'_>, RuntimeError> {
        match self.replayer.is_some() {
            true => self.begin_op(name, accesses, Some(token)),
            false => Err(RuntimeError::NoReplayer {
                op: short_name(name),
            }),
        }
    }

    /// Runs an op that may run again.
    ///
    /// # Errors
    /// As [`Self::op_begin_replayable`].
    pub fn op_replayable<T>(
        &mut self,
        name: &str,
        accesses: &[Access],
        token: Token,
        body: impl FnOnce(&mut Op<'_>) -> T,
    ) -> Result<T, RuntimeError> {
        let result = body(&mut self.op_begin_replayable(name, accesses, token)?);
        self.op_end()?;
        Ok(result)
    }

    /// Begins the next op of the program that runs.
    #[inline]
    pub(super) fn replay_op(
        &mut self,
        cursor: Cursor,
        token: Option<Token>,
    ) -> Result<(), RuntimeError> {
        self.run_due(cursor)?;
        let program = self.tracks[cursor.track].program.as_mut();
        let program = program.expect("it runs");
        if let Some(token) = token {
            program.tokens[cursor.op] = token;
        }
        let step = OpIndex::from_index(program.frozen.course.next_step);
        if let Err(error) = program.frozen.step_begin(step).map(drop) {
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
        let track = &mut self.tracks[cursor.track];
        let program = track.program.as_mut().expect("it runs");
        let Some(StepKind::Replay(_)) = program.frozen.due() else {
            return Ok(());
        };
        let replayer = self.replayer.as_mut().expect("ops are replayable with one");
        let (begin, stalled) = (Instant::now(), program.frozen.stall_ns());
        let ran = run_again(program, &track.score, replayer);
        let stalled = program.frozen.stall_ns() - stalled;
        self.stats.recompute_ns += elapsed_ns(begin).saturating_sub(stalled);
        ran.map_err(|error| self.failed_step(error))
    }

    /// The program cannot go on: the iteration goes on on demand.
    #[cold]
    fn failed_step(&mut self, error: RuntimeError) -> RuntimeError {
        match error {
            RuntimeError::Replay { .. } => self.stats.failed_replays += 1,
            _ => self.stats.failed_copies += 1,
        }
        self.diverge(&|| error.to_string());
        error
    }
}

/// Runs the steps that are due until one of them is the application's own.
fn run_again(
    program: &mut Program,
    score: &Score,
    replayer: &mut Replayer,
) -> Result<(), RuntimeError> {
    while let Some(StepKind::Replay(op)) = program.frozen.due() {
        let step = program.frozen.course.next_step;
        program.frozen.step_begin(OpIndex::from_index(step))?;
        let token = program.tokens[op.index()];
        let mut put_back = std::mem::take(&mut program.put_back);
        let mut tensors = Op::new(program.rows_of_step(step));
        let ran = put_back.around(step, || replayer(token, &mut tensors));
        program.put_back = put_back;
        ran.map_err(|reason| failed(score, op, reason))?;
        compiler_fence(Ordering::SeqCst);
        program.frozen.step_end()?;
    }
    Ok(())
}

/// The error of an op that could not run again.
#[cold]
pub(super) fn failed(score: &Score, op: OpIndex, reason: &'static str) -> RuntimeError {
    let name = score.ops().nth(op.index()).map_or("", |op| &op.name);
    RuntimeError::Replay {
        op: short_name(name),
        reason,
    }
}
