//! A GPU that is known: from the profile of its boot, or probed now.

use std::path::{Path, PathBuf};

use tracing::{info, warn};

use super::{DeviceProfile, ProfileRefusal};
use crate::cuda::probe::{Gpu, Probe};
use crate::cuda::{CudaError, Device};

/// What is known about a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownGpu {
    /// What was found.
    pub probe: Probe,
    /// The profile that had it; `None` if it was probed now.
    pub profile: Option<PathBuf>,
}

impl KnownGpu {
    /// What the profile at `profile` has of a device, if that holds, or what a probe finds now.
    ///
    /// # Errors
    /// As [`Probe::of`]. Whatever is wrong with the profile is logged, and no error.
    pub fn of(device: &Device, profile: Option<&Path>) -> Result<Self, CudaError> {
        if let (Some(found), Some(path)) = (DeviceProfile::found(profile), profile) {
            match found.gpu(&Gpu::of(device)) {
                Ok(probe) => {
                    return Ok(Self {
                        probe: probe.clone(),
                        profile: Some(path.into()),
                    });
                }
                Err(refusal @ ProfileRefusal::NoGpu(_)) => {
                    info!(profile = %path.display(), "{refusal}");
                }
                Err(refusal) => warn!(profile = %path.display(), "not used: {refusal}"),
            }
        }
        Ok(Self {
            probe: Probe::of(device)?,
            profile: None,
        })
    }
}
