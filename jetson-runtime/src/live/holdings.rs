//! Holdings: the tensors of an application, and who has them: the heap, or the active program.
//!
//! In: a configuration; then what the calls of an application ask for. Out: the budget, taken from
//! the machine once, and everything that outlives an iteration. Guarantees: one side holds each
//! persistent tensor that a program uses; without an active program the heap holds them all.
//! *Not here*: where the application is in an iteration, and whether a call belongs there.

use std::sync::Arc;

use lgm::profile::Link;
use tracing::info;
use vtensor::{Bytes, limits};

use super::config::Config;
use super::executor::Stand;
use super::garage::Garage;
use super::heap::Heap;
use super::link::link;
use super::op::Replayer;
use super::registry::Registry;
use super::report::RuntimeStats;
use super::score::Spec;
use super::tensor::{Key, ProgramKey};
use super::track::Track;
use crate::arena::Arena;
use crate::counters::Counters;
use crate::cuda::CudaError;
use crate::cuda::ground::GpuGround;
use crate::engine::{EngineOptions, adapted};
use crate::error::RuntimeError;
use crate::ground::{Ground, HostGround};
use crate::memory;
use crate::scale::system_page;

/// What a runtime holds.
pub(super) struct Holdings {
    pub(super) config: Config,
    pub(super) link: Link,
    /// The memory, for programs.
    pub(super) stand: Stand,
    pub(super) registry: Registry,
    pub(super) heap: Heap,
    pub(super) tracks: Vec<Track>,
    /// The track whose program holds what it uses. None: the heap holds everything.
    pub(super) active: Option<usize>,
    /// Tensors that outlived the iteration that made them and are to get a place for life.
    pub(super) to_keep: Vec<Key>,
    /// What runs ops of the application again.
    pub(super) replayer: Option<Replayer>,
    pub(super) stats: RuntimeStats,
}

impl Holdings {
    /// Takes the budget from the machine.
    pub(super) fn new(mut config: Config) -> Result<Self, RuntimeError> {
        if config.gpu.is_some() {
            check_for_gpu(&config)?;
        }
        // Before the memory is taken that measuring needs, too.
        let (link, tuning) = link(&config)?;
        let (stand, ground): (Stand, Arc<dyn Ground>) = match &config.gpu {
            Some(target) => {
                let budget = config.budget.expect("it was just looked for");
                let ground = Arc::new(GpuGround::new(target, budget, &config.spill)?);
                (Stand::Gpu(Arc::clone(&ground)), ground)
            }
            None => {
                let ground = HostGround::new(arena(config.budget)?)?;
                (Stand::Host(Arc::clone(ground.own())), Arc::new(ground))
            }
        };
        let claimed = match config.budget {
            Some(_) => ground.bytes(),
            None => 0,
        };
        config.storage = tuning.map_or(config.storage, |tuning| config.storage.tuned(tuning));
        let garage = Garage::new(&config.spill, &config.storage, config.spill_bytes_max)?;
        let options = EngineOptions {
            duplex: link.duplex,
            throttle: config.throttle,
            fault: config.fault,
        };
        let copier = ground.copier(garage.tier())?;
        let copier = adapted(copier, &Arc::new(Counters::new(0, 0)), options);
        let heap = Heap::new(&ground, claimed, garage, copier, config.effective_keep());
        info!(budget = ?config.budget, ?link, "recording");
        Ok(Self {
            config,
            link,
            stand,
            registry: Registry::default(),
            heap,
            tracks: Vec::new(),
            active: None,
            to_keep: Vec::new(),
            replayer: None,
            stats: RuntimeStats::default(),
        })
    }

    /// The row of a kind of iteration.
    pub(super) fn track(&mut self, key: ProgramKey) -> usize {
        let known = self.tracks.iter().position(|track| track.key == key);
        known.unwrap_or_else(|| {
            self.tracks.push(Track::new(key));
            self.tracks.len() - 1
        })
    }

    /// Reserves an address for a tensor that keeps its.
    pub(super) fn seat(&mut self, key: Key, spec: &Spec) -> Result<(), RuntimeError> {
        match spec.fixed {
            true => self.heap.reserve_seat(key, spec),
            false => Ok(()),
        }
    }
}

impl Drop for Holdings {
    fn drop(&mut self) {
        // Programs show the same pages: what copies are still under way ends before others go.
        self.stand.rest();
        if let Some(at) = self.active {
            self.tracks[at].program = None;
        }
    }
}

/// The host's memory: a budget, taken now, or what it has, on demand.
fn arena(budget: Option<Bytes>) -> Result<Arena, RuntimeError> {
    let page = system_page();
    match budget {
        Some(budget) => Arena::new(budget.0 / page * page),
        None => {
            let available = memory::available().unwrap_or(Bytes(limits::TOTAL_BYTES_MAX));
            Arena::sparse(available.0 / page * page)
        }
    }
}

/// Refuses what an application on a GPU cannot have.
fn check_for_gpu(config: &Config) -> Result<(), RuntimeError> {
    let refusals = [
        (
            config.budget.is_none(),
            "no budget",
            "a GPU's memory is taken at first; say how much of it",
        ),
        (
            config.check_replays,
            "checking ops that may run again",
            "that compares bytes on the host",
        ),
        (
            config.throttle.is_some(),
            "a pace of copies",
            "streams make them as fast as they can",
        ),
    ];
    match refusals.into_iter().find(|(refused, ..)| *refused) {
        Some((_, choice, reason)) => Err(CudaError::Refused {
            choice,
            reason: reason.into(),
        }
        .into()),
        None => Ok(()),
    }
}
