//! Switching: tensors change hands between the heap and the programs.
//!
//! Guarantees: what a program or the heap holds is given up only after the other side has it. A
//! switch that fails is undone, but for a program that was stopped in the middle (B4): what cannot
//! be saved then is marked as lost, by name.

use std::sync::Arc;
use std::time::Instant;

use lgm::verify::VerifiedPlan;
use tracing::{info, warn};
use vtensor::{Bytes, TensorId};

use super::executor::{Ready, Stand};
use super::handover::{carry, salvage};
use super::holdings::Holdings;
use super::planning::{self, Wish};
use super::program::{self, Program};
use super::recovery::Recovery;
use super::seats::{Seat, Seats};
use super::tensor::{Key, ProgramKey};
use super::track::OnDemand;
use super::transcript::Transcript;
use super::wear;
use crate::course::Position;
use crate::cuda;
use crate::error::RuntimeError;
use crate::options::Options;
use crate::planned::Planned;
use crate::scale::to_usize;
use crate::stats::elapsed_ns;

impl Holdings {
    /// Makes a kind's program now, or says why there is none.
    pub(super) fn freeze(&mut self, key: ProgramKey) -> Result<(), RuntimeError> {
        let refuse = |reason| RuntimeError::NotPlanned { key: key.0, reason };
        let at = self.tracks.iter().position(|track| track.key == key);
        let Some(at) = at.filter(|&at| self.tracks[at].repeats >= 2) else {
            return Err(refuse("it takes two equal iterations in a row".into()));
        };
        self.tracks[at].refusal = None;
        if self.activate_if(at, 2)? {
            return Ok(());
        }
        let reason = self.tracks[at].refusal.clone();
        Err(refuse(reason.unwrap_or_default()))
    }

    /// Brings a kind's program to HOME, making it first if it is time. False: it has none.
    pub(super) fn activate(&mut self, at: usize) -> Result<bool, RuntimeError> {
        self.activate_if(at, self.config.warmup.max(2))
    }

    fn activate_if(&mut self, at: usize, repeats: u32) -> Result<bool, RuntimeError> {
        if self.active == Some(at) {
            return Ok(true);
        }
        let track = &self.tracks[at];
        let ready = track.repeats >= repeats && track.score.kept.is_empty();
        if track.program.is_none() && (!ready || track.refusal.is_some()) {
            return Ok(false);
        }
        // On demand it can be overwritten; a program would read it.
        let lost = |key: &Key| {
            let item = self.heap.items.get(key);
            item.is_some_and(|item| !item.losses.is_empty())
        };
        if track.score.persistent().iter().any(lost) {
            return Ok(false);
        }
        self.vacate()?;
        let before = self.heap.moved.ns;
        let start = Instant::now();
        let planning_ns = self.stats.planning_ns;
        let moved_in = match self.tracks[at].program.is_some() {
            true => self.return_program(at).map(|()| true),
            false => self.make_program(at),
        };
        self.heap.moved.ns = before;
        let planning_ns = self.stats.planning_ns - planning_ns;
        self.stats.switch_ns += elapsed_ns(start).saturating_sub(planning_ns);
        if moved_in? {
            self.active = Some(at);
            self.stats.switches += 1;
            let program = self.tracks[at].program.as_ref().expect("it has moved in");
            let held: Vec<Key> = program.persistent().map(|(_, key)| key).collect();
            held.into_iter().for_each(|key| self.heap.forget(key));
            self.heap.garage.trim()?;
            if let Err(error) = self.show_seats(at) {
                self.rescue(&error);
                return Err(error);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// A program that was here before takes the arena again.
    fn return_program(&mut self, at: usize) -> Result<(), RuntimeError> {
        self.clear_arena()?;
        let program = self.tracks[at].program.as_mut().expect("the caller looked");
        let keys = program.keys().to_vec();
        let heap = &mut self.heap;
        let fill =
            |id: TensorId, offset, part: &mut [u8]| heap.withdraw(keys[id.index()], offset, part);
        program.frozen.return_home(fill)
    }

    /// Plans, proves and freezes. False: there is no program, and the track says why.
    fn make_program(&mut self, at: usize) -> Result<bool, RuntimeError> {
        let start = Instant::now();
        let fitted = self.fitted(at);
        self.stats.planning_ns += elapsed_ns(start);
        let (ready, keys, predicted_ns) = match fitted {
            Ok(fitted) => fitted,
            Err(reason) => return self.stay_on_demand(at, reason),
        };
        let written = ready.plan().program.moved_out();
        wear::check(&self.config, self.tracks[at].key, written, predicted_ns)?;
        self.clear_arena()?;
        let seats = self.seats_of(at, &keys)?;
        if !seats.is_empty() {
            self.heap.take_whole_pages()?;
        }
        let heap = &mut self.heap;
        let fill =
            |id: TensorId, offset, part: &mut [u8]| heap.withdraw(keys[id.index()], offset, part);
        match self.stand.freeze(ready, fill) {
            Ok(frozen) => {
                let track = &mut self.tracks[at];
                let heap = &self.heap;
                let pinned = |key: Key| (heap.pointer(key), to_usize(heap.items[&key].asked));
                let program = Program::new(
                    frozen,
                    &track.score,
                    (keys, seats),
                    predicted_ns,
                    pinned,
                    &**heap.ground(),
                )?;
                track.program = Some(program);
                info!(key = track.key.0, predicted_ns, "frozen");
                Ok(true)
            }
            // The content, not the machine, is in the way.
            Err(error @ (RuntimeError::LostContent { .. } | RuntimeError::Spilling { .. })) => {
                Err(error)
            }
            Err(error) => self.stay_on_demand(at, error.to_string()),
        }
    }

    /// Goes on without a program, if that does not write more than it may either.
    fn stay_on_demand(&mut self, at: usize, reason: String) -> Result<bool, RuntimeError> {
        let track = &mut self.tracks[at];
        let OnDemand { written, ns } = track.on_demand;
        wear::check(&self.config, track.key, written, ns)?;
        warn!(key = track.key.0, reason, "goes on on demand");
        track.refusal = Some(reason);
        Ok(false)
    }

    /// A proven plan that fits this machine, or why there is none.
    fn fitted(&self, at: usize) -> Result<(Ready, Vec<Key>, u64), String> {
        let track = &self.tracks[at];
        let durations_ns = track.durations_ns();
        let pinned = |key| self.heap.is_pinned(key);
        let wish = Wish {
            budget: Bytes(self.heap.limit()),
            policy: self.config.effective_policy(),
            methods: self.config.methods,
            page: self.config.page,
            spill: &self.config.spill,
            link: self.link,
            least_page: self.stand.least_page(),
        };
        let mut once = track.once.clone();
        let (transcript, proven) = loop {
            let transcript =
                Transcript::new(&track.score, &self.registry, &durations_ns, &pinned, &once);
            let transcript = transcript.map_err(|error| error.to_string())?;
            let proven = match track.loaded.clone() {
                Some(plan) => planning::loaded(&transcript.trace, plan)?,
                None => planning::prove(&transcript.trace, wish)?,
            };
            match program::stale(&proven.plan, &track.score, &pinned) {
                None => break (transcript, proven),
                // The planner cannot know: what stays in the arena is not in the transcript.
                Some(op) if once.insert(op) && track.loaded.is_none() => {}
                Some(op) => {
                    return Err(format!(
                        "the plan runs op {op} again after a tensor has changed that stays in the \
                         arena"
                    ));
                }
            }
        };
        assert!(
            program::fits(&proven.plan, &track.score),
            "the plan is of the transcript's ops"
        );
        let keys = program::keys_of(&proven.skeleton, &transcript.keys);
        let ready = self.ready(proven.plan)?;
        let (wanted, limit) = (ready.arena_bytes(), Bytes(self.heap.limit()));
        if wanted > limit {
            return Err(format!(
                "the plan needs {wanted}, the arena has {limit} to give"
            ));
        }
        Ok((ready, keys, proven.predicted_ns))
    }

    /// A plan for the memory that there is, if it can be executed there.
    fn ready(&self, plan: VerifiedPlan) -> Result<Ready, String> {
        let config = &self.config;
        if let Stand::Gpu(_) = &self.stand {
            let options = cuda::Options {
                spill: config.spill.clone(),
                storage: config.storage,
                fault: config.fault,
                ..cuda::Options::of(cuda::Mechanism::Mapped)
            };
            return Ok(Ready::Gpu(Box::new(plan), options));
        }
        let options = Options {
            spill: config.spill.clone(),
            storage: config.storage,
            throttle: config.throttle,
            limits: config.limits,
            fault: config.fault,
            ..Options::default()
        };
        let planned = Planned::new(plan, options);
        planned
            .map(|planned| Ready::Host(Box::new(planned)))
            .map_err(|error| error.to_string())
    }

    fn clear_arena(&mut self) -> Result<(), RuntimeError> {
        self.heap.clear_arena()?;
        if self.config.budget.is_none() {
            self.heap.release_arena()?;
        }
        Ok(())
    }

    /// The active program gives everything to the heap.
    pub(super) fn vacate(&mut self) -> Result<(), RuntimeError> {
        let Some(at) = self.active else {
            return Ok(());
        };
        let before = self.heap.moved.ns;
        let start = Instant::now();
        let program = self.tracks[at].program.as_mut();
        let program = program.expect("an active track has a program");
        if let Err(error) = program.frozen.rest("switch") {
            self.rescue(&error);
            return Err(error);
        }
        let held: Vec<(TensorId, Key)> = program.persistent().collect();
        let frozen = &program.frozen;
        let mut carried = Ok(());
        for &(id, key) in &held {
            let spec = self
                .registry
                .spec(key)
                .expect("a program's tensors are alive");
            self.heap.admit(key, spec);
            carried = carry(&mut self.heap, frozen, (id, key));
            if carried.is_err() {
                break;
            }
        }
        self.heap.moved.ns = before;
        self.stats.switch_ns += elapsed_ns(start);
        if carried.is_err() {
            // It still holds all of it.
            held.iter().for_each(|(_, key)| self.heap.forget(*key));
            return carried;
        }
        self.active = None;
        self.stats.switches += 1;
        let program = self.tracks[at].program.as_ref();
        let program = program.expect("an active track has a program");
        program.hide_seats();
        program.frozen.release_slots()
    }

    /// Shows tensors that keep their address where the active program has them.
    fn show_seats(&self, at: usize) -> Result<(), RuntimeError> {
        let program = self.tracks[at].program.as_ref().expect("it has moved in");
        match &self.stand {
            Stand::Host(arena) => program.show_seats(arena),
            // There are no seats.
            Stand::Gpu(_) => Ok(()),
        }
    }

    /// Addresses for a program's tensors that keep theirs: those that they have, and those that the
    /// iteration's own had when they were recorded.
    fn seats_of(&self, at: usize, keys: &[Key]) -> Result<Seats, RuntimeError> {
        let track = &self.tracks[at];
        let mut seats = Seats::default();
        for &key in keys {
            let known = match key.is_transient() {
                true => track.seats.get(key),
                false => self.heap.seats.get(key),
            };
            if let Some(seat) = known {
                seats.insert(key, Arc::clone(seat));
            }
        }
        // A program that was loaded has recorded none; and one that no op uses is in no plan.
        let created = (0..).zip(track.score.created());
        for (number, spec) in created.filter(|(_, spec)| spec.fixed) {
            let key = Key::transient(number);
            if seats.get(key).is_none() {
                let seat = match track.seats.get(key) {
                    Some(seat) => Arc::clone(seat),
                    None => Arc::new(Seat::new(spec)?),
                };
                seats.insert(key, seat);
            }
        }
        Ok(seats)
    }

    /// A program whose copies failed at rest gives what is intact to the heap.
    pub(super) fn rescue(&mut self, error: &RuntimeError) {
        let lost = self.halt(
            self.active.expect("an active program failed"),
            Then::GivenUp,
        );
        warn!(%error, lost = lost.join(", "), "the program was stopped at rest");
        self.stats.failed_copies += 1;
    }

    /// Stops a program wherever it is and gives the heap what it holds. Answers what was lost.
    pub(super) fn halt(&mut self, at: usize, then: Then) -> Vec<String> {
        let before = self.heap.moved.ns;
        let start = Instant::now();
        let mut program = self.tracks[at].program.take().expect("it is active");
        let content = program.frozen.halt();
        program.hide_seats();
        let heap = &mut self.heap;
        for (id, key) in program.all() {
            let Some(spec) = self.registry.spec(key) else {
                continue;
            };
            if !key.is_transient() {
                heap.admit(key, spec);
            }
            salvage(heap, &program.frozen, &content, (id, key));
        }
        if then == Then::GoesOn {
            let course = program.frozen.course();
            let stopped = (course.next_step, course.position == Position::Step);
            let score = &self.tracks[at].score;
            if let Some(recovery) = Recovery::new(&program, score, &self.registry, stopped) {
                recovery.carry(heap, &content);
                recovery.finish(heap, self.replayer.as_mut());
            }
        }
        let lost = program.all().filter_map(|(_, key)| {
            let spec = self.registry.spec(key)?;
            (!self.heap.items[&key].losses.is_empty()).then(|| spec.name.to_string())
        });
        let lost: Vec<String> = lost.collect();
        self.stats.absorb(&program.frozen.stats());
        self.active = None;
        self.stats.switches += 1;
        let reset = program
            .frozen
            .release_slots()
            .and_then(|()| program.frozen.restart());
        match reset {
            Ok(()) => self.tracks[at].program = Some(program),
            Err(error) => warn!(%error, "the program is given up"),
        }
        self.heap.moved.ns = before;
        self.stats.switch_ns += elapsed_ns(start);
        lost
    }
}

/// What becomes of an iteration whose program stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It goes on on demand, with all its tensors.
    GoesOn,
    /// It is over, with all its own tensors.
    GivenUp,
}
