//! What can go wrong between this runtime and a GPU.

use std::path::PathBuf;

use vtensor::Bytes;

use super::status::Status;

/// Why a GPU cannot be used, or a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library cannot be opened, or is none.
    #[error(
        "the CUDA driver {} cannot be used: {reason}; install the driver, or name its library",
        library.display()
    )]
    NoDriver {
        /// What was looked for.
        library: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The driver lacks a function.
    #[error(
        "the CUDA driver has no {symbol}, nor an older form of it; update the driver, or choose a \
         mechanism that needs less"
    )]
    Missing {
        /// The function.
        symbol: &'static str,
    },
    /// A function of the driver failed.
    #[error("{call} failed: {status}")]
    Call {
        /// The function.
        call: &'static str,
        /// What it answered.
        status: Status,
    },
    /// There is no device of that number.
    #[error("device {wanted} was wanted, there are {count}; name one below that")]
    NoDevice {
        /// The number that was asked for.
        wanted: i32,
        /// How many there are.
        count: i32,
    },
    /// What was chosen cannot work on this device.
    #[error("{choice} cannot be used here: {reason}")]
    Refused {
        /// What was chosen.
        choice: &'static str,
        /// Why not.
        reason: String,
    },
    /// A page of the plan is none of the device's.
    #[error(
        "the device has pages of {granularity}, the plan is executed with {page}; take a multiple \
         of the device's, or the mechanism `packed`"
    )]
    Granularity {
        /// The executed page.
        page: Bytes,
        /// The device's.
        granularity: Bytes,
    },
    /// A call before has failed, or a copy: the program is over.
    #[error(
        "a call of the driver, or a copy, failed before; abandon the program and save what is \
         intact, if any"
    )]
    Over,
}

impl CudaError {
    /// The status of a failed call.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Call { status, .. } => Some(*status),
            _ => None,
        }
    }
}
