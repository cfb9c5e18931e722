//! The spill tier: where pieces go. Either memory, or an unlinked file.
//!
//! In: a size, taken before the first use. Out: reads and writes of slots, from any thread.
//!
//! Guarantees: space is taken at freeze, so a full disk is an error there and not in the loop; a
//! file has no name while it is used, is readable by its owner only (mode 0600), and is gone when
//! the process is, however it ends. Interrupted and short transfers go on; a transfer that makes
//! no progress ends with its errno.
//!
//! Limits: a file is written through the page cache, whose pages the system can take back at any
//! time. They count in a control group's memory, but not in PSS.

use std::fs::{self, File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate, posix_fallocate};
use nix::libc;
use nix::sys::statvfs::fstatvfs;
use vtensor::Bytes;

use crate::error::RuntimeError;
use crate::memory;
use crate::region::Region;
use crate::scale::to_usize;

/// How often in a row a transfer may be interrupted without moving a byte.
const INTERRUPTIONS_MAX: u32 = 1000;

/// Where pieces go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spill {
    /// Memory of the host, beside the arena.
    #[default]
    Ram,
    /// An unlinked file in this directory.
    File(PathBuf),
}

/// A spill tier of a fixed size.
#[derive(Debug)]
pub(crate) enum Tier {
    /// A plan that spills nothing.
    Empty,
    Ram(Region),
    File {
        file: File,
        bytes: u64,
    },
}

impl Tier {
    /// Takes `bytes` bytes for a tier.
    pub(crate) fn new(spill: &Spill, bytes: u64) -> Result<Self, RuntimeError> {
        let Some(size) = NonZeroUsize::new(to_usize(bytes)) else {
            return Ok(Self::Empty);
        };
        match spill {
            Spill::Ram => {
                memory::demand("spill tier in RAM", bytes)?;
                Region::memory(size)
                    .map(Self::Ram)
                    .map_err(RuntimeError::system("take memory for the spill tier"))
            }
            Spill::File(directory) => {
                let file = unlinked_file(directory).map_err(|errno| RuntimeError::SpillFile {
                    directory: directory.clone(),
                    errno,
                })?;
                take_space(&file, bytes).map_err(|errno| RuntimeError::SpillSpace {
                    directory: directory.clone(),
                    needed: Bytes(bytes),
                    errno,
                })?;
                Ok(Self::File { file, bytes })
            }
        }
    }

    /// A tier of at most `bytes` bytes that takes no space until it is claimed.
    pub(crate) fn unclaimed(spill: &Spill, bytes: u64) -> Result<Self, RuntimeError> {
        match (spill, NonZeroUsize::new(to_usize(bytes))) {
            (_, None) => Ok(Self::Empty),
            (Spill::Ram, Some(size)) => {
                Region::lazy(size)
                    .map(Self::Ram)
                    .map_err(RuntimeError::system(
                        "reserve addresses for the spill tier in RAM",
                    ))
            }
            (Spill::File(directory), Some(_)) => {
                let file = unlinked_file(directory).map_err(|errno| RuntimeError::SpillFile {
                    directory: directory.clone(),
                    errno,
                })?;
                Ok(Self::File { file, bytes })
            }
        }
    }

    /// Takes the space of slots, so that writing them cannot fail for lack of it.
    pub(crate) fn claim(&self, slot: u64, bytes: u64) -> Result<(), RuntimeError> {
        match self {
            Self::Ram(_) => memory::demand("spill tier in RAM", bytes),
            Self::File { file, bytes: size } if bytes > 0 => {
                let offset = file_offset(slot, to_usize(bytes), *size);
                take_range(file, offset, bytes).map_err(RuntimeError::system(
                    "take space for the spill file; free some, or spill to another directory",
                ))
            }
            Self::Empty | Self::File { .. } => Ok(()),
        }
    }

    /// Gives the space of slots back; what they hold is gone. What is not a whole block stays.
    pub(crate) fn release(&self, slot: u64, bytes: u64) -> Result<(), RuntimeError> {
        let released = match self {
            Self::Empty => Ok(()),
            Self::Ram(region) => region.release(slot, to_usize(bytes)),
            Self::File { .. } if bytes == 0 => Ok(()),
            Self::File { file, bytes: size } => {
                let offset = file_offset(slot, to_usize(bytes), *size);
                let length = i64::try_from(bytes).expect("a slot lies in a file");
                let punch =
                    FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
                match fallocate(file, punch, offset, length) {
                    // A file system without holes keeps the space: no harm but the space.
                    Err(Errno::EOPNOTSUPP) => Ok(()),
                    punched => punched,
                }
            }
        };
        released.map_err(RuntimeError::system("give space of the spill tier back"))
    }

    /// The size of the tier.
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Ram(region) => region.bytes() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }

    /// Copies `bytes` bytes from `source` to a slot.
    ///
    /// # Safety
    /// `source` is readable for `bytes` bytes, and nobody writes them, or touches the slot,
    /// meanwhile. Callers hold a verified plan, which proves it for its commands.
    pub(crate) unsafe fn write(
        &self,
        slot: u64,
        source: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), Errno> {
        match self {
            Self::Empty => assert_eq!(bytes, 0, "slots lie in the tier"),
            Self::Ram(region) => {
                let target = region.pointer(slot, bytes);
                // SAFETY: the caller vouches for the source, `pointer` for the target; a tier's
                // region and the windows are different mappings of different memory.
                unsafe { ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), bytes) };
            }
            Self::File { file, bytes: size } => {
                let offset = file_offset(slot, bytes, *size);
                whole(bytes, |done| {
                    // SAFETY: the caller vouches for the source; `done` is below `bytes`.
                    let rest = unsafe { source.add(done) }.as_ptr();
                    let at = offset + done as i64;
                    // SAFETY: `rest` is readable for the bytes that are left.
                    unsafe { libc::pwrite64(file.as_raw_fd(), rest.cast(), bytes - done, at) }
                })?;
            }
        }
        Ok(())
    }

    /// Copies `bytes` bytes from a slot to `target`.
    ///
    /// # Safety
    /// `target` is writable for `bytes` bytes, and nobody touches them, or writes the slot,
    /// meanwhile. Callers hold a verified plan, which proves it for its commands.
    pub(crate) unsafe fn read(
        &self,
        slot: u64,
        target: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), Errno> {
        match self {
            Self::Empty => assert_eq!(bytes, 0, "slots lie in the tier"),
            Self::Ram(region) => {
                let source = region.pointer(slot, bytes);
                // SAFETY: the caller vouches for the target, `pointer` for the source; a tier's
                // region and the windows are different mappings of different memory.
                unsafe { ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), bytes) };
            }
            Self::File { file, bytes: size } => {
                let offset = file_offset(slot, bytes, *size);
                whole(bytes, |done| {
                    // SAFETY: the caller vouches for the target; `done` is below `bytes`.
                    let rest = unsafe { target.add(done) }.as_ptr();
                    let at = offset + done as i64;
                    // SAFETY: `rest` is writable for the bytes that are left.
                    unsafe { libc::pread64(file.as_raw_fd(), rest.cast(), bytes - done, at) }
                })?;
            }
        }
        Ok(())
    }

    /// Memory, or disk, that the system holds for the tier now.
    pub(crate) fn allocated(&self) -> Result<Bytes, RuntimeError> {
        match self {
            Self::Empty => Ok(Bytes(0)),
            Self::Ram(region) => Ok(Bytes(region.bytes() as u64)),
            Self::File { file, .. } => {
                memory::file_allocated(file).map_err(RuntimeError::system("measure the spill file"))
            }
        }
    }
}

/// The offset of a slot as the kernel takes it.
fn file_offset(slot: u64, bytes: usize, size: u64) -> i64 {
    let inside = slot
        .checked_add(bytes as u64)
        .is_some_and(|end| end <= size);
    assert!(inside, "slot {slot}+{bytes} lies in a tier of {size} bytes");
    i64::try_from(slot).expect("the file was allocated up to its end")
}

/// Calls `transfer` with the bytes done so far until all are done.
fn whole(bytes: usize, mut transfer: impl FnMut(usize) -> isize) -> Result<(), Errno> {
    let (mut done, mut interruptions) = (0, 0);
    while done < bytes {
        match usize::try_from(transfer(done)) {
            // The file is shorter than what was allocated: somebody truncated it.
            Ok(0) => return Err(Errno::EIO),
            Ok(more) => (done, interruptions) = (done + more, 0),
            Err(_) => match Errno::last() {
                Errno::EINTR | Errno::EAGAIN if interruptions < INTERRUPTIONS_MAX => {
                    interruptions += 1;
                }
                errno => return Err(errno),
            },
        }
    }
    Ok(())
}

/// A file in `directory` without a name, for its owner only.
fn unlinked_file(directory: &Path) -> Result<File, Errno> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let unnamed = options
        .clone()
        .custom_flags(libc::O_TMPFILE)
        .open(directory);
    match unnamed.map_err(|error| errno_of(&error)) {
        // What kernels and file systems without unnamed files answer.
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
            named_and_unlinked(directory, options.create_new(true))
        }
        opened => opened,
    }
}

/// A file that had a name for a moment.
fn named_and_unlinked(directory: &Path, options: &OpenOptions) -> Result<File, Errno> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".vtensor-spill-{}-{count}", process::id()));
    let file = options.open(&path).map_err(|error| errno_of(&error))?;
    fs::remove_file(&path).map_err(|error| errno_of(&error))?;
    Ok(file)
}

/// Takes the space of a file before it is used.
fn take_space(file: &File, bytes: u64) -> Result<(), Errno> {
    // Asking for more than there is would fill the disk before it fails.
    let disk = fstatvfs(file)?;
    if disk.blocks_available().saturating_mul(disk.fragment_size()) < bytes {
        return Err(Errno::ENOSPC);
    }
    take_range(file, 0, bytes)
}

/// Takes the space of a range of a file.
fn take_range(file: &File, offset: i64, bytes: u64) -> Result<(), Errno> {
    let length = i64::try_from(bytes).map_err(|_| Errno::EFBIG)?;
    for _ in 0..INTERRUPTIONS_MAX {
        match posix_fallocate(file, offset, length) {
            Err(Errno::EINTR) => {}
            taken => return taken,
        }
    }
    Err(Errno::EINTR)
}

fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn round_trip(tier: &Tier, slot: u64, bytes: &[u8]) {
        let mut back = vec![0; bytes.len()];
        // SAFETY: the source is a borrowed buffer; the tier is this test's own.
        unsafe { tier.write(slot, NonNull::from(bytes).cast(), bytes.len()) }.unwrap();
        let target = NonNull::from(back.as_mut_slice()).cast();
        // SAFETY: the target is a borrowed buffer; the tier is this test's own.
        unsafe { tier.read(slot, target, bytes.len()) }.unwrap();
        assert_eq!(back, bytes);
    }

    #[test]
    fn tiers_keep_bytes() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for spill in [Spill::Ram, Spill::File(env::temp_dir())] {
            let tier = Tier::new(&spill, 8192).unwrap();
            for slot in [0, 1, 3000, 8192 - 5000] {
                round_trip(&tier, slot, &bytes);
            }
            assert_eq!(tier.allocated().unwrap(), Bytes(8192), "{spill:?}");
        }
        assert_eq!(
            Tier::new(&Spill::Ram, 0).unwrap().allocated().unwrap(),
            Bytes(0)
        );
    }

    #[test]
    fn space_is_claimed_and_given_back() {
        let bytes = vec![7; 8192];
        for spill in [Spill::Ram, Spill::File(env::temp_dir())] {
            let tier = Tier::unclaimed(&spill, 1 << 30).unwrap();
            assert_eq!(tier.bytes(), 1 << 30);
            tier.claim(4096, 8192).unwrap();
            round_trip(&tier, 4096, &bytes);
            if let Tier::File { .. } = tier {
                assert_eq!(tier.allocated().unwrap(), Bytes(8192));
            }
            tier.release(4096, 8192).unwrap();
            let mut back = [1_u8; 8192];
            let target = NonNull::from(back.as_mut_slice()).cast();
            // SAFETY: the target is a borrowed buffer; the tier is this test's own.
            unsafe { tier.read(4096, target, back.len()) }.unwrap();
            assert_eq!(back, [0; 8192], "{spill:?}");
            if let Tier::File { .. } = tier {
                assert_eq!(tier.allocated().unwrap(), Bytes(0));
            }
        }
    }

    #[test]
    fn files_are_their_owners_and_have_no_name() {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).create_new(true);
        let directory = env::temp_dir();
        let files = [
            unlinked_file(&directory),
            named_and_unlinked(&directory, &options),
        ];
        for file in files {
            let metadata = file.unwrap().metadata().unwrap();
            assert_eq!(metadata.mode() & 0o777, 0o600);
            assert_eq!(metadata.nlink(), 0);
        }
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let Tier::File { file, bytes } = Tier::new(&Spill::File(env::temp_dir()), 8192).unwrap()
        else {
            panic!("a file tier is a file");
        };
        file.set_len(100).unwrap();
        let tier = Tier::File { file, bytes };
        let mut back = [0; 4096];
        let target = NonNull::from(back.as_mut_slice()).cast();
        // SAFETY: the target is a borrowed buffer; the tier is this test's own.
        let read = unsafe { tier.read(0, target, back.len()) };
        assert_eq!(read, Err(Errno::EIO));
    }

    #[test]
    fn short_and_interrupted_transfers_go_on() {
        let mut calls = 0;
        let moved = whole(10, |done| {
            calls += 1;
            if calls % 2 == 0 {
                Errno::EINTR.set();
                return -1;
            }
            (10 - done).min(3) as isize
        });
        assert_eq!((moved, calls), (Ok(()), 7));
        let mut calls = 0;
        let stuck = whole(10, |_| {
            calls += 1;
            Errno::EAGAIN.set();
            -1
        });
        assert_eq!((stuck, calls), (Err(Errno::EAGAIN), INTERRUPTIONS_MAX + 1));
        Errno::ENOSPC.set();
        assert_eq!(whole(10, |_| -1), Err(Errno::ENOSPC));
    }
}
