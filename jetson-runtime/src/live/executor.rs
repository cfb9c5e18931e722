//! An executor: who executes a program, the host or a GPU.
//!
//! In: a proven plan that fits, and the memory of an application. Out: the program, frozen there,
//! which both execute by the same rules.

use std::ffi::c_void;
use std::sync::Arc;

use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, OpIndex, StepKind, TensorId};

use crate::arena::Arena;
use crate::content::Content;
use crate::course::Course;
use crate::cuda;
use crate::cuda::ground::GpuGround;
use crate::error::RuntimeError;
use crate::frozen::Frozen;
use crate::places::AtRest;
use crate::planned::Planned;
use crate::scale::system_page;
use crate::stats::Stats;
use crate::table::Table;

/// A plan that fits, and nothing taken yet.
pub(super) enum Ready {
    Host(Box<Planned>),
    Gpu(Box<VerifiedPlan>, cuda::Options),
}

impl Ready {
    pub(super) fn plan(&self) -> &Plan {
        match self {
            Self::Host(planned) => &planned.plan,
            Self::Gpu(plan, _) => plan,
        }
    }

    /// What it takes of the arena.
    pub(super) fn arena_bytes(&self) -> Bytes {
        match self {
            Self::Host(planned) => planned.arena_bytes(),
            Self::Gpu(plan, _) => {
                let program = &plan.program;
                Bytes(u64::from(program.arena_pages) * program.page_bytes.get())
            }
        }
    }
}

/// The memory of an application, as programs see it.
#[derive(Clone)]
pub(super) enum Stand {
    Host(Arc<Arena>),
    Gpu(Arc<GpuGround>),
}

impl Stand {
    /// Freezes a plan there.
    pub(super) fn freeze(
        &self,
        ready: Ready,
        fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<Executor, RuntimeError> {
        match (self, ready) {
            (Self::Host(arena), Ready::Host(planned)) => {
                planned.freeze_on(arena, fill).map(Executor::Host)
            }
            (Self::Gpu(ground), Ready::Gpu(plan, options)) => {
                let frozen = ground.freeze(*plan, &options, fill)?;
                Ok(Executor::Gpu(Box::new(frozen)))
            }
            _ => unreachable!("a plan is made ready for the memory that there is"),
        }
    }

    /// The smallest page that a plan may have.
    pub(super) fn least_page(&self) -> u64 {
        match self {
            Self::Host(_) => system_page(),
            Self::Gpu(ground) => ground.page_bytes(),
        }
    }

    /// Brings the device to rest, before memory goes that it may use.
    pub(super) fn rest(&self) {
        match self {
            // Engines end with their program.
            Self::Host(_) => {}
            Self::Gpu(ground) => ground.rest(),
        }
    }

    /// The stream of ops, where they have one.
    pub(super) fn stream(&self) -> Option<*mut c_void> {
        match self {
            Self::Host(_) => None,
            Self::Gpu(ground) => Some(ground.stream()),
        }
    }
}

/// A frozen program.
#[allow(
    clippy::large_enum_variant,
    reason = "the host's has no pointer on its step path"
)]
pub(super) enum Executor {
    Host(Frozen),
    Gpu(Box<cuda::Frozen>),
}

/// The same of either.
macro_rules! either {
    ($self:expr, $frozen:ident => $answer:expr) => {
        match $self {
            Executor::Host($frozen) => $answer,
            Executor::Gpu($frozen) => $answer,
        }
    };
}

impl Executor {
    pub(super) fn plan(&self) -> &Plan {
        match self {
            Self::Host(frozen) => &frozen.parts.plan,
            Self::Gpu(frozen) => &frozen.parts().plan,
        }
    }

    pub(super) fn table(&self) -> &Table {
        match self {
            Self::Host(frozen) => &frozen.parts.table,
            Self::Gpu(frozen) => &frozen.parts().table,
        }
    }

    /// Whether the host can follow the addresses of tensors.
    #[inline]
    pub(super) const fn on_host(&self) -> bool {
        matches!(self, Self::Host(_))
    }

    /// Where persistent tensors are at HOME.
    pub(super) fn content(&self) -> &Content {
        match self {
            Self::Host(frozen) => &frozen.parts.content,
            Self::Gpu(frozen) => &frozen.parts().content,
        }
    }

    #[inline]
    pub(super) fn course(&self) -> &Course {
        match self {
            Self::Host(frozen) => &frozen.course,
            Self::Gpu(frozen) => frozen.course(),
        }
    }

    pub(super) fn iteration_begin(&mut self) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.iteration_begin())
    }

    /// What the step that comes next, or that is open, does; `None` after the last one.
    #[inline]
    pub(super) fn due(&self) -> Option<StepKind> {
        Some(self.table().steps.get(self.course().next_step)?.kind)
    }

    /// Begins the step that comes next.
    #[inline]
    pub(super) fn step_begin(&mut self) -> Result<(), RuntimeError> {
        let step = OpIndex::from_index(self.course().next_step);
        either!(self, frozen => frozen.step_begin(step).map(drop))
    }

    #[inline]
    pub(super) fn step_end(&mut self) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.step_end())
    }

    pub(super) fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.iteration_end())
    }

    /// Checks that nothing runs, and waits until nothing moves.
    pub(super) fn rest(&mut self, call: &'static str) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.rest(call))
    }

    pub(super) fn read(
        &mut self,
        tensor: TensorId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.read(tensor, offset, buffer))
    }

    pub(super) fn write(
        &mut self,
        tensor: TensorId,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.write(tensor, offset, buffer))
    }

    /// Takes note that the application's own call of the driver failed.
    pub(super) fn doubt(&mut self) {
        match self {
            Self::Host(_) => {}
            Self::Gpu(frozen) => frozen.doubt(),
        }
    }

    /// Stops in the middle of an iteration: where every byte is that the iteration holds. Needs
    /// [`Self::restart`] before it runs again.
    pub(super) fn halt(&mut self) -> Content {
        either!(self, frozen => frozen.halt())
    }

    /// Copies bytes of a tensor out of what the program holds, be it at HOME or halted.
    pub(super) fn fetch(
        &self,
        content: &Content,
        tensor: TensorId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let memory: &dyn AtRest = match self {
            Self::Host(frozen) => &frozen.parts,
            Self::Gpu(frozen) => frozen.parts(),
        };
        // SAFETY: the memory is alive, and no op runs: this borrows the program. Engines and
        // streams are at rest or ended: `content` is HOME after `rest`, or comes from `halt`.
        unsafe { content.read(memory, tensor, offset, buffer) }
    }

    /// Gives the slots back: what the program holds there was carried away.
    pub(super) fn release_slots(&self) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.release_slots())
    }

    /// Takes slots and pages again, and brings every persistent piece to HOME.
    pub(super) fn return_home(
        &mut self,
        fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.return_home(fill))
    }

    /// After [`Self::halt`]: the program as it was frozen, without content, at rest.
    pub(super) fn restart(&mut self) -> Result<(), RuntimeError> {
        either!(self, frozen => frozen.restart())
    }

    /// How long the application has waited for copies, in nanoseconds.
    pub(super) fn stall_ns(&self) -> u64 {
        match self {
            Self::Host(frozen) => frozen.stall_ns(),
            Self::Gpu(frozen) => frozen.stats().host_wait_ns,
        }
    }

    pub(super) fn stats(&self) -> Stats {
        match self {
            Self::Host(frozen) => frozen.stats(),
            Self::Gpu(frozen) => {
                let stats = frozen.stats();
                Stats {
                    iterations: stats.iterations,
                    moved_out: stats.moved_out(),
                    moved_in: stats.moved_in(),
                    stall_ns: stats.host_wait_ns,
                    stalls: stats.host_waits,
                    ..Stats::default()
                }
            }
        }
    }

    /// What its spill tier takes now.
    pub(super) fn spill_allocated(&self) -> Result<Bytes, RuntimeError> {
        match self {
            Self::Host(frozen) => frozen.parts.tier.allocated(),
            Self::Gpu(frozen) => frozen.spill_allocated(),
        }
    }
}
