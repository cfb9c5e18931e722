//! Policies: what moves when. Each is one file; all go through the same cost model, layout and
//! program.
//!
//! The published ones are there in two variants. *As published*, tensors are contiguous and copies
//! in are released by the policy's own rule (see `published`). *Paged*, they choose what leaves in
//! which gaps, and everything else is the planner's own (see `paged`): that isolates the choice.

mod autoswap;
mod capuchin;
mod deepum;
#[cfg(test)]
mod example;
mod flashneuron;
mod forward;
mod g10;
mod leads;
mod local;
mod lru;
mod nnabla;
mod none;
mod paged;
mod published;
mod recipe;
mod search;
mod swapadvisor;
mod vdnn;

use core::fmt;
use core::str::FromStr;

pub use self::published::Timed;
use crate::graph::Graph;
use crate::profile::Link;
use crate::queues::{Overfull, Pages};
use crate::schedule::Schedule;
use crate::tricks::Tricks;

/// How to choose what moves when, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// No limit: nothing moves. The reference for time and peak.
    None,
    /// On demand: when there is no room, the least recently used tensor leaves; it returns when an
    /// op needs it (SuperNeurons, PPoPP 2018).
    Lru,
    /// The same on pages.
    LruPaged,
    /// Every feature map leaves in the forward pass (vDNN, MICRO 2016).
    VdnnAll,
    /// The same on pages.
    VdnnAllPaged,
    /// The feature maps that convolutions read leave in the forward pass (vDNN, MICRO 2016).
    VdnnConv,
    /// The same on pages.
    VdnnConvPaged,
    /// Feature maps leave in the order of the forward pass until the rest fits (FlashNeuron, FAST
    /// 2021).
    Flashneuron,
    /// The same on pages.
    FlashneuronPaged,
    /// The gaps with the most free time beside their copies (Capuchin, ASPLOS 2020).
    Capuchin,
    /// The same on pages.
    CapuchinPaged,
    /// The highest scores among what idles at the peak (AutoSwap, 2019).
    Autoswap,
    /// The same on pages.
    AutoswapPaged,
    /// The tensor with the farthest next use (the planner of SwapAdvisor, ASPLOS 2020).
    Swapadvisor,
    /// The same on pages.
    SwapadvisorPaged,
    /// What is not used again inside a window that runs ahead (NNabla, 2020).
    NnablaWindow,
    /// The same on pages.
    NnablaWindowPaged,
    /// The least recently used tensor that the next ops do not use (DeepUM, ASPLOS 2023).
    Deepum,
    /// The same on pages.
    DeepumPaged,
    /// The gaps with the largest area above the budget line whose copies the link can hide (G10,
    /// MICRO 2023).
    G10,
    /// The same on pages.
    G10Paged,
    /// The planner, with tensors moving only as a whole.
    Whole,
    /// The same on pages.
    WholePaged,
    /// Nothing moves: what lies between checkpoints of the forward pass runs again, or what is
    /// cheap (Chen et al., *Training Deep Nets with Sublinear Memory Cost*, 2016).
    Checkpoint,
    /// The planner: pieces of tensors, as many as each step lacks.
    Vtensor,
    /// The planner, and what the published policies choose: whatever is fastest.
    Portfolio,
}

impl Policy {
    /// All policies, each paged one behind its contiguous variant.
    pub const ALL: [Self; 26] = [
        Self::None,
        Self::Lru,
        Self::LruPaged,
        Self::VdnnAll,
        Self::VdnnAllPaged,
        Self::VdnnConv,
        Self::VdnnConvPaged,
        Self::Flashneuron,
        Self::FlashneuronPaged,
        Self::Capuchin,
        Self::CapuchinPaged,
        Self::Autoswap,
        Self::AutoswapPaged,
        Self::Swapadvisor,
        Self::SwapadvisorPaged,
        Self::NnablaWindow,
        Self::NnablaWindowPaged,
        Self::Deepum,
        Self::DeepumPaged,
        Self::G10,
        Self::G10Paged,
        Self::Whole,
        Self::WholePaged,
        Self::Checkpoint,
        Self::Vtensor,
        Self::Portfolio,
    ];

    /// Its name on command lines and in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lru => "lru",
            Self::LruPaged => "lru-paged",
            Self::VdnnAll => "vdnn-all",
            Self::VdnnAllPaged => "vdnn-all-paged",
            Self::VdnnConv => "vdnn-conv",
            Self::VdnnConvPaged => "vdnn-conv-paged",
            Self::Flashneuron => "flashneuron",
            Self::FlashneuronPaged => "flashneuron-paged",
            Self::Capuchin => "capuchin",
            Self::CapuchinPaged => "capuchin-paged",
            Self::Autoswap => "autoswap",
            Self::AutoswapPaged => "autoswap-paged",
            Self::Swapadvisor => "swapadvisor",
            Self::SwapadvisorPaged => "swapadvisor-paged",
            Self::NnablaWindow => "nnabla-window",
            Self::NnablaWindowPaged => "nnabla-window-paged",
            Self::Deepum => "deepum",
            Self::DeepumPaged => "deepum-paged",
            Self::G10 => "g10",
            Self::G10Paged => "g10-paged",
            Self::Whole => "whole",
            Self::WholePaged => "whole-paged",
            Self::Checkpoint => "checkpoint",
            Self::Vtensor => "vtensor",
            Self::Portfolio => "portfolio",
        }
    }

    /// The paged variant of a policy whose tensors are contiguous; `None` if they are on pages.
    #[must_use]
    pub const fn paged(self) -> Option<Self> {
        match self {
            Self::Lru => Some(Self::LruPaged),
            Self::VdnnAll => Some(Self::VdnnAllPaged),
            Self::VdnnConv => Some(Self::VdnnConvPaged),
            Self::Flashneuron => Some(Self::FlashneuronPaged),
            Self::Capuchin => Some(Self::CapuchinPaged),
            Self::Autoswap => Some(Self::AutoswapPaged),
            Self::Swapadvisor => Some(Self::SwapadvisorPaged),
            Self::NnablaWindow => Some(Self::NnablaWindowPaged),
            Self::Deepum => Some(Self::DeepumPaged),
            Self::G10 => Some(Self::G10Paged),
            Self::Whole => Some(Self::WholePaged),
            _ => None,
        }
    }

    /// Whether tensors are contiguous in one arena; otherwise they are on pages.
    #[must_use]
    pub const fn is_contiguous(self) -> bool {
        self.paged().is_some()
    }

    /// Whether pieces of tensors move, and not only whole ones.
    #[must_use]
    pub const fn is_in_pieces(self) -> bool {
        matches!(self, Self::Vtensor | Self::Portfolio)
    }

    /// Whether the choice of what moves is somebody else's: a baseline that the planner is compared
    /// with, as published or on pages.
    #[must_use]
    pub const fn is_published(self) -> bool {
        !matches!(
            self,
            Self::None
                | Self::Whole
                | Self::WholePaged
                | Self::Checkpoint
                | Self::Vtensor
                | Self::Portfolio
        )
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
            Policy::Whole | Policy::WholePaged => recipe::Granule::Tensor,
            _ => recipe::Granule::Piece,
        };
        Self {
            policy,
            search: search::Search::new(granule, tricks),
        }
    }

    /// The rank of the best of the first that the planner's own policies try; `None` if none of
    /// these fits, or the policy is another's.
    pub fn probe(&mut self, task: Task<'_>) -> Option<(u64, u64)> {
        if self.policy.is_published() || self.policy == Policy::None {
            return None;
        }
        self.search.probe(task)
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
            Policy::Lru | Policy::LruPaged => lru::schedule(task).map(|one| vec![one]),
            Policy::VdnnAllPaged => vdnn::schedules(task, vdnn::Layers::All),
            Policy::VdnnConvPaged => vdnn::schedules(task, vdnn::Layers::Convolutions),
            Policy::FlashneuronPaged => flashneuron::schedules(task),
            Policy::CapuchinPaged => capuchin::schedules(task),
            Policy::AutoswapPaged => autoswap::schedules(task),
            Policy::SwapadvisorPaged => swapadvisor::schedules(task),
            Policy::NnablaWindowPaged => nnabla::schedules(task),
            Policy::DeepumPaged => deepum::schedules(task),
            Policy::G10Paged => g10::schedules(task),
            // Of what checkpoints leave, nothing has to move.
            Policy::Whole
            | Policy::WholePaged
            | Policy::Checkpoint
            | Policy::Vtensor
            | Policy::Portfolio => self.search.schedules(task),
            _ => Ok(self
                .timed(task)?
                .into_iter()
                .map(|timed| timed.schedule)
                .collect()),
        }
    }

    /// The same with what the policy's own rule says of waits, for a policy whose tensors are
    /// contiguous.
    ///
    /// # Errors
    /// If the policy finds none that fits.
    pub fn timed(&mut self, task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
        match self.policy {
            Policy::VdnnAll => vdnn::published(task, vdnn::Layers::All),
            Policy::VdnnConv => vdnn::published(task, vdnn::Layers::Convolutions),
            Policy::Flashneuron => flashneuron::published(task),
            Policy::Capuchin => capuchin::published(task),
            Policy::Autoswap => autoswap::published(task),
            Policy::Swapadvisor => swapadvisor::published(task),
            Policy::NnablaWindow => nnabla::published(task),
            Policy::Deepum => deepum::published(task),
            Policy::G10 => g10::published(task),
            _ => Ok(self.schedules(task)?.into_iter().map(Timed::from).collect()),
        }
    }
}

fn portfolio_evaluations_max() -> u32 {
    let published = Policy::ALL
        .into_iter()
        .filter(|policy| policy.is_published());
    published.map(evaluations_max).sum::<u32>() + search::EVALUATIONS_MAX
}

/// How many candidates a policy scores at most for one size of memory.
#[must_use]
pub fn evaluations_max(policy: Policy) -> u32 {
    match policy {
        Policy::None
        | Policy::Lru
        | Policy::LruPaged
        | Policy::VdnnAll
        | Policy::VdnnConv
        | Policy::Flashneuron
        | Policy::Swapadvisor
        | Policy::Checkpoint => 1,
        Policy::Capuchin => capuchin::ROUNDS_MAX,
        Policy::Autoswap => autoswap::CHOICES * autoswap::ROUNDS,
        Policy::NnablaWindow => nnabla::CHOICES,
        Policy::Deepum => deepum::CHOICES,
        Policy::G10 => g10::CHOICES,
        Policy::VdnnAllPaged
        | Policy::VdnnConvPaged
        | Policy::FlashneuronPaged
        | Policy::CapuchinPaged
        | Policy::SwapadvisorPaged => leads::EVALUATIONS_MAX,
        Policy::G10Paged => g10::CHOICES * leads::EVALUATIONS_MAX,
        Policy::AutoswapPaged => autoswap::CHOICES * leads::EVALUATIONS_MAX,
        Policy::NnablaWindowPaged => nnabla::CHOICES * leads::EVALUATIONS_MAX,
        Policy::DeepumPaged => deepum::CHOICES * leads::EVALUATIONS_MAX,
        Policy::Whole | Policy::WholePaged | Policy::Vtensor => search::EVALUATIONS_MAX,
        Policy::Portfolio => portfolio_evaluations_max(),
    }
}
