//! Which mechanism: a name that may be chosen.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Where tensors lie on the device, and how a copy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Pages of the device, which aliased windows show; explicit copies.
    Mapped,
    /// One plain allocation; explicit copies. Only for plans whose windows are contiguous.
    Packed,
    /// Managed memory and prefetches. The budget is not hard: see `managed`.
    Managed,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mapped, Self::Packed, Self::Managed];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Packed => "packed",
            Self::Managed => "managed",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no mechanism {text:?}; there are {names}")
        })
    }
}
