//! The boot probe: what this machine is, what works on it, how fast, and what follows.
//!
//! In: an open device, and the system around it. Out: a [`Probe`], which can be stored and read
//! back, and from it a [`Decision`] with its reasons. Attributes are hints, so each mechanism is
//! tried on a few pages; the link is measured in both directions, alone and together.
//!
//! | module | noun |
//! |---|---|
//! | `trials` | small calls that show what works |
//! | [`link`] | bandwidth and latency of copies and prefetches |
//! | [`system`] | memory and release of the system, by the rules of Tegra |
//! | [`decision`] | what is chosen, and why |
//!
//! Guarantees: everything that is tried is given back; a trial that fails is a finding, not an
//! error. Takes some 150 MiB of the device and the host, and well below a second.

pub mod decision;
pub mod link;
pub mod system;
mod trials;

use serde::{Deserialize, Serialize};

use super::class::Class;
use super::device::Device;
use super::error::CudaError;

pub use decision::{Choices, Decision, SpillPlace};
pub use link::LinkSpeed;
pub use system::{L4tRelease, System};
pub use trials::Trial;

/// For which machine a probe holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The device's name.
    pub device: String,
    /// Its identity, where the driver tells it.
    pub uuid: String,
    /// The driver's version of CUDA.
    pub driver_version: i32,
    /// The release of the kernel.
    pub kernel: String,
}

impl Validity {
    /// That of a device and a system.
    #[must_use]
    pub fn of(device: &Device, system: &System) -> Self {
        Self {
            device: device.facts().name.clone(),
            uuid: device.facts().uuid.clone(),
            driver_version: device.driver().version(),
            kernel: system.kernel.clone(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// For which machine it holds.
    pub validity: Validity,
    /// The class, by its letter.
    pub class: char,
    /// What the class means.
    pub class_means: String,
    /// Major and minor compute capability.
    pub compute: (i32, i32),
    /// Copies that run beside one another, as the device says.
    pub copy_engines: i32,
    /// What was tried, and what came of it.
    pub trials: Vec<Trial>,
    /// The smallest page that can be mapped, in bytes; `None` where none can.
    pub page_bytes: Option<u64>,
    /// How fast copies and prefetches are; `None` where copies failed.
    pub link: Option<LinkSpeed>,
    /// All memory of the device, in bytes.
    pub memory_bytes: u64,
    /// What the driver counts as free, in bytes.
    pub free_bytes: u64,
    /// The system around it.
    pub system: System,
}

impl Probe {
    /// Probes a device.
    ///
    /// # Errors
    /// If the driver does not even tell how much memory there is, or makes no stream.
    pub fn of(device: &Device, system: System) -> Result<Self, CudaError> {
        let facts = device.facts();
        let class = Class::of(facts);
        let (free, total) = device.memory()?;
        let (trials, page_bytes) = trials::all(device)?;
        let prefetches = trials
            .iter()
            .any(|trial| trial.name == "prefetch" && trial.works);
        Ok(Self {
            validity: Validity::of(device, &system),
            class: class.letter(),
            class_means: class.means().into(),
            compute: facts.compute,
            copy_engines: facts.copy_engines,
            trials,
            page_bytes,
            link: LinkSpeed::measure(device, prefetches).ok(),
            memory_bytes: total.0,
            free_bytes: free.0,
            system,
        })
    }

    /// Whether a trial worked.
    #[must_use]
    pub fn works(&self, trial: &str) -> bool {
        self.trials
            .iter()
            .any(|found| found.name == trial && found.works)
    }

    /// Why a trial did not work; empty if it did.
    #[must_use]
    pub fn why_not(&self, trial: &str) -> &str {
        let found = self.trials.iter().find(|found| found.name == trial);
        found.map_or("it was not tried", |found| &found.found)
    }
}
