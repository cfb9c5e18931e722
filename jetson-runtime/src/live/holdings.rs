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
use crate::engine::{EngineOptions, copier};
use crate::error::RuntimeError;
use crate::memory;
use crate::scale::system_page;

/// What a runtime holds.
pub(super) struct Holdings {
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
    /// What runs ops of the application again.
    pub(super) replayer: Option<Replayer>,
    pub(super) stats: RuntimeStats,
}

impl Holdings {
    /// Takes the budget from the machine.
    pub(super) fn new(mut config: Config) -> Result<Self, RuntimeError> {
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
