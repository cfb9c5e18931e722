//! Recording: an iteration on demand, written down as it goes.
//!
//! In: its calls, and the heap, where all its tensors are. Out: the addresses of each op's tensors;
//! at the end a score with durations, for the track of its kind.

use std::collections::BTreeSet;
use std::sync::atomic::{Ordering, compiler_fence};

use lgm::trace::Phase;
use tracing::warn;
use vtensor::{Bytes, Mode, limits};

use super::heap::Moved;
use super::holdings::Holdings;
use super::op::{Op, Row, Token};
use super::replay_check::ReplayCheck;
use super::score::{Event, OpEvent, Score, merged, mode_of, written};
use super::seats::Seats;
use super::tensor::{Access, Key};
use super::track::OnDemand;
use crate::error::RuntimeError;
use crate::failure::{Direction, short_name};
use crate::ground::OpClock;
use crate::scale::to_usize;

/// An iteration on demand.
pub(super) struct Recording {
    track: usize,
    pub(super) score: Score,
    pub(super) durations_ns: Vec<u64>,
    pub(super) open: Option<Box<OpenOp>>,
    /// Ops that did not leave the same bits when they ran again; `None`: it is not checked.
    once: Option<BTreeSet<usize>>,
    /// Addresses of its own tensors that keep theirs.
    pub(super) seats: Seats,
    /// What the heap had moved before.
    moved: Moved,
}

/// An op that runs on demand.
pub(super) struct OpenOp {
    event: OpEvent,
    clock: OpClock,
    /// Its tensors.
    rows: Vec<Row>,
    check: Option<ReplayCheck>,
}

impl Recording {
    /// The beginning of an iteration of a kind. `check`: whether ops that may run again are
    /// checked.
    pub(super) fn new(track: usize, check: bool, moved: Moved) -> Self {
        Self {
            track,
            score: Score::default(),
            durations_ns: Vec::new(),
            open: None,
            once: check.then(BTreeSet::new),
            seats: Seats::default(),
            moved,
        }
    }

    /// Begins an op. None is open.
    pub(super) fn op_begin(
        &mut self,
        holdings: &mut Holdings,
        name: &str,
        phase: Phase,
        accesses: &[Access],
        token: Option<Token>,
    ) -> Result<Op<'_>, RuntimeError> {
        let keys: Result<Vec<(Key, Mode)>, RuntimeError> = accesses
            .iter()
            .map(|access| Ok((holdings.registry.resolve(access.tensor)?, access.mode)))
            .collect();
        let event = OpEvent {
            name: name.into(),
            phase,
            accesses: keys?,
            replayable: token.is_some(),
        };
        let heap = &mut holdings.heap;
        let once = merged(&event.accesses);
        let undefined = |&&(key, mode): &&(Key, Mode)| {
            key.is_transient() && mode == Mode::Read && !heap.is_written(key)
        };
        if let Some((key, _)) = once.iter().find(undefined) {
            return Err(RuntimeError::ReadBeforeWrite {
                op: short_name(name),
                name: short_name(&heap.items[key].name),
            });
        }
        heap.acquire(name, &once)?;
        let row = |&(key, _): &(Key, Mode)| Row {
            pointer: heap.pointer(key),
            bytes: to_usize(heap.items[&key].asked),
            mode: mode_of(key, &once),
        };
        let rows: Vec<Row> = event.accesses.iter().map(row).collect();
        let check = self.once.as_ref().and(token);
        let check = check.map(|token| ReplayCheck::new(token, &rows));
        let on_host = heap.ground().on_host();
        let clock = heap.ground().time_op();
        let open = self.open.insert(Box::new(OpenOp {
            event,
            rows,
            check,
            clock,
        }));
        compiler_fence(Ordering::SeqCst);
        Ok(Op::new(&open.rows, on_host))
    }

    /// Ends the open op: waits until it is done. If it failed, what it was to write is torn.
    pub(super) fn op_end(&mut self, holdings: &mut Holdings) -> Result<(), RuntimeError> {
        let open = self.open.take().expect("the caller looked");
        compiler_fence(Ordering::SeqCst);
        let ended = holdings.heap.ground().end_op(open.clock);
        if ended.is_err() {
            holdings.heap.note_torn(&open.event.merged());
        }
        let ns = ended?;
        if let (Some(check), Some(replayer)) = (open.check, &mut holdings.replayer)
            && let Err(found) = check.run(&open.rows, replayer)
        {
            let op = &*open.event.name;
            warn!(op, found, "it cannot run again, whatever it says");
            let number = self.durations_ns.len();
            self.once.get_or_insert_default().insert(number);
        }
        holdings.heap.note_writes(&open.event.merged());
        self.durations_ns.push(ns.min(limits::OP_NS_MAX));
        self.score.events.push(Event::Op(open.event));
        Ok(())
    }

    /// Ends the iteration: its kind's track takes it in, and what it left behind becomes
    /// persistent.
    pub(super) fn finish(mut self, holdings: &mut Holdings) {
        let left: Vec<Key> = holdings.registry.alive().collect();
        for key in left {
            let number = u32::try_from(key.index()).expect("numbers are u32");
            self.score.kept.push(number);
            let promoted = holdings.registry.promote(key);
            holdings.heap.rename(key, promoted);
            holdings.to_keep.push(promoted);
        }
        holdings.registry.end_iteration();
        holdings.stats.recorded_iterations += 1;
        let now = holdings.heap.moved;
        let out = Direction::Out.index();
        let computed = self.durations_ns.iter().sum::<u64>();
        let track = &mut holdings.tracks[self.track];
        track.note(self.score, self.durations_ns);
        track.on_demand = OnDemand {
            written: Bytes(now.bytes[out] - self.moved.bytes[out]),
            ns: computed.saturating_add(now.ns.saturating_sub(self.moved.ns)),
        };
        if let Some(once) = self.once {
            track.note_check(once);
        }
        track.seats = self.seats;
    }

    /// Gives the iteration up: what an open op was writing is torn.
    pub(super) fn abort(self, holdings: &mut Holdings) {
        if let Some(open) = self.open {
            holdings.heap.note_torn(&open.event.merged());
        }
        let gone: Vec<Key> = holdings.registry.alive().collect();
        gone.into_iter().for_each(|key| holdings.heap.forget(key));
        holdings.registry.end_iteration();
        holdings.stats.aborted_iterations += 1;
    }

    /// What its ops have written, the open one included.
    pub(super) fn written(&self) -> impl Iterator<Item = Key> {
        let open = self.open.iter().map(|open| &open.event);
        let ops = self.score.ops().chain(open);
        ops.flat_map(|op| written(&op.accesses))
    }
}
