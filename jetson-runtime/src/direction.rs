//! The direction of a copy.

use std::fmt;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device to the spill tier.
    Out,
    /// From the spill tier to the device.
    In,
}

impl Direction {
    /// The row of tables that hold one entry for each direction.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Out => "out",
            Self::In => "in",
        })
    }
}
