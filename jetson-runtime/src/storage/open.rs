//! Opening a disk: what makes requests here, as asked for and as the kernel allows.

use std::ptr::NonNull;

use nix::errno::Errno;

use super::disk::Disk;
use super::file::SpillFile;
use super::options::{IoPath, StorageOptions};
use super::plain::Plain;
use super::uring::Uring;
use crate::error::RuntimeError;

/// What makes requests of memory, which must outlive it: `count` at a time.
pub(super) fn open(
    file: &SpillFile,
    options: &StorageOptions,
    memory: NonNull<[u8]>,
    count: usize,
) -> Result<Box<dyn Disk>, RuntimeError> {
    if options.path != IoPath::Plain {
        let copy = file.file.try_clone();
        let copy = copy.map_err(|error| RuntimeError::System {
            what: "open the spill file once more",
            errno: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
        })?;
        match Uring::new(copy, memory, count) {
            Ok(uring) => return Ok(Box::new(uring)),
            Err(errno) if options.path == IoPath::Uring => {
                let refused = RuntimeError::system("set up io_uring for the spill file");
                return Err(refused(errno));
            }
            Err(_) => {}
        }
    }
    let plain = Plain::new(&file.file, options.in_flight());
    let refused = RuntimeError::system("start threads for the spill file");
    Ok(Box::new(plain.map_err(refused)?))
}
