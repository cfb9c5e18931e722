//! What an application may choose about the execution of a plan.

use vtensor::PageBytes;

use crate::fault::Fault;
use crate::spill::Spill;
use crate::storage::StorageOptions;
use crate::throttle::Throttle;
use crate::window_map::MapLimits;

/// How a plan is executed. The default executes it at its own size, with a spill tier in RAM, as
/// fast as the machine copies.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The page to execute with; `None` is the page of the plan. A smaller one shrinks every
    /// tensor by the same ratio, for replays on a smaller machine.
    pub executed_page: Option<PageBytes>,
    /// Where pieces go.
    pub spill: Spill,
    /// How a spill file is used.
    pub storage: StorageOptions,
    /// Whether outs and ins run at once; `None` follows the plan's device.
    pub duplex: Option<bool>,
    /// The pace of the copies; `None` is as fast as the machine copies.
    pub throttle: Option<Throttle>,
    /// Whether page tables are filled at the first access rather than at freeze. Saves time where
    /// a plan has far more virtual than physical memory and few iterations run.
    pub lazy_page_tables: bool,
    /// Limits on what the windows may take from the kernel.
    pub limits: MapLimits,
    /// A copy that fails, for tests.
    pub fault: Option<Fault>,
}
