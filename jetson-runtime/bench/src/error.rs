//! Why a command failed.

use std::io;
use std::path::PathBuf;

use lgm::plan_file::PlanFileError;
use lgm::profile::ProfileError;
use lgm::trace::TraceError;

use crate::trace_file;

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
    /// There is no such trace.
    #[error(
        "no trace file {}; give a path, or \"{}\" for the one that is built in",
        path.display(),
        trace_file::BUNDLED
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
    /// A part of the pipeline is not connected to this command yet.
    #[error("{what} is not wired into this command yet")]
    NotWired {
        /// Which part.
        what: &'static str,
    },
}

impl BenchError {
    /// A word for programs; it does not change with the message.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::NoTrace { .. } => "no_trace",
            Self::Trace { .. } => "trace",
            Self::PlanFile { .. } => "plan_file",
            Self::Device(_) => "device",
            Self::NotWired { .. } => "not_wired",
        }
    }

    /// The error as the JSON that `--json` prints.
    #[must_use]
    pub fn json(&self) -> String {
        let error = serde_json::json!({"kind": self.kind(), "message": self.to_string()});
        serde_json::json!({ "error": error }).to_string()
    }
}
