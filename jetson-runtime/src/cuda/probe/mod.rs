//! The boot probe: what this machine is, what works on it, how fast, and what follows.
//!
//! In: an open device. Out: a [`Probe`], which holds as long as the machine is up and is kept in
//! its profile ([`crate::device`]), and from it, with the [`Room`] that there is at a moment, a
//! [`Decision`] with its reasons. Attributes are hints, so each mechanism is tried on a few pages;
//! the link is measured in both directions, alone and together.
//!
//! | module | noun |
//! |---|---|
//! | `trials` | small calls that show what works |
//! | [`link`] | bandwidth and latency of copies and prefetches |
//! | [`room`] | what a device can be given, by the rules of Tegra |
//! | [`decision`] | what is chosen, and why |
//!
//! Guarantees: everything that is tried is given back; a trial that fails is a finding, not an
//! error. Takes some 150 MiB of the device and the host, and well below a second.

pub mod decision;
pub mod link;
pub mod room;
mod trials;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::class::Class;
use super::device::Device;
use super::error::CudaError;

pub use decision::{Choices, Decision, SpillPlace};
pub use link::LinkSpeed;
pub use room::Room;
pub use trials::Trial;

/// For which GPU a probe holds, in the boot of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// The device's name.
    pub name: String,
    /// Its identity; empty where the driver does not tell it.
    pub uuid: String,
    /// The driver's version of CUDA, as 1000 × major + 10 × minor.
    pub driver_version: i32,
}

impl Gpu {
    /// A device, by its driver.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        Self {
            name: device.facts().name.clone(),
            uuid: device.facts().uuid.clone(),
            driver_version: device.driver().version(),
        }
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.driver_version;
        let (major, minor) = (version / 1000, version % 1000 / 10);
        write!(f, "{}, driver of CUDA {major}.{minor}", self.name)
    }
}

/// What was found, and holds as long as the machine is up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// For which GPU it holds.
    pub gpu: Gpu,
    /// What kind of machine it is.
    pub class: Class,
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
}

impl Probe {
    /// Probes a device.
    ///
    /// # Errors
    /// If the driver does not even tell how much memory there is, or makes no stream.
    pub fn of(device: &Device) -> Result<Self, CudaError> {
        let facts = device.facts();
        let (_, total) = device.memory()?;
        let (trials, page_bytes) = trials::all(device)?;
        let prefetches = trials
            .iter()
            .any(|trial| trial.name == "prefetch" && trial.works);
        Ok(Self {
            gpu: Gpu::of(device),
            class: Class::of(facts),
            compute: facts.compute,
            copy_engines: facts.copy_engines,
            trials,
            page_bytes,
            link: LinkSpeed::measure(device, prefetches).ok(),
            memory_bytes: total.0,
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
