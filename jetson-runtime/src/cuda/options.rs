//! What an application may choose about the execution of a plan on a GPU.

use vtensor::PageBytes;

use super::mechanism::kind::Mechanism;
use crate::fault::Fault;
use crate::spill::Spill;
use crate::storage::StorageOptions;

/// How a plan is executed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where tensors lie, and how copies are made.
    pub mechanism: Mechanism,
    /// The page to execute with; `None` is the page of the plan.
    pub executed_page: Option<PageBytes>,
    /// Where pieces go.
    pub spill: Spill,
    /// How a spill file is used. At a smaller scale it goes through the page cache, unsealed.
    pub storage: StorageOptions,
    /// Spill to the host although that frees nothing: for tests on devices that share its memory.
    pub force_host_spill: bool,
    /// Whether outs and ins have a stream each; `None` follows the device's copy engines.
    pub duplex: Option<bool>,
    /// Fails a copy to or from a spill file, for tests.
    pub fault: Option<Fault>,
}

impl Options {
    /// The usual choices for a mechanism.
    #[must_use]
    pub fn of(mechanism: Mechanism) -> Self {
        Self {
            mechanism,
            executed_page: None,
            spill: Spill::Ram,
            storage: StorageOptions::default(),
            force_host_spill: false,
            duplex: None,
            fault: None,
        }
    }
}
