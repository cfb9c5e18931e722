//! Arguments about the GPU that executes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jetson_runtime::cuda::Mechanism;
use vtensor::Bytes;

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
    /// packed (one allocation; tensors are packed whole), or managed (prefetches); refused, with
    /// the reason, if it cannot work [default: what the probe of the GPU decides]
    #[arg(long, value_name = "NAME")]
    pub mechanism: Option<Mechanism>,
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

/// Arguments of `probe` about the GPU.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct GpuProbeArgs {
    /// The driver's library [default: the variable VTENSOR_CUDA_LIBRARY, or libcuda.so.1]
    #[arg(long, value_name = "PATH")]
    pub cuda_library: Option<PathBuf>,
    /// Which GPU [default: 0; with --profile, all]
    #[arg(long, value_name = "N")]
    pub device_ordinal: Option<i32>,
    /// Insist on a mechanism; it is refused, with the reason, if it cannot work
    #[arg(long, value_name = "NAME", conflicts_with = "profile")]
    pub mechanism: Option<Mechanism>,
    /// Insist on where pieces go
    #[arg(long, value_name = "PLACE", value_enum, conflicts_with = "profile")]
    pub gpu_spill: Option<SpillPlaceArg>,
    /// Insist on a budget, as 96MiB or 100663296
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    pub gpu_budget: Option<Bytes>,
}

impl Default for GpuArgs {
    fn default() -> Self {
        Self {
            backend: BackendArg::Host,
            mechanism: None,
            cuda_library: None,
            device_ordinal: 0,
            force_host_spill: false,
        }
    }
}
