//! The phase before execution: a plan that fits this machine, and nothing allocated yet.
//!
//! In: a verified plan and options. Out: what it would take from the machine, and the step to
//! [`Frozen`]. Guarantees: whatever can be refused without allocating is refused in `new`.

use std::sync::Arc;

use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use tracing::info;
use vtensor::{Bytes, TensorId};

use crate::arena::Arena;
use crate::content::Content;
use crate::counters::Counters;
use crate::crew::Crew;
use crate::engine::{EngineOptions, Engines, copier};
use crate::error::RuntimeError;
use crate::frozen::{Frozen, Parts};
use crate::memory;
use crate::options::Options;
use crate::places::AtRest;
use crate::private::PrivateBuffer;
use crate::scale::{Scale, to_usize};
use crate::spill::{Spill, Tier};
use crate::table::Table;
use crate::window_map::{MapNeeds, WindowMap, mappings_now};

/// Initial contents pass through a buffer of at most this many bytes.
const FILL_BYTES_MAX: u64 = 1 << 20;

/// A plan that fits this machine.
#[derive(Debug)]
pub struct Planned {
    pub(crate) plan: Plan,
    options: Options,
    scale: Scale,
    needs: MapNeeds,
}

impl Planned {
    /// Checks a verified plan against this machine.
    ///
    /// # Errors
    /// If the executed page, the kernel's limits or a kind of step do not fit.
    pub fn new(plan: VerifiedPlan, options: Options) -> Result<Self, RuntimeError> {
        let plan = plan.into_inner();
        let planned_page = plan.program.page_bytes;
        let scale = Scale::of(&plan.program, options.executed_page.unwrap_or(planned_page))?;
        Table::check_kinds(&plan.program)?;
        let needs = MapNeeds::check(&plan.program, scale, &options.limits, mappings_now())?;
        let planned = Self {
            plan,
            options,
            scale,
            needs,
        };
        info!(
            arena_bytes = planned.arena_bytes().0,
            spill_bytes = planned.spill_bytes().0,
            mappings = planned.mappings(),
            scale = scale.ratio(),
            "planned"
        );
        Ok(planned)
    }

    /// The size of the arena, as executed: the budget, and hard.
    #[must_use]
    pub fn arena_bytes(&self) -> Bytes {
        Bytes(u64::from(self.plan.program.arena_pages) * self.scale.page().get())
    }

    /// The size of the spill tier, as executed.
    #[must_use]
    pub fn spill_bytes(&self) -> Bytes {
        Bytes(self.scale.bytes(self.plan.program.spill_bytes.0))
    }

    /// How many mappings of the kernel the windows will take.
    #[must_use]
    pub const fn mappings(&self) -> u64 {
        self.needs.mappings
    }

    /// How much virtual memory the windows will take.
    #[must_use]
    pub const fn virtual_bytes(&self) -> Bytes {
        Bytes(self.needs.virtual_bytes)
    }

    /// The size of a tensor, as executed.
    ///
    /// # Panics
    /// If the plan has no such tensor.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> Bytes {
        Bytes(self.scale.bytes(self.plan.skeleton.tensor(tensor).bytes.0))
    }

    /// Takes all memory, maps the windows, brings every persistent piece to HOME, and starts the
    /// engines (B1). Blocks until that is done.
    ///
    /// `fill(tensor, offset, bytes)` writes the initial content of bytes `offset ..` of a tensor,
    /// in executed sizes; it is called for every range that has content at the boundary of an
    /// iteration, in any order, and for no other.
    ///
    /// # Errors
    /// If the machine refuses memory, mappings, a spill file or threads. Nothing is left behind.
    pub fn freeze(
        self,
        fill: impl FnMut(TensorId, u64, &mut [u8]),
    ) -> Result<Frozen, RuntimeError> {
        // Both together, before either is taken.
        let in_memory = match self.options.spill {
            Spill::Ram => self.spill_bytes(),
            Spill::File(_) => Bytes(0),
        };
        let bytes = self.arena_bytes().0.saturating_add(in_memory.0);
        memory::demand("arena, with a spill tier in RAM,", bytes)?;
        let arena = Arena::new(self.arena_bytes().0)?;
        let mut fill = fill;
        self.freeze_on(&Arc::new(arena), |tensor, offset, bytes| {
            fill(tensor, offset, bytes);
            Ok(())
        })
    }

    /// As [`Self::freeze`], on an arena that others use at other times. Its pages are claimed.
    pub(crate) fn freeze_on(
        self,
        arena: &Arc<Arena>,
        fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<Frozen, RuntimeError> {
        assert!(
            self.arena_bytes().0 <= arena.bytes(),
            "a plan's arena is the runtime's"
        );
        let Self {
            plan,
            options,
            scale,
            needs,
        } = self;
        let program = &plan.program;
        arena.claim(0, u64::from(program.arena_pages) * scale.page().get())?;
        let spill_bytes = scale.bytes(program.spill_bytes.0);
        let tier = match scale.ratio() {
            1 => Tier::new(&options.spill, &options.storage, spill_bytes)?,
            _ => Tier::scaled(&options.spill, &options.storage, spill_bytes)?,
        };
        let map = WindowMap::new(program, scale, arena, needs, !options.lazy_page_tables)?;
        let table = Table::new(&plan, scale, &map);
        let content = Content::home(&plan, scale, &map);
        bring_home(&content, &tier, fill)?;
        let tier = Arc::new(tier);
        let engine_options = EngineOptions {
            duplex: options.duplex.unwrap_or(plan.profile.link.duplex),
            throttle: options.throttle,
            fault: options.fault,
        };
        let crew = crew(&table, &tier, engine_options)?;
        info!(
            duplex = engine_options.duplex,
            steps = table.steps.len(),
            "frozen"
        );
        Ok(Frozen::new(Parts {
            crew,
            table,
            content,
            map,
            arena: Arc::clone(arena),
            tier,
            plan,
            scale,
            engine_options,
        }))
    }
}

/// The engines of a program, at their start.
pub(crate) fn crew(
    table: &Table,
    tier: &Arc<Tier>,
    options: EngineOptions,
) -> Result<Crew, RuntimeError> {
    let [outs, ins] = table.counts();
    let counters = Arc::new(Counters::new(outs, ins));
    let engines = Engines::start(table, options.duplex, &counters, |_| {
        copier(tier, &counters, options)
    })?;
    Ok(Crew::new(engines, counters))
}

/// Gives every persistent byte its initial content, in every place where it is at HOME.
pub(crate) fn bring_home(
    content: &Content,
    memory: &dyn AtRest,
    mut fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    let largest = content
        .segments()
        .iter()
        .map(|s| s.end - s.start)
        .max()
        .unwrap_or(0);
    let mut buffer = PrivateBuffer::new(to_usize(largest.min(FILL_BYTES_MAX)))?;
    for segment in content.segments() {
        if segment.device.is_none() && segment.slot.is_none() {
            continue;
        }
        let mut offset = segment.start;
        while offset < segment.end {
            let part = to_usize((segment.end - offset).min(FILL_BYTES_MAX));
            buffer[..part].fill(0);
            fill(segment.tensor, offset, &mut buffer[..part])?;
            // SAFETY: the windows are mapped, and no engine runs yet.
            unsafe { content.write(memory, segment.tensor, offset, &buffer[..part]) }?;
            offset += part as u64;
        }
    }
    Ok(())
}
