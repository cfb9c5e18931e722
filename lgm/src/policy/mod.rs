//! Policies: what moves when. Each is one file; all go through the same cost model, layout and
//! program.
//!
//! The published ones are there in their *paged* variant: they choose what leaves in which gaps,
//! and everything else is the planner's own (see `paged`). That isolates the choice.

mod autoswap;
mod capuchin;
mod deepum;
#[cfg(test)]
mod example;
mod flashneuron;
mod forward;
mod g10;
mod leads;
mod lru;
mod nnabla;
mod none;
mod paged;
mod search;
mod swapadvisor;
mod vdnn;

use core::fmt;
use core::str::FromStr;

use crate::graph::Graph;
use crate::profile::Link;
use crate::queues::{Overfull, Pages};
use crate::schedule::Schedule;
use crate::tricks::Tricks;

/// How to choose what moves when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// No limit: nothing moves. The reference for time and peak.
    None,
    /// On demand: when there is no room, the least recently used tensor leaves; it returns when an
    /// op needs it.
    Lru,
    /// Every feature map leaves in the forward pass (vDNN, MICRO 2016).
    VdnnAllPaged,
    /// The feature maps that convolutions read leave in the forward pass (vDNN, MICRO 2016).
    VdnnConvPaged,
    /// Feature maps leave in the order of the forward pass until the rest fits (FlashNeuron, FAST
    /// 2021).
    FlashneuronPaged,
    /// The gaps with the most free time beside their copies (Capuchin, ASPLOS 2020).
    CapuchinPaged,
    /// The highest scores among what idles at the peak (AutoSwap, 2019).
    AutoswapPaged,
    /// The tensor with the farthest next use (the planner of SwapAdvisor, ASPLOS 2020).
    SwapadvisorPaged,
    /// What is not used again inside a window that runs ahead (NNabla, 2020).
    NnablaWindowPaged,
    /// The least recently used tensor that the next ops do not use (DeepUM, ASPLOS 2023).
    DeepumPaged,
    /// The gaps with the largest area above the budget line whose copies the link can hide (G10,
    /// MICRO 2023).
    G10Paged,
    /// The planner, with tensors moving only as a whole.
    Whole,
    /// The planner: pieces of tensors, as many as each step lacks.
    Vtensor,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 13] = [
        Self::None,
        Self::Lru,
        Self::VdnnAllPaged,
        Self::VdnnConvPaged,
        Self::FlashneuronPaged,
        Self::CapuchinPaged,
        Self::AutoswapPaged,
        Self::SwapadvisorPaged,
        Self::NnablaWindowPaged,
        Self::DeepumPaged,
        Self::G10Paged,
        Self::Whole,
        Self::Vtensor,
    ];

    /// Its name on command lines and in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lru => "lru",
            Self::VdnnAllPaged => "vdnn-all-paged",
            Self::VdnnConvPaged => "vdnn-conv-paged",
            Self::FlashneuronPaged => "flashneuron-paged",
            Self::CapuchinPaged => "capuchin-paged",
            Self::AutoswapPaged => "autoswap-paged",
            Self::SwapadvisorPaged => "swapadvisor-paged",
            Self::NnablaWindowPaged => "nnabla-window-paged",
            Self::DeepumPaged => "deepum-paged",
            Self::G10Paged => "g10-paged",
            Self::Whole => "whole",
            Self::Vtensor => "vtensor",
        }
    }

    /// Whether it is somebody else's: a baseline that the planner is compared with.
    #[must_use]
    pub const fn is_published(self) -> bool {
        !matches!(self, Self::None | Self::Whole | Self::Vtensor)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policies are {}, not `{given}`", names())]
pub struct UnknownPolicy {
    given: String,
}

/// The names of all policies, for a sentence.
fn names() -> String {
    let names = Policy::ALL.map(Policy::name);
    let (last, others) = names.split_last().expect("there are policies");
    format!("{} and {last}", others.join(", "))
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy { given: name.into() })
    }
}

/// What a policy works on.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    /// Pages live when nothing moves.
    pub pages: &'a Pages,
    /// Pages that paged tensors may hold.
    pub capacity: i64,
    /// The link to the spill tier.
    pub link: &'a Link,
}

/// Makes schedules by a policy, for one plan.
#[derive(Clone, Debug)]
pub struct Scheduler {
    policy: Policy,
    search: search::Search,
}

impl Scheduler {
    /// One that has made none yet.
    #[must_use]
    pub fn new(policy: Policy, tricks: Tricks) -> Self {
        let granule = match policy {
            Policy::Whole => search::Granule::Tensor,
            _ => search::Granule::Piece,
        };
        Self {
            policy,
            search: search::Search::new(granule, tricks),
        }
    }

    /// Schedules, the best first. There may be several, since not every one has a layout, and
    /// layouts make some wait longer than the counts of pages do. The planner's own policies try
    /// for later tasks only what was good for the first.
    ///
    /// # Errors
    /// If the policy finds none that fits.
    pub fn schedules(&mut self, task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
        match self.policy {
            Policy::None => none::schedule(task).map(|one| vec![one]),
            Policy::Lru => lru::schedule(task).map(|one| vec![one]),
            Policy::VdnnAllPaged => vdnn::schedules(task, vdnn::Layers::All),
            Policy::VdnnConvPaged => vdnn::schedules(task, vdnn::Layers::Convolutions),
            Policy::FlashneuronPaged => flashneuron::schedules(task),
            Policy::CapuchinPaged => capuchin::schedules(task),
            Policy::AutoswapPaged => autoswap::schedules(task),
            Policy::SwapadvisorPaged => swapadvisor::schedules(task),
            Policy::NnablaWindowPaged => nnabla::schedules(task),
            Policy::DeepumPaged => deepum::schedules(task),
            Policy::G10Paged => g10::schedules(task),
            Policy::Whole | Policy::Vtensor => self.search.schedules(task),
        }
    }
}

/// How many candidates a policy scores at most.
#[must_use]
pub fn evaluations_max(policy: Policy) -> u32 {
    match policy {
        Policy::None | Policy::Lru => 1,
        Policy::VdnnAllPaged
        | Policy::VdnnConvPaged
        | Policy::FlashneuronPaged
        | Policy::CapuchinPaged
        | Policy::SwapadvisorPaged => leads::EVALUATIONS_MAX,
        Policy::G10Paged => g10::CHOICES * leads::EVALUATIONS_MAX,
        Policy::AutoswapPaged => autoswap::CHOICES * leads::EVALUATIONS_MAX,
        Policy::NnablaWindowPaged => nnabla::CHOICES * leads::EVALUATIONS_MAX,
        Policy::DeepumPaged => deepum::CHOICES * leads::EVALUATIONS_MAX,
        Policy::Whole | Policy::Vtensor => search::EVALUATIONS_MAX,
    }
}
