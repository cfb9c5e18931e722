//! The five kinds of machine that matter, told apart by what a device says.
//!
//! | class | machines | what follows |
//! |---|---|---|
//! | A | Tegra up to Orin | one memory; no prefetch; spilling to the host frees nothing |
//! | B | Thor, GB10 | one memory; prefetch works, but only populates pages |
//! | C | GH200, GB200 | two memories, a coherent link; prefetch fits |
//! | D | discrete, on Linux | prefetch and copies both work |
//! | E | discrete, on the Windows driver (WSL) | copies only |

use std::fmt;

use serde::{Deserialize, Serialize};

use super::device::DeviceFacts;
use super::error::CudaError;

/// A kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// Integrated, without concurrent access to managed memory.
    A,
    /// Integrated, with it.
    B,
    /// Discrete, using the host's page tables.
    C,
    /// Discrete, with concurrent access.
    D,
    /// Discrete, without.
    E,
}

impl Class {
    /// The class of a device.
    #[must_use]
    pub const fn of(facts: &DeviceFacts) -> Self {
        match (facts.integrated, facts.concurrent_managed) {
            (true, false) => Self::A,
            (true, true) => Self::B,
            (false, _) if facts.host_page_tables => Self::C,
            (false, true) => Self::D,
            (false, false) => Self::E,
        }
    }

    /// Whether host and device have one memory, so that moving bytes to the host frees none.
    #[must_use]
    pub const fn one_memory(self) -> bool {
        matches!(self, Self::A | Self::B)
    }

    /// The refusal of a spill tier in host memory where that is the device's, too, and what to do.
    pub(super) fn frees_nothing(self, facts: &DeviceFacts, advice: &str) -> CudaError {
        CudaError::Refused {
            choice: "a spill tier in host memory",
            reason: format!(
                "{} is of class {self}: it would free nothing; {advice}",
                facts.name
            ),
        }
    }

    /// Whether managed memory can be prefetched.
    #[must_use]
    pub const fn prefetches(self) -> bool {
        matches!(self, Self::B | Self::C | Self::D)
    }

    /// Its letter, as device profiles have it.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::A => 'A',
            Self::B => 'B',
            Self::C => 'C',
            Self::D => 'D',
            Self::E => 'E',
        }
    }

    /// In words.
    #[must_use]
    pub const fn means(self) -> &'static str {
        match self {
            Self::A => "one memory for host and device, no prefetch",
            Self::B => "one memory for host and device, prefetch only populates pages",
            Self::C => "two memories with a coherent link",
            Self::D => "a discrete device with its own memory",
            Self::E => "a discrete device without prefetch",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.letter(), self.means())
    }
}
