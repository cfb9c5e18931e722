//! A trace by its path, or the one that is built in.

use std::fs::File;
use std::io;
use std::path::Path;

use lgm::trace::{self, Trace};

use crate::built_in;
use crate::error::BenchError;

/// Reads the trace at `path`, or the built-in one if `path` is its name.
///
/// # Errors
/// If there is no such file, it cannot be read, or it is no trace.
pub fn open(path: &Path) -> Result<Trace, BenchError> {
    let name = path.display().to_string();
    let trace = match File::open(path) {
        Ok(file) => trace::read(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path != Path::new(built_in::NAME) {
                return Err(BenchError::NoTrace { path: path.into() });
            }
            trace::read(built_in::FILE)
        }
        Err(source) => {
            let path = path.into();
            return Err(BenchError::File { path, source });
        }
    };
    trace.map_err(|source| BenchError::Trace { name, source })
}

/// The name of a trace: that of its file, without what all of them end with.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".json").unwrap_or(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_named_by_their_files() {
        for (path, name) in [
            ("traces/vgg16_b32_sgdm.json.gz", "vgg16_b32_sgdm"),
            ("step.json", "step"),
            ("/a/b.c", "b.c"),
            (built_in::NAME, built_in::NAME),
        ] {
            assert_eq!(name_of(Path::new(path)), name);
        }
    }

    #[test]
    fn the_built_in_trace_is_sound() {
        let trace = open(Path::new(built_in::NAME)).expect("built in");
        assert_eq!(trace.model(), "resnet50");
    }

    #[test]
    fn faults_name_the_file() {
        let error = open(Path::new("nowhere/at_all.json")).expect_err("missing");
        assert_eq!(error.kind(), "no_trace");
        let text = error.to_string();
        assert!(
            text.contains("nowhere/at_all.json") && text.contains(built_in::NAME),
            "{text}"
        );
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let error = open(Path::new(manifest)).expect_err("no trace");
        assert_eq!(error.kind(), "trace");
        let text = error.to_string();
        assert!(
            text.contains("Cargo.toml") && text.contains("not a trace"),
            "{text}"
        );
        assert!(open(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err());
    }
}
