//! Why the model cannot be used.

use std::io;
use std::path::PathBuf;

use crate::status;

/// Why a model cannot be found, loaded or set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The shared library was not built beside the program.
    #[error("no libcuda_model.so in {folders:?}; build it: `cargo build -p cuda-model`")]
    Missing {
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
    /// A file cannot be read or made.
    #[error("the model's library cannot be copied: {0}")]
    File(#[source] io::Error),
    /// The library cannot be loaded, or lacks a function of the model's.
    #[error("the model's library cannot be loaded: {0}")]
    Load(#[from] libloading::Error),
    /// The library was built from other sources than the program that controls it.
    #[error(
        "the model's library {path:?} is of build {found:#x}, this program of {wanted:#x}; build \
         it anew: `cargo build -p cuda-model`"
    )]
    Stale {
        /// The library.
        path: PathBuf,
        /// Its build.
        found: u64,
        /// The build of the program.
        wanted: u64,
    },
    /// The library has no function of that name.
    #[error("the model has no function {0}")]
    Function(String),
    /// A name is not a C string.
    #[error("{0:?} is no name: it holds a zero byte")]
    Name(String),
    /// The model refuses a setting.
    #[error("{function} answered {code} ({}): see its documentation", name_of(*.code))]
    Refused {
        /// The function of the model.
        function: &'static str,
        /// Its status.
        code: i32,
    },
}

fn name_of(code: i32) -> &'static str {
    let name = status::texts(code).and_then(|(name, _)| name.to_str().ok());
    name.unwrap_or("an unknown code")
}
