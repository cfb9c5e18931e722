//! Recording: an iteration on demand, written down as it goes.

use std::collections::BTreeSet;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Instant;

use tracing::warn;
use vtensor::{Mode, limits};

use super::iteration::Place;
use super::op::{Op, Row};
use super::replay_check::ReplayCheck;
use super::replays::Token;
use super::runtime::Runtime;
use super::score::{Event, OpEvent, Score, merged, mode_of};
use super::seats::Seats;
use super::tensor::{Access, Key};
use crate::error::RuntimeError;
use crate::failure::short_name;
use crate::scale::to_usize;
use crate::stats::elapsed_ns;

/// An iteration on demand.
pub(super) struct Recording {
    pub(super) track: usize,
    pub(super) score: Score,
    pub(super) durations_ns: Vec<u64>,
    pub(super) open: Option<OpenOp>,
    /// Ops that did not leave the same bits when they ran again; `None`: it is not checked.
    pub(super) once: Option<BTreeSet<usize>>,
    /// Addresses of its own tensors that keep theirs.
    pub(super) seats: Seats,
}

/// An op that runs on demand.
pub(super) struct OpenOp {
    pub(super) event: OpEvent,
    began: Instant,
    check: Option<Box<ReplayCheck>>,
}

impl Runtime {
    pub(super) fn record(&mut self, event: Event) {
        if let Place::Recording(recording) = &mut self.place {
            recording.score.events.push(event);
        }
    }

    /// Begins an op on demand.
    #[cold]
    pub(super) fn record_op(
        &mut self,
        name: &str,
        accesses: &[Access],
        token: Option<Token>,
    ) -> Result<Op<'_>, RuntimeError> {
        let Place::Recording(Recording { open: None, .. }) = self.place else {
            return Err(self.out_of_order("op_begin", "begin an iteration, end the op before"));
        };
        let keys: Result<Vec<(Key, Mode)>, RuntimeError> = accesses
            .iter()
            .map(|access| Ok((self.registry.resolve(access.tensor)?, access.mode)))
            .collect();
        let event = OpEvent {
            name: name.into(),
            phase: self.phase,
            accesses: keys?,
            replayable: token.is_some(),
        };
        let once = merged(&event.accesses);
        let undefined = |&&(key, mode): &&(Key, Mode)| {
            key.is_transient() && mode == Mode::Read && !self.heap.is_written(key)
        };
        if let Some((key, _)) = once.iter().find(undefined) {
            return Err(RuntimeError::ReadBeforeWrite {
                op: short_name(name),
                name: short_name(&self.heap.items[key].name),
            });
        }
        self.heap.acquire(name, &once)?;
        self.rows.clear();
        for (key, _) in &event.accesses {
            self.rows.push(Row {
                pointer: self.heap.pointer(*key),
                bytes: to_usize(self.heap.items[key].asked),
                mode: mode_of(*key, &once),
            });
        }
        if let Place::Recording(recording) = &mut self.place {
            let check = recording.once.as_ref().and(token);
            let check = check.map(|token| Box::new(ReplayCheck::new(token, &self.rows)));
            let began = Instant::now();
            recording.open = Some(OpenOp {
                event,
                began,
                check,
            });
        }
        compiler_fence(Ordering::SeqCst);
        Ok(Op::new(&self.rows))
    }

    /// Ends an op on demand.
    pub(super) fn end_recorded_op(&mut self, open: OpenOp) {
        compiler_fence(Ordering::SeqCst);
        let ns = elapsed_ns(open.began);
        if let (Some(check), Some(replayer)) = (open.check, &mut self.replayer)
            && let Err(found) = check.run(&self.rows, replayer)
            && let Place::Recording(recording) = &mut self.place
        {
            let op = &*open.event.name;
            warn!(op, found, "it cannot run again, whatever it says");
            let number = recording.durations_ns.len();
            recording.once.get_or_insert_default().insert(number);
        }
        self.heap.note_writes(&open.event.merged());
        if let Place::Recording(recording) = &mut self.place {
            recording.durations_ns.push(ns.min(limits::OP_NS_MAX));
            recording.score.events.push(Event::Op(open.event));
        }
    }

    /// Takes a recorded iteration in; what it left behind becomes persistent.
    pub(super) fn end_recording(&mut self, mut recording: Recording) {
        let left: Vec<Key> = self.registry.alive().collect();
        for key in left {
            recording
                .score
                .kept
                .push(u32::try_from(key.index()).expect("numbers are u32"));
            let promoted = self.registry.promote(key);
            self.heap.rename(key, promoted);
            self.to_keep.push(promoted);
        }
        self.registry.end_iteration();
        self.stats.recorded_iterations += 1;
        let Recording {
            track,
            score,
            durations_ns,
            seats,
            once,
            ..
        } = recording;
        self.tracks[track].note(score, durations_ns);
        if let Some(once) = once {
            self.tracks[track].note_check(once);
        }
        self.tracks[track].seats = seats;
    }
}
