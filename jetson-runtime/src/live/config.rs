//! What an application may choose about a runtime.

use std::path::PathBuf;

use lgm::planner::Methods;
use lgm::policy::Policy;
use lgm::profile::Link;
use vtensor::{Bytes, Kinds, PageBytes};

use crate::cuda;
use crate::fault::Fault;
use crate::spill::Spill;
use crate::storage::StorageOptions;
use crate::throttle::Throttle;
use crate::window_map::MapLimits;

/// How a runtime is built. The default has no budget: nothing ever moves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The GPU whose memory that is, and whose streams make the copies; ops are kernels on
    /// [`stream`](super::Runtime::stream). `None` is the host.
    pub gpu: Option<cuda::Target>,
    /// The memory of the arena: hard, from the first op on. `None` is no limit; then nothing moves,
    /// whatever the policy.
    pub budget: Option<Bytes>,
    /// What chooses the moves once an iteration is recorded.
    pub policy: Policy,
    /// How room is made once an iteration is recorded: tensors move, or ops run again that were
    /// begun as such ([`op_begin_replayable`](super::Runtime::op_begin_replayable)), or both, each
    /// where it is faster.
    pub methods: Methods,
    /// Whether each op that may run again does so once while it is recorded, on copies that are
    /// taken beside the budget: one that leaves other bits is named, and no program runs it again.
    pub check_replays: bool,
    /// The page of plans. `None` takes the power of two near 1/1024 of the iteration's peak, and
    /// smaller ones where an op does not fit.
    pub page: Option<PageBytes>,
    /// Where pieces go.
    pub spill: Spill,
    /// How a spill file is used.
    pub storage: StorageOptions,
    /// Persistent tensors of these kinds never leave the arena: each has its place for life, taken
    /// from the budget of everything else. `None` is [`Kinds::MODEL`] with a spill file, so that a
    /// fault of the disk can cost an iteration but not the model, and nothing with host memory.
    /// Without a budget no program moves anything, but what the next one does not use waits in the
    /// spill tier all the same: there, too, it counts with a spill file.
    pub keep: Option<Kinds>,
    /// What iterations may write to a spill file in a day, for flash wears out: those that would
    /// write more are refused, by a program at the pace that the cost model sees, or, where there
    /// can be none, as the last one did. `None` is no limit.
    pub written_per_day_max: Option<Bytes>,
    /// What tensors may take of the spill tier while nothing is frozen. `None` is what the machine
    /// has free. A frozen program takes exactly what it needs, beside this.
    pub spill_bytes_max: Option<Bytes>,
    /// Equal iterations in a row before a program is made of them, at least 2. Their op durations
    /// are what the planner knows of time, so more are steadier.
    pub warmup: u32,
    /// The link to the spill tier as the planner sees it. `None` is the throttle's, or the
    /// profile's, or measured.
    pub link: Option<Link>,
    /// The profile of the device, as it was found at boot; one that is missing or does not hold is
    /// not used.
    pub profile: Option<PathBuf>,
    /// The pace of all copies; `None` is as fast as the machine copies.
    pub throttle: Option<Throttle>,
    /// Limits on what the windows of programs may take from the kernel.
    pub limits: MapLimits,
    /// A copy that fails, for tests: counted for each program, and for the heap.
    pub fault: Option<Fault>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gpu: None,
            budget: None,
            policy: Policy::Vtensor,
            methods: Methods::default(),
            check_replays: false,
            page: None,
            spill: Spill::Ram,
            storage: StorageOptions::default(),
            keep: None,
            written_per_day_max: None,
            spill_bytes_max: None,
            warmup: 3,
            link: None,
            profile: None,
            throttle: None,
            limits: MapLimits::default(),
            fault: None,
        }
    }
}

impl Config {
    /// The policy that holds: without a budget nothing has to move.
    pub(super) const fn effective_policy(&self) -> Policy {
        match self.budget {
            Some(_) => self.policy,
            None => Policy::None,
        }
    }

    /// What never leaves the arena.
    pub(super) const fn effective_keep(&self) -> Kinds {
        match (self.budget, self.keep, &self.spill) {
            (None, _, Spill::Ram) | (_, None, Spill::Ram) => Kinds::NONE,
            (_, Some(keep), _) => keep,
            (_, None, Spill::File(_)) => Kinds::MODEL,
        }
    }
}
