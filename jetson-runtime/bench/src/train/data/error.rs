//! Why images cannot be used.

use std::io;
use std::path::PathBuf;

/// Why images cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file could not be read.
    #[error(
        "{}: {source}; --data takes a folder with the files {files} of the CIFAR-10 binary version",
        path.display()
    )]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// The files that are wanted, for people.
        files: &'static str,
    },
    /// A file is not a whole number of records.
    #[error(
        "{}: {found} bytes; a CIFAR-10 batch is one or more records of {record} bytes, a label and \
         3 x 1024 pixels: is it the binary version, and complete?",
        path.display()
    )]
    Records {
        /// Which.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// The size of a record.
        record: usize,
    },
    /// A label is none.
    #[error("{}: record {record} has label {found}; labels are 0 to 9", path.display())]
    Label {
        /// Which file.
        path: PathBuf,
        /// Which record, from 0.
        record: usize,
        /// Its label.
        found: u8,
    },
    /// A line of the digits is none.
    #[error("digits, line {line}: {found}; wanted 64 pixels from 0 to 16 and a digit")]
    Digits {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        found: String,
    },
}
