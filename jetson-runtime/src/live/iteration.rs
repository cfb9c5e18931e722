//! Iterations: recorded on demand, or replayed by a frozen program.
//!
//! Guarantees: while an iteration does what was recorded, each call is one comparison and one step
//! of the program. The first call that is not what was recorded stops the program exactly there
//! (B4), and the iteration goes on on demand with the same bytes. A call that is refused stops
//! nothing (see `attempts`).

use std::mem;

use lgm::trace::Phase;
use vtensor::Mode;

use super::op::{Op, Token};
use super::place::{Cursor, Place};
use super::recording::Recording;
use super::runtime::Runtime;
use super::score::{self, Event};
use super::switching::Then;
use super::tensor::{Access, Key, ProgramKey};
use crate::error::RuntimeError;
use crate::failure::short_name;

impl Runtime {
    /// Begins an iteration of the kind `key`. With enough equal iterations recorded, this is where
    /// a program is planned, proven and frozen, once; and where another kind's program makes way.
    ///
    /// # Errors
    /// If an iteration runs; if carrying tensors fails (then nothing is lost and nothing began); if
    /// there is no room for what the iteration before left behind and is to stay, [`Config::keep`].
    ///
    /// [`Config::keep`]: super::Config::keep
    pub fn iteration_begin(&mut self, key: ProgramKey) -> Result<(), RuntimeError> {
        self.place.at_rest("iteration_begin")?;
        self.holdings.keep_waiting()?;
        let track = self.holdings.track(key);
        if self.holdings.activate(track)? {
            let program = self.holdings.tracks[track].program.as_mut();
            let frozen = &mut program.expect("an active track has a program").frozen;
            if let Err(error) = frozen.iteration_begin() {
                self.holdings.rescue(&error);
                return Err(error);
            }
            self.place = Place::Replaying(Cursor {
                track,
                event: 0,
                op: 0,
                created: 0,
                open: false,
            });
        } else {
            self.holdings.vacate()?;
            let check = self.holdings.config.check_replays && !self.holdings.tracks[track].checked;
            let moved = self.holdings.heap.moved;
            self.place = Place::Recording(Recording::new(track, check, moved));
        }
        self.phase = Phase::Forward;
        self.begun.clear();
        self.holdings.registry.serial = self.holdings.registry.serial.wrapping_add(1);
        Ok(())
    }

    /// The part of the step that the following ops belong to. Forward at first. Only for traces and
    /// baselines: it changes no result.
    pub const fn phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Begins an op: its tensors are at the addresses in the answer until [`Self::op_end`].
    ///
    /// # Errors
    /// Outside an iteration, or if an op is open; if a handle stands for nothing; if the tensors do
    /// not fit into the budget together; if the spill tier fails. The op may be tried again.
    #[inline]
    pub fn op_begin(&mut self, name: &str, accesses: &[Access]) -> Result<Op<'_>, RuntimeError> {
        self.begin_op(name, accesses, None)
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
        match self.holdings.replayer.is_some() {
            true => self.begin_op(name, accesses, Some(token)),
            false => Err(RuntimeError::NoReplayer {
                op: short_name(name),
            }),
        }
    }

    /// Begins an op; one that may run again has a token.
    #[inline]
    fn begin_op(
        &mut self,
        name: &str,
        accesses: &[Access],
        token: Option<Token>,
    ) -> Result<Op<'_>, RuntimeError> {
        self.end_touch()?;
        let Place::Replaying(cursor) = self.place else {
            return self.record_op(name, accesses, token);
        };
        if cursor.open {
            return Err(self.place.out_of_order("op_begin", "call op_end first"));
        }
        if !self.is_next_op(cursor, name, accesses, token.is_some()) {
            self.holdings.check_op(cursor, name, accesses)?;
            self.diverge(&|| format!("op {name:?} with {} tensors", accesses.len()));
            return self.record_op(name, accesses, token);
        }
        self.replay_op(cursor, token)?;
        let program = self.holdings.tracks[cursor.track].program.as_ref();
        let program = program.expect("it runs");
        Ok(Op::new(program.rows(cursor.op), program.frozen.on_host()))
    }

    /// Begins an op on demand.
    #[cold]
    fn record_op(
        &mut self,
        name: &str,
        accesses: &[Access],
        token: Option<Token>,
    ) -> Result<Op<'_>, RuntimeError> {
        match &mut self.place {
            Place::Recording(recording @ Recording { open: None, .. }) => {
                recording.op_begin(&mut self.holdings, name, self.phase, accesses, token)
            }
            place => Err(place.out_of_order("op_begin", "begin an iteration, end the op before")),
        }
    }

    /// Ends the open op.
    ///
    /// # Errors
    /// If no op is open.
    #[inline]
    pub fn op_end(&mut self) -> Result<(), RuntimeError> {
        self.touching = false;
        match &mut self.place {
            Place::Replaying(cursor) if cursor.open => {
                let program = self.holdings.tracks[cursor.track].program.as_mut();
                program.expect("it runs").frozen.step_end()?;
                cursor.open = false;
                cursor.event += 1;
                cursor.op += 1;
                Ok(())
            }
            Place::Recording(recording) if recording.open.is_some() => {
                recording.op_end(&mut self.holdings)
            }
            place => Err(place.out_of_order("op_end", "call op_begin first")),
        }
    }

    /// Runs an op: begins it, lets `body` compute, ends it.
    ///
    /// # Errors
    /// As [`Self::op_begin`].
    pub fn op<T>(
        &mut self,
        name: &str,
        accesses: &[Access],
        body: impl FnOnce(&mut Op<'_>) -> T,
    ) -> Result<T, RuntimeError> {
        let result = body(&mut self.op_begin(name, accesses)?);
        self.op_end()?;
        Ok(result)
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

    /// Ends the op that a touch has begun, if one is open.
    #[inline]
    pub(super) fn end_touch(&mut self) -> Result<(), RuntimeError> {
        if !self.touching {
            return Ok(());
        }
        self.touching = false;
        self.op_end()
    }

    /// Ends the iteration. Copies of a frozen program may still run.
    ///
    /// # Errors
    /// Outside an iteration, or if an op is open.
    pub fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        self.end_touch()?;
        let open = "end the op first, or abort the iteration";
        if let Place::Replaying(cursor) = self.place {
            if cursor.open {
                return Err(self.place.out_of_order("iteration_end", open));
            }
            if cursor.event == self.holdings.tracks[cursor.track].score.events.len() {
                self.run_due(cursor)?;
                let program = self.holdings.tracks[cursor.track].program.as_mut();
                let program = program.expect("it runs");
                program.frozen.iteration_end()?;
                self.holdings.stats.recomputed.0 += program.recomputed.0;
                self.place = Place::Rest;
                self.holdings.stats.frozen_iterations += 1;
                return Ok(());
            }
            self.diverge(&|| "the end of the iteration".into());
        }
        match mem::replace(&mut self.place, Place::Rest) {
            Place::Recording(recording) if recording.open.is_none() => {
                recording.finish(&mut self.holdings);
                Ok(())
            }
            place => {
                self.place = place;
                Err(self.place.out_of_order("iteration_end", open))
            }
        }
    }

    /// Gives the iteration up, wherever it is. Persistent tensors hold what the ops before have
    /// written. Torn is what an open op was writing, and lost what a program had given up because a
    /// later op was to overwrite it; reading that is an error. Tensors of the iteration are gone.
    ///
    /// # Errors
    /// Outside an iteration.
    pub fn iteration_abort(&mut self) -> Result<(), RuntimeError> {
        self.touching = false;
        if let Place::Replaying(cursor) = self.place {
            let events = &self.holdings.tracks[cursor.track].score.events;
            let open = events.get(cursor.event);
            let torn = match open {
                Some(Event::Op(op)) if cursor.open => op.merged(),
                _ => Vec::new(),
            };
            self.stop_program(Then::GivenUp);
            self.holdings.heap.note_torn(&torn);
            self.begun.extend(score::written(&torn));
        }
        match mem::replace(&mut self.place, Place::Rest) {
            Place::Recording(recording) => {
                self.begun.extend(recording.written());
                recording.abort(&mut self.holdings);
                Ok(())
            }
            place => Err(place.out_of_order("iteration_abort", "there is nothing to abort")),
        }
    }

    /// Whether an op is what was recorded next.
    #[inline]
    fn is_next_op(
        &self,
        cursor: Cursor,
        name: &str,
        accesses: &[Access],
        replayable: bool,
    ) -> bool {
        let events = &self.holdings.tracks[cursor.track].score.events;
        let Some(Event::Op(op)) = events.get(cursor.event) else {
            return false;
        };
        let same = |(&(key, mode), access): (&(Key, Mode), &Access)| {
            mode == access.mode && self.holdings.registry.is(key, access.tensor)
        };
        op.accesses.len() == accesses.len()
            && op.replayable == replayable
            && *op.name == *name
            && op.accesses.iter().zip(accesses).all(same)
    }
}
