//! The runtime: what an application holds.
//!
//! Calls may come from any thread, one at a time. A call that returns an error has changed nothing,
//! unless its text says otherwise.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::NonNull;

use lgm::plan::Plan;
use lgm::profile::Link;
use lgm::trace::{Phase, Trace};
use vtensor::{Bytes, TensorId};

use super::config::Config;
use super::contents::DAMAGED;
use super::executor::Executor;
use super::holdings::Holdings;
use super::losses::LostRange;
use super::place::{Cursor, Place};
use super::program_file;
use super::report::{Divergence, ProgramReport, RuntimeStats};
use super::tensor::{Key, ProgramKey, Tensor};
use super::track::Track;
use super::transcript::Transcript;
use crate::error::RuntimeError;
use crate::failure::short_name;
use crate::memory::{Usage, process_pss};

/// A runtime under a budget. Dropping it gives everything back; nothing is left behind.
pub struct Runtime {
    pub(super) holdings: Holdings,
    pub(super) place: Place,
    /// The part of the step that ops belong to.
    pub(super) phase: Phase,
    /// Whether the open op was begun by a touch.
    pub(super) touching: bool,
    /// Tensors that outlive iterations and that the last one had written, if it was given up.
    pub(super) begun: BTreeSet<Key>,
    pub(super) divergences: Vec<Divergence>,
}

impl Runtime {
    /// Takes the budget from the machine.
    ///
    /// # Errors
    /// If the machine does not have it, or the spill tier cannot be used.
    pub fn new(config: Config) -> Result<Self, RuntimeError> {
        Ok(Self {
            holdings: Holdings::new(config)?,
            place: Place::Rest,
            phase: Phase::Forward,
            touching: false,
            begun: BTreeSet::new(),
            divergences: Vec::new(),
        })
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
            return self.holdings.heap.read(key, offset, buffer);
        };
        match frozen.read(id, offset, buffer) {
            Err(error) if is_damage(&error) => {
                self.holdings.rescue(&error);
                self.holdings.heap.read(key, offset, buffer)
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
            return self.holdings.heap.write(key, offset, buffer);
        };
        let written = frozen.write(id, offset, buffer);
        if let Err(error @ RuntimeError::Tier { .. }) = &written {
            self.holdings.rescue(error);
            if is_damage(error) {
                return self.holdings.heap.write(key, offset, buffer);
            }
            let end = offset + buffer.len() as u64;
            self.holdings.heap.lose_blocks(key, offset, end);
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
            self.holdings.check_alive(cursor, tensor)?;
            if tensor.is_transient() {
                return Ok(Vec::new());
            }
        }
        let key = self.holdings.registry.resolve(tensor)?;
        if matches!(self.place, Place::Rest) && self.holder(key).is_some() {
            return Ok(Vec::new());
        }
        let item = self.holdings.heap.items.get(&key);
        Ok(item.map_or_else(Vec::new, |item| item.losses.ranges().to_vec()))
    }

    /// Whether an op of the iteration that runs, or of the last one if that was given up, has
    /// written a tensor or begun to: it is ahead of those that no op had come to. What a failure
    /// leaves of a model is consistent if this says so of none of its tensors, or of all.
    ///
    /// # Errors
    /// If there is no such tensor.
    pub fn written(&self, tensor: Tensor) -> Result<bool, RuntimeError> {
        if let Place::Replaying(cursor) = self.place {
            let key = self.holdings.key_in(cursor, tensor)?;
            let cursor = Cursor {
                // With the op that is open.
                event: cursor.event + usize::from(cursor.open),
                ..cursor
            };
            return Ok(self.holdings.was_written(cursor, key));
        }
        let key = self.holdings.registry.resolve(tensor)?;
        Ok(match &self.place {
            Place::Recording(recording) => recording.written().any(|other| other == key),
            _ => self.begun.contains(&key),
        })
    }

    /// The active program, if it holds the tensor. If its copies have failed, the heap has it.
    fn holder(&mut self, key: Key) -> Option<(&mut Executor, TensorId)> {
        let active = self.holdings.active?;
        let program = self.holdings.tracks[active].program.as_mut();
        if let Err(error) = program.expect("it is active").frozen.rest("hold") {
            self.holdings.rescue(&error);
            return None;
        }
        let program = self.holdings.tracks[active].program.as_mut();
        let program = program.expect("it is active");
        program.id(key).map(|id| (&mut program.frozen, id))
    }

    /// Checks that the application may read or write a range now, and waits for what it has itself
    /// enqueued for pinned tensors.
    fn range(
        &mut self,
        tensor: Tensor,
        offset: u64,
        bytes: usize,
        call: &'static str,
    ) -> Result<Key, RuntimeError> {
        self.place.at_rest(call)?;
        self.sync()?;
        let key = self.holdings.registry.resolve(tensor)?;
        let spec = self
            .holdings
            .registry
            .spec(key)
            .expect("it was just resolved");
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

    /// Keeps a persistent tensor in the arena, at one address, until [`Self::unpin`]. The bytes
    /// there are the tensor's content; the application may use them whenever no op that accesses
    /// the tensor is open. Programs are planned anew for the rest of the budget. Pinning again
    /// answers the same address.
    ///
    /// # Errors
    /// Inside an iteration; if there is no such tensor, its content was lost, or the arena has no
    /// room for it; if the spill tier fails.
    pub fn pin(&mut self, tensor: Tensor) -> Result<NonNull<u8>, RuntimeError> {
        self.place.at_rest("pin")?;
        let key = self.holdings.registry.resolve(tensor)?;
        self.holdings.settle(key)?;
        Ok(self.holdings.heap.pointer(key))
    }

    /// Lets a pinned tensor move again. Its address is no longer good. One that is not pinned, or
    /// is of a kind that is kept, stays as it is.
    ///
    /// # Errors
    /// Inside an iteration; if there is no such tensor; if the spill tier fails.
    pub fn unpin(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        self.place.at_rest("unpin")?;
        self.sync()?;
        let key = self.holdings.registry.resolve(tensor)?;
        self.holdings.release(key)
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> RuntimeStats {
        let mut stats = self.holdings.stats;
        let [out, r#in] = self.holdings.heap.moved.bytes;
        stats.moved_out.0 += out;
        stats.moved_in.0 += r#in;
        stats.stall_ns += self.holdings.heap.moved.ns;
        for program in self
            .holdings
            .tracks
            .iter()
            .filter_map(|track| track.program.as_ref())
        {
            stats.absorb(&program.frozen.stats());
        }
        stats.garage = self.holdings.heap.garage.used();
        stats.pinned = self.holdings.heap.pinned_bytes();
        stats
    }

    /// What is known of each kind of iteration, in the order of their first appearance.
    #[must_use]
    pub fn programs(&self) -> Vec<ProgramReport> {
        let report = |track: &Track| {
            let plan = track.program.as_ref().map(|p| p.frozen.plan());
            let persistent = track.score.persistent().into_iter();
            let bytes = persistent.filter_map(|key| Some(self.holdings.registry.spec(key)?.bytes));
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
        self.holdings.tracks.iter().map(report).collect()
    }

    /// The last recorded iteration of a kind, as a trace with the durations of this machine under
    /// the name `host`. `None` if there is none.
    ///
    /// # Errors
    /// If it exceeds the limits of a trace.
    pub fn trace(&self, key: ProgramKey) -> Result<Option<Trace>, RuntimeError> {
        let track = self.holdings.tracks.iter().find(|track| track.key == key);
        let Some(track) = track.filter(|track| track.repeats > 0) else {
            return Ok(None);
        };
        let transcript = Transcript::new(
            &track.score,
            &self.holdings.registry,
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
        let track = self.holdings.tracks.iter().find(|track| track.key == key);
        match track.and_then(|track| Some((track, track.program.as_ref()?))) {
            Some((track, program)) => {
                let plan = program.frozen.plan();
                Ok(program_file::encode(
                    plan,
                    &track.score,
                    &self.holdings.registry,
                ))
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
    /// that exist, or has addresses for life and ops are on a GPU. Whether it fits the budget shows
    /// when it is frozen.
    pub fn load_plan(&mut self, key: ProgramKey, file: &[u8]) -> Result<(), RuntimeError> {
        self.place.at_rest("load_plan")?;
        self.holdings.keep_waiting()?;
        let refused = |reason| RuntimeError::NotLoaded { key: key.0, reason };
        let Holdings { heap, registry, .. } = &self.holdings;
        let loaded = program_file::decode(file, registry, &|key| heap.is_pinned(key));
        let loaded = loaded.map_err(refused)?;
        let fixed = loaded.score.created().find(|spec| spec.fixed);
        if let Some(spec) = fixed.filter(|_| !heap.ground().on_host()) {
            return Err(refused(format!(
                "its tensor {spec} keeps one address; on a GPU it would have another one in each op"
            )));
        }
        let at = self.holdings.track(key);
        if self.holdings.active == Some(at) {
            self.holdings.vacate()?;
        }
        let repeats = self.holdings.config.warmup.max(2);
        self.holdings.tracks[at].load(loaded, repeats);
        Ok(())
    }

    /// Makes a program for a kind of iteration now, rather than when the next one begins.
    ///
    /// # Errors
    /// Inside an iteration; if fewer than two equal iterations were recorded; if there is no plan,
    /// or the machine refuses what it needs.
    pub fn freeze(&mut self, key: ProgramKey) -> Result<(), RuntimeError> {
        self.place.at_rest("freeze")?;
        self.holdings.freeze(key)
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
        self.holdings.link
    }

    /// Waits until what the ops so far have enqueued is done.
    ///
    /// # Errors
    /// If any of it failed; see [`Self::doubt`], which is done here.
    pub fn sync(&mut self) -> Result<(), RuntimeError> {
        let settled = self.holdings.heap.ground().settle();
        if settled.is_err() {
            self.doubt();
        }
        settled
    }

    /// The stream of a GPU that ops are enqueued on, a `CUstream`: it lives as long as this. `None`
    /// on the host. An op's kernels are enqueued between its begin and its end; no other stream may
    /// touch its tensors, unless it is in order with this one.
    #[must_use]
    pub fn stream(&self) -> Option<*mut c_void> {
        self.holdings.stand.stream()
    }

    /// Takes note that a call of the driver failed that the application made itself: it may have
    /// told of work that a frozen program had enqueued, and nobody knows which. What the program
    /// holds is lost then, if it has enqueued anything since it was at rest; the iteration is to be
    /// given up, [`Self::iteration_abort`].
    pub fn doubt(&mut self) {
        let active = self.holdings.active;
        let program = active.and_then(|at| self.holdings.tracks[at].program.as_mut());
        if let Some(program) = program {
            program.frozen.doubt();
        }
    }

    /// The size of the arena. With a budget, that is the budget in whole pages of the system.
    #[must_use]
    pub fn arena_bytes(&self) -> Bytes {
        Bytes(self.holdings.heap.arena_bytes())
    }

    /// The memory that the system holds for arena, spill tier and process now.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn usage(&self) -> Result<Usage, RuntimeError> {
        let mut spill = self.holdings.heap.garage.used();
        if let Some(program) = self
            .holdings
            .active
            .and_then(|at| self.holdings.tracks[at].program.as_ref())
        {
            spill.0 += program.frozen.spill_allocated()?.0;
        }
        Ok(Usage {
            arena_allocated: self.holdings.heap.ground().allocated()?,
            spill_allocated: spill,
            pss: process_pss()?,
        })
    }
}

/// Whether blocks of the spill tier do not hold what was written.
const fn is_damage(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Tier { errno: DAMAGED, .. })
}
