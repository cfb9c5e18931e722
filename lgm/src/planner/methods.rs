//! Methods: how gaps may be closed.

use core::fmt;
use core::str::FromStr;

/// How gaps may be closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Methods {
    /// By copies alone.
    Swap,
    /// By running ops again alone: nothing moves.
    Recompute,
    /// By whichever is faster, each gap by its own.
    #[default]
    Both,
}

impl Methods {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Swap, Self::Recompute, Self::Both];

    /// Its name on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Recompute => "recompute",
            Self::Both => "both",
        }
    }
}

impl fmt::Display for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("methods are swap, recompute and both, not `{given}`")]
pub struct UnknownMethods {
    given: String,
}

impl FromStr for Methods {
    type Err = UnknownMethods;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|methods| methods.name() == name);
        found.ok_or_else(|| UnknownMethods { given: name.into() })
    }
}
