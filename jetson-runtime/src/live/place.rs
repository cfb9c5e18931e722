//! The place of an application: outside an iteration, or in one, and how far it came.
//!
//! Guarantees: a call that does not belong there is refused, with what to do instead.

use super::recording::Recording;
use crate::error::RuntimeError;

/// Where the application is.
pub(super) enum Place {
    /// Between two iterations.
    Rest,
    /// In an iteration on demand.
    Recording(Recording),
    /// In an iteration of a frozen program.
    Replaying(Cursor),
}

/// How far a frozen iteration came.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    pub(super) track: usize,
    /// Calls, ops, and creations so far.
    pub(super) event: usize,
    pub(super) op: usize,
    pub(super) created: u32,
    pub(super) open: bool,
}

impl Place {
    /// Checks that no op is open.
    pub(super) fn between(&self, call: &'static str) -> Result<(), RuntimeError> {
        match self {
            Self::Recording(Recording { open: Some(_), .. })
            | Self::Replaying(Cursor { open: true, .. }) => {
                Err(self.out_of_order(call, "end the op first"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that no iteration runs.
    pub(super) fn at_rest(&self, call: &'static str) -> Result<(), RuntimeError> {
        match self {
            Self::Rest => Ok(()),
            _ => Err(self.out_of_order(call, "end or abort the iteration first")),
        }
    }

    #[cold]
    pub(super) fn out_of_order(&self, call: &'static str, advice: &'static str) -> RuntimeError {
        let found = match self {
            Self::Rest => "outside an iteration",
            Self::Recording(Recording { open: Some(_), .. })
            | Self::Replaying(Cursor { open: true, .. }) => "inside an op",
            Self::Recording(_) | Self::Replaying(_) => "inside an iteration, between two ops",
        };
        RuntimeError::Order {
            call,
            found,
            advice,
        }
    }
}
