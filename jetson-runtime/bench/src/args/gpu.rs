//! Arguments about the GPU that executes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jetson_runtime::cuda::Mechanism;

/// What executes a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// This machine's processor and memory stand in for a device
    Host,
    /// A GPU
    Cuda,
}

/// Arguments about the GPU that executes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct GpuArgs {
    /// What executes the plan
    #[arg(long, value_enum, default_value_t = BackendArg::Host)]
    pub backend: BackendArg,
    /// On a GPU, where tensors lie and how copies are made: mapped (pages and aliased windows),
    /// packed (one allocation; plan with --policy whole), or managed (prefetches)
    #[arg(long, value_name = "NAME", default_value_t = Mechanism::Mapped)]
    pub mechanism: Mechanism,
    /// The driver's library [default: the variable VTENSOR_CUDA_LIBRARY, or libcuda.so.1]
    #[arg(long, value_name = "PATH")]
    pub cuda_library: Option<PathBuf>,
    /// Which GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device_ordinal: i32,
    /// Spill to the host's memory even where it is the device's own, and nothing is freed
    #[arg(long)]
    pub force_host_spill: bool,
}

/// Where pieces go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SpillPlaceArg {
    /// The host's memory
    Host,
    /// A file
    Storage,
}

/// Arguments of `probe` without a folder.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct GpuProbeArgs {
    /// The driver's library [default: the variable VTENSOR_CUDA_LIBRARY, or libcuda.so.1]
    #[arg(long, value_name = "PATH")]
    pub cuda_library: Option<PathBuf>,
    /// Which GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device_ordinal: i32,
    /// A file to keep what was measured in; it is measured anew if the device, its driver or the
    /// kernel is another one
    #[arg(long, value_name = "FILE")]
    pub cache: Option<PathBuf>,
    /// Insist on a mechanism; it is refused, with the reason, if it cannot work
    #[arg(long, value_name = "NAME")]
    pub mechanism: Option<Mechanism>,
    /// Insist on where pieces go
    #[arg(long, value_name = "PLACE", value_enum)]
    pub gpu_spill: Option<SpillPlaceArg>,
}

impl Default for GpuArgs {
    fn default() -> Self {
        Self {
            backend: BackendArg::Host,
            mechanism: Mechanism::Mapped,
            cuda_library: None,
            device_ordinal: 0,
            force_host_spill: false,
        }
    }
}
