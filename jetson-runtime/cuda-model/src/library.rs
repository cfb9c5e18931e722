//! The shared library as a file: finding it, and making copies of it.
//!
//! Cargo builds it beside the Rust library, wherever a test depends on this crate, into the folder
//! of the test's own program. A process loads a file once; a test that wants a machine of its own
//! loads a copy, which is a file in memory. A copy may lack functions, as an older driver does.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::ModelError;

/// The file's name.
const FILE: &str = "libcuda_model.so";

/// Where the shared library is that was built with the running program.
///
/// # Errors
/// If it is not there; the error says where it was looked for.
pub fn library() -> Result<PathBuf, ModelError> {
    let program = env::current_exe().map_err(ModelError::File)?;
    let folder = program.parent().unwrap_or(Path::new("."));
    // Tests live in `deps`, programs above it, examples beside it.
    let folders = [
        folder.to_path_buf(),
        folder.join("deps"),
        folder.join("../deps"),
    ];
    let mut files = folders.iter().map(|folder| folder.join(FILE));
    files
        .find(|file| file.exists())
        .ok_or_else(|| ModelError::Missing {
            folders: folders.to_vec(),
        })
}

/// The path of a new copy without these functions. It stays as long as the process: a path that
/// came to mean another copy would be taken for the one that is loaded.
pub(crate) fn copy_without(functions: &[&str]) -> Result<PathBuf, ModelError> {
    let mut bytes = fs::read(library()?).map_err(ModelError::File)?;
    if let Some(end) = loaded_end(&bytes) {
        // What is behind is for debuggers, and ten times as large.
        bytes.truncate(end);
    }
    for function in functions {
        hide(&mut bytes, function)?;
    }
    let file = memfd_create("libcuda_model", MFdFlags::MFD_CLOEXEC);
    let mut file = File::from(file.map_err(io::Error::from).map_err(ModelError::File)?);
    file.write_all(&bytes).map_err(ModelError::File)?;
    Ok(PathBuf::from(format!(
        "/proc/self/fd/{}",
        file.into_raw_fd()
    )))
}

/// Where the part of a 64-bit ELF file ends that is loaded; `None` if it is no such file.
fn loaded_end(file: &[u8]) -> Option<usize> {
    let word = |at: usize, bytes: usize| -> Option<usize> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(file.get(at..at.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
    let mut end = table.checked_add(entry.checked_mul(count)?)?;
    for index in 0..count {
        let header = table + index * entry;
        let (offset, bytes) = (word(header + 8, 8)?, word(header + 32, 8)?);
        end = end.max(offset.checked_add(bytes)?);
    }
    Some(end)
}

/// Renames a function in the library's table of names, so that nobody finds it.
fn hide(bytes: &mut [u8], function: &str) -> Result<(), ModelError> {
    let name = [b"\0", function.as_bytes(), b"\0"].concat();
    let mut hidden = false;
    let mut at = 0;
    while at + name.len() <= bytes.len() {
        if bytes[at..].starts_with(&name) {
            bytes[at + 1] = b'-';
            hidden = true;
        }
        at += 1;
    }
    match hidden {
        true => Ok(()),
        false => Err(ModelError::Function(function.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_are_hidden() {
        let mut bytes = b"\0cuInit\0cuInitial\0xcuInit\0".to_vec();
        hide(&mut bytes, "cuInit").unwrap();
        assert_eq!(bytes, b"\0-uInit\0cuInitial\0xcuInit\0");
        let error = hide(&mut bytes, "cuInit").unwrap_err();
        assert_eq!(error.to_string(), "the model has no function cuInit");
    }

    #[test]
    fn what_is_no_library_is_copied_whole() {
        assert_eq!(loaded_end(b"text"), None);
        assert_eq!(loaded_end(b"\x7fELF\x02\x01"), None, "cut short");
    }
}
