//! A GPU that is known: from the profile of its boot, or probed now.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tracing::info;

use super::{DeviceProfile, ProfileRefusal};
use crate::cuda::probe::{Gpu, Probe};
use crate::cuda::{CudaError, Device};
use crate::system::System;

/// What is known about a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownGpu {
    /// What was found.
    pub probe: Probe,
    /// Where it is from.
    pub source: Source,
}

/// Where a probe is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The profile in this file.
    Profile(PathBuf),
    /// It was made now, and why no profile was used.
    Now(String),
}

impl KnownGpu {
    /// What the profile at `profile` has of a device, if that holds, or what a probe finds now.
    ///
    /// # Errors
    /// As [`Probe::of`]. Whatever is wrong with the profile is no error.
    pub fn of(device: &Device, profile: Option<&Path>) -> Result<Self, CudaError> {
        let why = match profile {
            None => "no profile is named".into(),
            Some(path) => match of_profile(path, &Gpu::of(device)) {
                Ok(probe) => {
                    let source = Source::Profile(path.into());
                    return Ok(Self { probe, source });
                }
                Err(ProfileRefusal::File(error)) if error.kind() == ErrorKind::NotFound => {
                    format!("there is no profile {}", path.display())
                }
                Err(refusal) => format!("{} is not used: {refusal}", path.display()),
            },
        };
        info!("probed now: {why}");
        Ok(Self {
            probe: Probe::of(device)?,
            source: Source::Now(why),
        })
    }
}

fn of_profile(path: &Path, gpu: &Gpu) -> Result<Probe, ProfileRefusal> {
    let profile = DeviceProfile::read(path, &System::here())?;
    profile.gpu(gpu).cloned()
}
