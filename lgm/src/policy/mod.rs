//! Policies: what moves when. Each is one file; all go through the same cost model, layout and
//! program.

mod lru;
mod none;
mod search;

use core::fmt;
use core::str::FromStr;

use crate::graph::Graph;
use crate::profile::Link;
use crate::queues::{Overfull, Pages};
use crate::schedule::Schedule;

/// How to choose what moves when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// No limit: nothing moves. The reference for time and peak.
    None,
    /// On demand: when there is no room, the least recently used tensor leaves; it returns when an
    /// op needs it.
    Lru,
    /// The planner, with tensors moving only as a whole.
    Whole,
    /// The planner: pieces of tensors, as many as each step lacks.
    Vtensor,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::None, Self::Lru, Self::Whole, Self::Vtensor];

    /// Its name on command lines and in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lru => "lru",
            Self::Whole => "whole",
            Self::Vtensor => "vtensor",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policies are none, lru, whole and vtensor, not `{0}`")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.into()))
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

/// Schedules by a policy, the best first. There may be several, since not every one has a layout,
/// and layouts make some wait longer than the counts of pages do.
///
/// # Errors
/// If the policy finds none that fits.
pub fn schedules(policy: Policy, task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    match policy {
        Policy::None => none::schedule(task).map(|one| vec![one]),
        Policy::Lru => lru::schedule(task).map(|one| vec![one]),
        Policy::Whole => search::schedules(task, search::Granule::Tensor),
        Policy::Vtensor => search::schedules(task, search::Granule::Piece),
    }
}

/// How many candidates a policy scores at most.
#[must_use]
pub fn evaluations_max(policy: Policy) -> u32 {
    match policy {
        Policy::None | Policy::Lru => 1,
        Policy::Whole | Policy::Vtensor => search::EVALUATIONS_MAX,
    }
}
