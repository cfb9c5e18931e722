//! Iterations: recorded on demand, or replayed by a frozen program.
//!
//! Guarantees: while an iteration does what was recorded, each call is one comparison and one step
//! of the program. The first call that is not what was recorded stops the program exactly there
//! (B4), and the iteration goes on on demand with the same bytes. A call that is refused stops
//! nothing (see `attempts`).

use std::collections::BTreeSet;
use std::sync::Arc;

use lgm::trace::Phase;
use vtensor::Mode;

use super::op::Op;
use super::recording::Recording;
use super::replays::Token;
use super::runtime::Runtime;
use super::score::{Event, Score, Spec};
use super::seats::Seats;
use super::switching::Then;
use super::tensor::{Access, Key, ProgramKey, Tensor, TensorDesc};
use super::track::Track;
use crate::error::RuntimeError;

/// Where the application is.
pub(super) enum Place {
    /// Between two iterations.
    Rest,
    /// In an iteration on demand.
    Recording(Recording),
    /// In an iteration of a frozen program.
    Replaying(Cursor),
}

/// How far a frozen iteration came.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    pub(super) track: usize,
    /// Calls, ops, and creations so far.
    pub(super) event: usize,
    pub(super) op: usize,
    pub(super) created: u32,
    pub(super) open: bool,
}

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
        self.at_rest("iteration_begin")?;
        self.keep_waiting()?;
        let track = self.track(key);
        if self.activate(track)? {
            let program = self.tracks[track].program.as_mut();
            let frozen = &mut program.expect("an active track has a program").frozen;
            if let Err(error) = frozen.iteration_begin() {
                self.rescue(&error);
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
            self.vacate()?;
            let check = self.config.check_replays && !self.tracks[track].checked;
            self.place = Place::Recording(Recording {
                track,
                score: Score::default(),
                durations_ns: Vec::new(),
                open: None,
                once: check.then(BTreeSet::new),
                seats: Seats::default(),
            });
        }
        self.phase = Phase::Forward;
        self.registry.serial = self.registry.serial.wrapping_add(1);
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

    /// Begins an op; one that may run again has a token.
    #[inline]
    pub(super) fn begin_op(
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
            return Err(self.out_of_order("op_begin", "call op_end first"));
        }
        if !self.is_next_op(cursor, name, accesses, token.is_some()) {
            self.check_op(cursor, name, accesses)?;
            self.diverge(&|| format!("op {name:?} with {} tensors", accesses.len()));
            return self.record_op(name, accesses, token);
        }
        self.replay_op(cursor, token)?;
        let program = self.tracks[cursor.track].program.as_ref();
        Ok(Op::new(program.expect("it runs").rows(cursor.op)))
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
                let program = self.tracks[cursor.track].program.as_mut();
                program.expect("it runs").frozen.step_end()?;
                cursor.open = false;
                cursor.event += 1;
                cursor.op += 1;
                Ok(())
            }
            Place::Recording(recording) => {
                let Some(open) = recording.open.take() else {
                    return Err(self.out_of_order("op_end", "call op_begin first"));
                };
                self.end_recorded_op(open);
                Ok(())
            }
            Place::Rest | Place::Replaying(_) => {
                Err(self.out_of_order("op_end", "call op_begin first"))
            }
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

    /// Ends the iteration. Copies of a frozen program may still run.
    ///
    /// # Errors
    /// Outside an iteration, or if an op is open.
    pub fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        self.end_touch()?;
        let open = "end the op first, or abort the iteration";
        if let Place::Replaying(cursor) = self.place {
            if cursor.open {
                return Err(self.out_of_order("iteration_end", open));
            }
            if cursor.event == self.tracks[cursor.track].score.events.len() {
                self.run_due(cursor)?;
                let program = self.tracks[cursor.track].program.as_mut();
                let program = program.expect("it runs");
                program.frozen.iteration_end()?;
                self.stats.recomputed.0 += program.recomputed.0;
                self.place = Place::Rest;
                self.stats.frozen_iterations += 1;
                return Ok(());
            }
            self.diverge(&|| "the end of the iteration".into());
        }
        match std::mem::replace(&mut self.place, Place::Rest) {
            Place::Recording(recording) if recording.open.is_none() => {
                self.end_recording(recording);
                Ok(())
            }
            place => {
                self.place = place;
                Err(self.out_of_order("iteration_end", open))
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
            let open = self.tracks[cursor.track].score.events.get(cursor.event);
            let torn = match open {
                Some(Event::Op(op)) if cursor.open => op.merged(),
                _ => Vec::new(),
            };
            self.stop_program(Then::GivenUp);
            self.heap.note_torn(&torn);
        }
        match std::mem::replace(&mut self.place, Place::Rest) {
            Place::Recording(recording) => {
                if let Some(open) = recording.open {
                    self.heap.note_torn(&open.event.merged());
                }
                let gone: Vec<Key> = self.registry.alive().collect();
                gone.into_iter().for_each(|key| self.heap.forget(key));
                self.registry.end_iteration();
                self.stats.aborted_iterations += 1;
                Ok(())
            }
            Place::Rest | Place::Replaying(_) => {
                Err(self.out_of_order("iteration_abort", "there is nothing to abort"))
            }
        }
    }

    /// The row of a kind of iteration.
    pub(super) fn track(&mut self, key: ProgramKey) -> usize {
        let known = self.tracks.iter().position(|track| track.key == key);
        known.unwrap_or_else(|| {
            self.tracks.push(Track::new(key));
            self.tracks.len() - 1
        })
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
        let events = &self.tracks[cursor.track].score.events;
        let Some(Event::Op(op)) = events.get(cursor.event) else {
            return false;
        };
        let same = |(&(key, mode), access): (&(Key, Mode), &Access)| {
            mode == access.mode && self.is(key, access.tensor)
        };
        op.accesses.len() == accesses.len()
            && op.replayable == replayable
            && *op.name == *name
            && op.accesses.iter().zip(accesses).all(same)
    }

    /// Whether a handle is that of a recorded tensor. One that outlived its iteration has two.
    #[inline]
    fn is(&self, key: Key, tensor: Tensor) -> bool {
        let renamed = || {
            self.registry
                .resolve(tensor)
                .is_ok_and(|other| other == key)
        };
        key.handle(self.registry.serial) == tensor || (!key.is_transient() && renamed())
    }

    /// Creates a tensor of the iteration.
    pub(super) fn create_transient(
        &mut self,
        desc: &TensorDesc<'_>,
    ) -> Result<Tensor, RuntimeError> {
        self.end_touch()?;
        if let Place::Replaying(cursor) = &mut self.place {
            let events = &self.tracks[cursor.track].score.events;
            let next = events.get(cursor.event);
            if !cursor.open && matches!(next, Some(Event::Create(spec)) if spec.is(desc)) {
                let key = Key::transient(cursor.created);
                cursor.event += 1;
                cursor.created += 1;
                return Ok(key.handle(self.registry.serial));
            }
            self.between("create")?;
            self.diverge(&|| Event::Create(Spec::new(desc)).to_string());
        }
        self.between("create")?;
        let spec = Spec::new(desc);
        let key = self.registry.create_transient(spec.clone());
        if let Err(error) = self.seat(key, &spec) {
            self.registry.destroy_newest();
            return Err(error);
        }
        self.heap.admit(key, &spec);
        if let (Place::Recording(recording), Some(seat)) =
            (&mut self.place, self.heap.seats.get(key))
        {
            recording.seats.insert(key, Arc::clone(seat));
        }
        self.record(Event::Create(spec));
        Ok(key.handle(self.registry.serial))
    }

    /// Destroys a tensor of the iteration.
    pub(super) fn destroy_inside(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        self.end_touch()?;
        if let Place::Replaying(cursor) = self.place {
            let events = &self.tracks[cursor.track].score.events;
            let next = events.get(cursor.event);
            let same = matches!(next, Some(Event::Destroy(key)) if self.is(*key, tensor));
            if let (Place::Replaying(cursor), true, false) = (&mut self.place, same, cursor.open) {
                cursor.event += 1;
                return Ok(());
            }
            self.between("destroy")?;
            self.check_destroy(cursor, tensor)?;
            self.diverge(&|| format!("destruction of {tensor:?}"));
        }
        self.between("destroy")?;
        let key = self.registry.resolve(tensor)?;
        self.check_passing(key)?;
        self.registry.destroy(key);
        self.heap.forget(key);
        self.record(Event::Destroy(key));
        Ok(())
    }

    /// Checks that no op is open.
    fn between(&self, call: &'static str) -> Result<(), RuntimeError> {
        match &self.place {
            Place::Recording(Recording { open: Some(_), .. })
            | Place::Replaying(Cursor { open: true, .. }) => {
                Err(self.out_of_order(call, "end the op first"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that no iteration runs.
    pub(super) fn at_rest(&self, call: &'static str) -> Result<(), RuntimeError> {
        match self.place {
            Place::Rest => Ok(()),
            _ => Err(self.out_of_order(call, "end or abort the iteration first")),
        }
    }

    #[cold]
    pub(super) fn out_of_order(&self, call: &'static str, advice: &'static str) -> RuntimeError {
        let found = match &self.place {
            Place::Rest => "outside an iteration",
            Place::Recording(Recording { open: Some(_), .. })
            | Place::Replaying(Cursor { open: true, .. }) => "inside an op",
            Place::Recording(_) | Place::Replaying(_) => "inside an iteration, between two ops",
        };
        RuntimeError::Order {
            call,
            found,
            advice,
        }
    }
}
