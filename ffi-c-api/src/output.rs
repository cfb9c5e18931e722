//! Files that are there whole, or not at all.
//!
//! In: a path and who writes. Guarantees: until everything is written and on the disk, what was
//! there before stays. A link is followed: its target is replaced, not the link. What is there but
//! no regular file (a device, a pipe) is written into, never replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::guard::failure;
use crate::status::{Status, VT_ERROR_SYSTEM};

/// Writes a file. `call` names the function, for messages.
pub(crate) fn store(
    path: &Path,
    call: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Status> {
    let written = match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|file| fill(&file, write)),
        Ok(_) => fs::canonicalize(path).and_then(|path| replace(&path, write)),
        Err(_) => replace(path, write),
    };
    written.map_err(|error| {
        failure(
            VT_ERROR_SYSTEM,
            format_args!("{call}: {} cannot be written: {error}", path.display()),
        )
    })
}

/// Writes a file beside its place and moves it there.
fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{count}.part", process::id()));
    let part = path.with_file_name(name);
    let file = File::create_new(&part)?;
    let done = fill(&file, write)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&part, path));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&part);
    }
    done
}

fn fill(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    fn store_text(path: &Path, text: &str) -> Result<(), Status> {
        store(path, "test", |out| out.write_all(text.as_bytes()))
    }

    #[test]
    fn files_are_replaced_whole_and_links_are_followed() {
        let folder = std::env::temp_dir().join(format!("vtensor-output-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.join(name));
        store_text(&file, "one").unwrap();
        symlink(&file, &link).unwrap();
        store_text(&link, "two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let broken = store(&file, "test", |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(broken, Err(VT_ERROR_SYSTEM));
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(store_text(&folder, "three"), Err(VT_ERROR_SYSTEM));
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            2,
            "nothing is left behind"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_written_into() {
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        store_text(Path::new(&path), "through a pipe").unwrap();
        drop(writer);
        let mut found = String::new();
        reader.read_to_string(&mut found).unwrap();
        assert_eq!(found, "through a pipe");
    }
}
