//! A file that is there whole, or not at all.
//!
//! In: a path and bytes. Guarantees: until everything is written the file has no name, so whatever
//! interrupts the write, a full disk or Ctrl-C, leaves neither a part of it nor a temporary file; a
//! file that was there before stays until the new one takes its place. Where the file system knows
//! no files without a name, a temporary one with a name stands beside the target for that time, and
//! is removed after an error.
//!
//! Limits: what is there but no regular file (a pipe, a terminal) is written into, not replaced.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;

/// Writes `bytes` to the file at `path`.
///
/// # Errors
/// What the system says; then the path is as it was before.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => {
            OpenOptions::new().write(true).open(path)?.write_all(bytes)
        }
        // A link is followed: its target is replaced, not the link.
        Ok(_) => replace(&fs::canonicalize(path)?, bytes),
        Err(_) => replace(path, bytes),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", process::id()));
    let temporary = folder.join(hidden);
    match unnamed(folder) {
        Ok(mut file) => {
            store(&mut file, bytes)?;
            if name_it(&file, path).is_ok() {
                return Ok(());
            }
            // Something has that name: only a rename takes its place.
            name_it(&file, &temporary)?;
            finish(&temporary, path, Ok(()))
        }
        Err(_) => {
            let mut file = File::create(&temporary)?;
            let stored = store(&mut file, bytes);
            finish(&temporary, path, stored)
        }
    }
}

/// A file without a name. Not every file system has them.
fn unnamed(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .mode(0o666)
        .custom_flags(OFlag::O_TMPFILE.bits())
        .open(folder)
}

fn name_it(file: &File, path: &Path) -> io::Result<()> {
    let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok(linkat(
        AT_FDCWD,
        &open,
        AT_FDCWD,
        path,
        AtFlags::AT_SYMLINK_FOLLOW,
    )?)
}

/// To the disk: a full one may say so only there.
fn store(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

fn finish(temporary: &Path, path: &Path, stored: io::Result<()>) -> io::Result<()> {
    let done = stored.and_then(|()| fs::rename(temporary, path));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(temporary);
    }
    done
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder of a test's own, removed at the end.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("vtensor-{name}-{}", process::id()));
            fs::create_dir_all(&folder).expect("a temporary folder");
            Self(folder)
        }

        fn names(&self) -> Vec<OsString> {
            let entries = fs::read_dir(&self.0).expect("readable");
            entries.map(|e| e.expect("an entry").file_name()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_made_and_replaced_whole() {
        let folder = Folder::new("output");
        let path = folder.0.join("plan");
        for content in [&b"first, and longer"[..], b"second"] {
            write(&path, content).expect("written");
            assert_eq!(fs::read(&path).expect("there"), content);
            assert_eq!(folder.names(), ["plan"], "nothing beside it");
        }
        let link = folder.0.join("link");
        std::os::unix::fs::symlink("plan", &link).expect("a link");
        write(&link, b"third").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).expect("there"), b"third");
    }

    #[test]
    fn a_rename_that_fails_leaves_nothing() {
        let folder = Folder::new("rename");
        let temporary = folder.0.join("temporary");
        fs::write(&temporary, b"x").expect("written");
        assert!(finish(&temporary, &folder.0.join("no/such/plan"), Ok(())).is_err());
        assert!(folder.names().is_empty());
    }

    #[test]
    fn places_that_cannot_be_written_are_errors() {
        let folder = Folder::new("unwritable");
        assert!(write(&folder.0, b"x").is_err(), "a folder");
        assert!(write(&folder.0.join("no/such"), b"x").is_err());
        assert!(write(Path::new("/"), b"x").is_err());
        assert!(write(Path::new("/proc/plan"), b"x").is_err());
        assert!(folder.names().is_empty());
        let full = write(Path::new("/dev/full"), b"x").expect_err("it is always full");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
