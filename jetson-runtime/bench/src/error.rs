//! Why a command failed.

use std::io;
use std::path::PathBuf;

use jetson_runtime::RuntimeError;
use jetson_runtime::settings::SettingsError;
use lgm::plan_file::PlanFileError;
use lgm::planner::{Methods, PlanError};
use lgm::policy::Policy;
use lgm::profile::ProfileError;
use lgm::trace::TraceError;
use lgm::verify::Violation;
use vtensor::Bytes;

use crate::built_in;
use crate::train::data::DataError;
use crate::train::weights::WeightsError;

/// Why a command failed. Exit status 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file could not be opened, read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A plan could not be written.
    #[error(
        "the plan could not be written to {}: {source}; nothing was left there",
        path.display()
    )]
    Output {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A policy makes room in another way.
    #[error(
        "--methods {methods} is for vtensor and portfolio: the policy {policy} has its own way; \
         leave one of the two out"
    )]
    Methods {
        /// The policy.
        policy: Policy,
        /// What it was asked for.
        methods: Methods,
    },
    /// There is no such trace.
    #[error(
        "no trace file {}; give a path, or \"{}\" for the one that is built in",
        path.display(),
        built_in::NAME
    )]
    NoTrace {
        /// The path that was given.
        path: PathBuf,
    },
    /// A trace cannot be used.
    #[error("{name}: {source}")]
    Trace {
        /// Which trace.
        name: String,
        /// Why.
        source: TraceError,
    },
    /// A plan file cannot be used.
    #[error("{}: {source}", path.display())]
    PlanFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: PlanFileError,
    },
    /// A device is unknown, or a file of devices cannot be used.
    #[error(transparent)]
    Device(#[from] ProfileError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan does not hold, so it is neither kept nor executed.
    #[error("the plan breaks rule {0}; this is a bug of the planner, please report it")]
    Violation(#[from] Violation),
    /// The plan cannot be executed here, or its execution failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// More memory was held than the budget allows.
    #[error(
        "after {steps} steps the process held {held} {what}, {allowed} are allowed; this is a bug, \
         please report it"
    )]
    OverBudget {
        /// Steps until then.
        steps: u64,
        /// What was measured.
        what: &'static str,
        /// What was found.
        held: Bytes,
        /// What was allowed.
        allowed: Bytes,
    },
    /// What stays in memory takes all of it.
    #[error(
        "what is kept takes {kept}, the budget is {budget}: raise it, or name fewer kinds with \
         --keep"
    )]
    Kept {
        /// What stays.
        kept: Bytes,
        /// What there is.
        budget: Bytes,
    },
    /// A plan would wear the flash out sooner than it may.
    #[error(
        "a step writes {written} to storage, {per_day} in a day of steps one after another; {max} \
         are allowed, enough for {steps} steps: raise the budget, allow more, or take --methods \
         recompute, which writes nothing"
    )]
    Wear {
        /// What a step writes.
        written: Bytes,
        /// What that is in a day.
        per_day: Bytes,
        /// What is allowed in a day.
        max: Bytes,
        /// How many steps that is enough for.
        steps: u64,
    },
    /// Images cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A folder of images was given to a model that has its own.
    #[error("digits are built in: leave out --data, or take --model resnet20")]
    DataUnused,
    /// A batch is larger than all images.
    #[error(
        "a batch of {batch} is more than the {images} images there are; take a smaller --batch"
    )]
    FewImages {
        /// What was asked for.
        batch: usize,
        /// What there is.
        images: usize,
    },
    /// Parameters were not saved or loaded.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The device's settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The system does not tell where the windows are.
    #[error("reading the addresses of the windows from /proc/self/maps failed: {0}")]
    Maps(#[source] io::Error),
}

impl BenchError {
    /// A word for programs; it does not change with the message.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Output { .. } => "output",
            Self::Methods { .. } => "methods",
            Self::NoTrace { .. } => "no_trace",
            Self::Trace { .. } => "trace",
            Self::PlanFile { .. } => "plan_file",
            Self::Device(_) => "device",
            Self::Plan(PlanError::OpTooLarge { .. })
            | Self::Runtime(RuntimeError::OpTooLarge { .. }) => "budget",
            Self::Plan(PlanError::NoSchedule { .. }) => "no_schedule",
            Self::Plan(PlanError::Fixed { .. }) => "fixed",
            Self::Plan(_) => "plan",
            Self::Violation(_) => "violation",
            Self::Runtime(RuntimeError::SpillFile { .. } | RuntimeError::SpillSpace { .. }) => {
                "spill"
            }
            Self::Runtime(
                RuntimeError::Memory { .. }
                | RuntimeError::Mappings { .. }
                | RuntimeError::VirtualMemory { .. },
            ) => "memory",
            Self::Runtime(_) => "runtime",
            Self::OverBudget { .. } => "over_budget",
            Self::Kept { .. } => "budget",
            Self::Wear { .. } => "wear",
            Self::Data(_) | Self::DataUnused => "data",
            Self::FewImages { .. } => "batch",
            Self::Weights(_) => "weights",
            Self::Settings(_) => "settings",
            Self::Maps(_) => "maps",
        }
    }

    /// The error as the JSON that `--json` prints.
    #[must_use]
    pub fn json(&self) -> String {
        let error = serde_json::json!({"kind": self.kind(), "message": self.to_string()});
        serde_json::json!({ "error": error }).to_string()
    }
}
