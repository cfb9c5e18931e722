//! The runtime: what an application holds.
//!
//! Calls may come from any thread, one at a time. A call that returns an error has changed nothing,
//! unless its text says otherwise.

use std::sync::Arc;

use lgm::plan::Plan;
use lgm::profile::Link;
use lgm::trace::{Phase, Trace};
use tracing::info;
use vtensor::{Bytes, TensorId, limits};

use super::config::Config;
use super::contents::DAMAGED;
use super::garage::Garage;
use super::heap::Heap;
use super::iteration::Place;
use super::link::link;
use super::losses::LostRange;
use super::op::Row;
use super::program_file;
use super::registry::Registry;
use super::replays::Replayer;
use super::report::{Divergence, ProgramReport, RuntimeStats};
use super::score::Spec;
use super::tensor::{Key, ProgramKey, Tensor, TensorDesc};
use super::track::Track;
use super::transcript::Transcript;
use crate::arena::Arena;
use crate::counters::Counters;
use crate::engine::{EngineOptions, copier};
use crate::error::RuntimeError;
use crate::failure::short_name;
use crate::frozen::Frozen;
use crate::memory::{self, Usage, process_pss};
use crate::scale::system_page;

/// A runtime under a budget. Dropping it gives everything back; nothing is left behind.
pub struct Runtime {
    pub(super) config: Config,
    pub(super) link: Link,
    pub(super) arena: Arc<Arena>,
    pub(super) registry: Registry,
    pub(super) heap: Heap,
    pub(super) tracks: Vec<Track>,
    /// The track whose program holds what it uses. None: the heap holds everything.
    pub(super) active: Option<usize>,
    /// Tensors that outlived the iteration that made them and are to get a place for life.
    pub(super) to_keep: Vec<Key>,
    pub(super) place: Place,
    /// The part of the step that ops belong to.
    pub(super) phase: Phase,
    /// Whether the open op was begun by a touch.
    pub(super) touching: bool,
    /// The tensors of an op that runs on demand.
    pub(super) rows: Vec<Row>,
    /// What runs ops of the application again.
    pub(super) replayer: Option<Replayer>,
    pub(super) stats: RuntimeStats,
    pub(super) divergences: Vec<Divergence>,
}

impl Runtime {
    /// Takes the budget from the machine.
    ///
    /// # Errors
    /// If the machine does not have it, or the spill tier cannot be used.
    pub fn new(mut config: Config) -> Result<Self, RuntimeError> {
        let page = system_page();
        let (arena, claimed) = match config.budget {
            Some(budget) => {
                let arena = Arena::new(budget.0 / page * page)?;
                let claimed = arena.bytes();
                (arena, claimed)
            }
            None => {
                let available = memory::available().unwrap_or(Bytes(limits::TOTAL_BYTES_MAX));
                (Arena::sparse(available.0 / page * page)?, 0)
            }
        };
        let arena = Arc::new(arena);
        let (link, tuning) = link(&config)?;
        config.storage = tuning.map_or(config.storage, |tuning| config.storage.tuned(tuning));
        let garage = Garage::new(&config.spill, &config.storage, config.spill_bytes_max)?;
        let options = EngineOptions {
            duplex: link.duplex,
            throttle: config.throttle,
            fault: config.fault,
        };
        let copier = copier(garage.tier(), &Arc::new(Counters::new(0, 0)), options)?;
        let heap = Heap::new(&arena, claimed, garage, copier, config.effective_keep())?;
        info!(budget = ?config.budget, ?link, "recording");
        Ok(Self {
            config,
            link,
            arena,
            registry: Registry::default(),
            heap,
            tracks: Vec::new(),
            active: None,
            to_keep: Vec::new(),
            place: Place::Rest,
            phase: Phase::Forward,
            touching: false,
            rows: Vec::new(),
            replayer: None,
            stats: RuntimeStats::default(),
            divergences: Vec::new(),
        })
    }

    /// Creates a tensor: outside of iterations one that lasts until it is destroyed; inside, one of
    /// the iteration. The latter must be created in the same order each time and destroyed before
    /// the iteration ends; what is left then becomes persistent (as lazily made optimizer state).
    /// A persistent tensor reads as zeroes until it is written.
    ///
    /// # Errors
    /// If it has no bytes or too many, or an op is open; if it is to stay in the arena for good,
    /// [`Config::keep`], and there is no room for it.
    pub fn create(&mut self, desc: &TensorDesc<'_>) -> Result<Tensor, RuntimeError> {
        let advice = match desc.bytes.0 {
            0 => Some("a tensor has bytes"),
            bytes if bytes > limits::TENSOR_BYTES_MAX => Some("at most 2^43 are supported"),
            _ if desc.name.len() > limits::NAME_BYTES_MAX => Some("take a shorter name"),
            _ => None,
        };
        if let Some(advice) = advice {
            return Err(RuntimeError::TensorDesc {
                bytes: desc.bytes.0,
                name_bytes: desc.name.len(),
                advice,
            });
        }
        if !matches!(self.place, Place::Rest) {
            return self.create_transient(desc);
        }
        let spec = Spec::new(desc);
        let key = self.registry.create(spec.clone());
        let seated = self.seat(key, &spec);
        self.heap.admit(key, &spec);
        if let Err(error) = seated.and_then(|()| self.keep(key)) {
            self.heap.forget(key);
            self.heap.seats.remove(key);
            self.registry.destroy(key);
            return Err(error);
        }
        Ok(key.handle(0))
    }

    /// Reserves an address for a tensor that keeps its.
    pub(super) fn seat(&mut self, key: Key, spec: &Spec) -> Result<(), RuntimeError> {
        match spec.fixed {
            true => self.heap.reserve_seat(key, spec),
            false => Ok(()),
        }
    }

    /// Destroys a tensor. Programs that use it are forgotten.
    ///
    /// # Errors
    /// If there is no such tensor, an op is open, or a persistent one is destroyed inside an
    /// iteration.
    pub fn destroy(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        if !matches!(self.place, Place::Rest) {
            return self.destroy_inside(tensor);
        }
        let key = self.registry.resolve(tensor)?;
        let uses = |track: &Track| {
            let program = track.program.as_ref();
            program.is_some_and(|program| program.id(key).is_some())
                || track.score.persistent().contains(&key)
        };
        if self.active.is_some_and(|active| uses(&self.tracks[active])) {
            self.vacate()?;
        }
        for track in self.tracks.iter_mut().filter(|track| uses(track)) {
            track.forget();
        }
        self.discard_pin(key)?;
        self.heap.forget(key);
        self.heap.seats.remove(key);
        self.registry.destroy(key);
        Ok(())
    }

    /// Copies bytes `offset ..` of a tensor to `buffer`, wherever they are. Moves nothing.
    ///
    /// # Errors
    /// Inside an iteration; if there is no such tensor or range; if its content was lost, or, for a
    /// scratch tensor, forgotten; if the spill tier fails.
    pub fn read(
        &mut self,
        tensor: Tensor,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let key = self.range(tensor, offset, buffer.len(), "read")?;
        let Some((frozen, id)) = self.holder(key) else {
            return self.heap.read(key, offset, buffer);
        };
        match frozen.read(id, offset, buffer) {
            Err(error) if is_damage(&error) => {
                self.rescue(&error);
                self.heap.read(key, offset, buffer)
            }
            read => read,
        }
    }

    /// Copies `buffer` to bytes `offset ..` of a tensor, in every place where they are.
    ///
    /// # Errors
    /// As [`Self::read`], but bytes that were lost are whole again. A spill tier that fails in the
    /// middle leaves bytes around the range lost.
    pub fn write(
        &mut self,
        tensor: Tensor,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), RuntimeError> {
        let key = self.range(tensor, offset, buffer.len(), "write")?;
        let Some((frozen, id)) = self.holder(key) else {
            return self.heap.write(key, offset, buffer);
        };
        let written = frozen.write(id, offset, buffer);
        if let Err(error @ RuntimeError::Tier { .. }) = &written {
            self.rescue(error);
            if is_damage(error) {
                return self.heap.write(key, offset, buffer);
            }
            let end = offset + buffer.len() as u64;
            self.heap.lose_blocks(key, offset, end);
        }
        written
    }

    /// Which bytes of a tensor cannot be used, by offset: none if it is intact. Between iterations
    /// this waits until nothing moves, and says what [`Self::read`] would say.
    ///
    /// # Errors
    /// If there is no such tensor.
    pub fn lost(&mut self, tensor: Tensor) -> Result<Vec<LostRange>, RuntimeError> {
        if let Place::Replaying(cursor) = self.place {
            self.check_alive(cursor, tensor)?;
            if tensor.is_transient() {
                return Ok(Vec::new());
            }
        }
        let key = self.registry.resolve(tensor)?;
        if matches!(self.place, Place::Rest) && self.holder(key).is_some() {
            return Ok(Vec::new());
        }
        let item = self.heap.items.get(&key);
        Ok(item.map_or_else(Vec::new, |item| item.losses.ranges().to_vec()))
    }

    /// The active program, if it holds the tensor. If its copies have failed, the heap has it.
    fn holder(&mut self, key: Key) -> Option<(&mut Frozen, TensorId)> {
        let active = self.active?;
        let program = self.tracks[active].program.as_mut();
        if let Err(error) = program.expect("it is active").frozen.rest("hold") {
            self.rescue(&error);
            return None;
        }
        let program = self.tracks[active].program.as_mut();
        let program = program.expect("it is active");
        program.id(key).map(|id| (&mut program.frozen, id))
    }

    /// Checks that the application may read or write a range now.
    fn range(
        &self,
        tensor: Tensor,
        offset: u64,
        bytes: usize,
        call: &'static str,
    ) -> Result<Key, RuntimeError> {
        self.at_rest(call)?;
        let key = self.registry.resolve(tensor)?;
        let spec = self.registry.spec(key).expect("it was just resolved");
        match offset.checked_add(bytes as u64) {
            Some(end) if end <= spec.bytes => Ok(key),
            end => Err(RuntimeError::Bounds {
                name: short_name(&spec.name),
                offset,
                end: end.unwrap_or(u64::MAX),
                bytes: Bytes(spec.bytes),
            }),
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> RuntimeStats {
        let mut stats = self.stats;
        let [out, r#in] = self.heap.moved.bytes;
        stats.moved_out.0 += out;
        stats.moved_in.0 += r#in;
        stats.stall_ns += self.heap.moved.ns;
        for program in self
            .tracks
            .iter()
            .filter_map(|track| track.program.as_ref())
        {
            stats.absorb(&program.frozen.stats());
        }
        stats.garage = self.heap.garage.used();
        stats.pinned = self.heap.pinned_bytes();
        stats
    }

    /// What is known of each kind of iteration, in the order of their first appearance.
    #[must_use]
    pub fn programs(&self) -> Vec<ProgramReport> {
        let report = |track: &Track| {
            let plan = track.program.as_ref().map(|p| &p.frozen.parts.plan);
            let persistent = track.score.persistent().into_iter();
            let bytes = persistent.filter_map(|key| Some(self.registry.spec(key)?.bytes));
            ProgramReport {
                key: track.key,
                peak: Bytes(track.score.peak(bytes.sum())),
                repeats: track.repeats,
                frozen: track.program.is_some(),
                refusal: track.refusal.clone(),
                compute_ns: track.durations_ns().iter().sum(),
                predicted_ns: track.program.as_ref().map(|program| program.predicted_ns),
                excluded: track.excluded(),
                recompute_ns: plan.map(Plan::recompute_ns),
                recomputed: plan.map(Plan::recomputed),
                moved: plan.map(|plan| [plan.program.moved_out(), plan.program.moved_in()]),
                arena: plan.map(|plan| {
                    let page = plan.program.page_bytes.get();
                    (plan.program.arena_pages, Bytes(page))
                }),
                policy: plan.map(|plan| plan.origin.policy.clone()),
                digest: track.program.as_ref().map(|program| program.digest),
            }
        };
        self.tracks.iter().map(report).collect()
    }

    /// The last recorded iteration of a kind, as a trace with the durations of this machine under
    /// the name `host`. `None` if there is none.
    ///
    /// # Errors
    /// If it exceeds the limits of a trace.
    pub fn trace(&self, key: ProgramKey) -> Result<Option<Trace>, RuntimeError> {
        let track = self.tracks.iter().find(|track| track.key == key);
        let Some(track) = track.filter(|track| track.repeats > 0) else {
            return Ok(None);
        };
        let transcript = Transcript::new(
            &track.score,
            &self.registry,
            &track.durations_ns(),
            &|_| false,
            &track.once,
        )?;
        Ok(Some(transcript.trace))
    }

    /// A kind's frozen program as bytes, for [`Self::load_plan`].
    ///
    /// # Errors
    /// If the kind has none.
    pub fn save_plan(&self, key: ProgramKey) -> Result<Vec<u8>, RuntimeError> {
        let track = self.tracks.iter().find(|track| track.key == key);
        match track.and_then(|track| Some((track, track.program.as_ref()?))) {
            Some((track, program)) => {
                let plan = &program.frozen.parts.plan;
                Ok(program_file::encode(plan, &track.score, &self.registry))
            }
            None => Err(RuntimeError::NotPlanned {
                key: key.0,
                reason: "it was not frozen yet".into(),
            }),
        }
    }

    /// Takes a program over that [`Self::save_plan`] has saved, so that iterations of the kind are
    /// frozen from the first one on. The persistent tensors that it uses must exist, created in the
    /// same order as when it was recorded. It is proven again.
    ///
    /// # Errors
    /// Inside an iteration; if the file is not a program or is damaged, or does not fit the tensors
    /// that exist. Whether it fits the budget shows when it is frozen.
    pub fn load_plan(&mut self, key: ProgramKey, file: &[u8]) -> Result<(), RuntimeError> {
        self.at_rest("load_plan")?;
        self.keep_waiting()?;
        let loaded = program_file::decode(file, &self.registry, &|key| self.heap.is_pinned(key))
            .map_err(|reason| RuntimeError::NotLoaded { key: key.0, reason })?;
        let at = self.track(key);
        if self.active == Some(at) {
            self.vacate()?;
        }
        let repeats = self.config.warmup.max(2);
        self.tracks[at].load(loaded, repeats);
        Ok(())
    }

    /// Iterations that left what was recorded, the first ones; [`RuntimeStats::divergences`] counts
    /// all.
    #[must_use]
    pub fn divergences(&self) -> &[Divergence] {
        &self.divergences
    }

    /// The link to the spill tier as plans see it.
    #[must_use]
    pub const fn link(&self) -> Link {
        self.link
    }

    /// The size of the arena. With a budget, that is the budget in whole pages of the system.
    #[must_use]
    pub fn arena_bytes(&self) -> Bytes {
        Bytes(self.arena.bytes())
    }

    /// The memory that the system holds for arena, spill tier and process now.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn usage(&self) -> Result<Usage, RuntimeError> {
        let mut spill = self.heap.garage.used();
        if let Some(program) = self.active.and_then(|at| self.tracks[at].program.as_ref()) {
            spill.0 += program.frozen.parts.tier.allocated()?.0;
        }
        Ok(Usage {
            arena_allocated: self.arena.allocated()?,
            spill_allocated: spill,
            pss: process_pss()?,
        })
    }
}

/// Whether blocks of the spill tier do not hold what was written.
const fn is_damage(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Tier { errno: DAMAGED, .. })
}
