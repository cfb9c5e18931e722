//! Why a trace cannot be used.

use std::io;

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The input could not be read.
    #[error("reading the trace failed: {0}")]
    Io(#[source] io::Error),
    /// The input is something else.
    #[error(
        "not a trace: wanted a JSON object, plain or gzip'ed, as traces/README.md describes it; \
         found {found}"
    )]
    Foreign {
        /// What the input looks like.
        found: &'static str,
    },
    /// The gzip data ends too early.
    #[error(
        "the gzip data is cut off after {unpacked_bytes} unpacked bytes: copy or download the \
         file again"
    )]
    GzipTruncated {
        /// How much could be unpacked.
        unpacked_bytes: u64,
    },
    /// The gzip data is damaged.
    #[error("the gzip data is damaged after {unpacked_bytes} unpacked bytes: {message}")]
    GzipBroken {
        /// How much could be unpacked.
        unpacked_bytes: u64,
        /// What the decoder says.
        message: String,
    },
    /// The document is beyond what is accepted.
    #[error("the document {what} than the {max} that are accepted")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How much is accepted.
        max: u64,
    },
    /// The document is not JSON, or not with the keys and types of a trace.
    #[error("line {line}, column {column}, in {place}: {message}")]
    Document {
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
        /// Which part of the trace, such as `ops[17].reads[2]`.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// The document contradicts itself when it is replayed.
    #[error("{place}: {message}")]
    Replay {
        /// Which part of the trace, such as `ops[17].reads[2] (aten.add)`.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// The trace has no durations for a device.
    #[error(
        "the trace has no durations for device \"{wanted}\"; it has them for {}",
        list(known)
    )]
    UnknownDevice {
        /// The device that was asked for.
        wanted: String,
        /// The devices that the trace has.
        known: Vec<String>,
    },
    /// Nothing is left to plan for.
    #[error("no op of the trace uses a tensor or takes any time: there is nothing to plan")]
    NoOps,
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}
