//! A file without a name, and its space.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::statfs::fstatfs;
use nix::sys::statvfs::fstatvfs;
use vtensor::Bytes;

use super::BLOCK_BYTES;
use super::buffers::Buffers;
use super::medium::is_memory;
use crate::error::RuntimeError;
use crate::memory;
use crate::scale::to_usize;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// How often in a row the kernel may interrupt a request for space.
const INTERRUPTIONS_MAX: u32 = 1000;
/// Space is taken in parts of this size where it has to be written for that.
const FILL_BYTES: usize = 1 << 20;
/// How many names are tried that others may have.
const NAMES_MAX: u32 = 1000;

/// An unlinked file of a fixed size.
#[derive(Debug)]
pub(crate) struct SpillFile {
    pub(super) file: File,
    pub(super) bytes: u64,
    /// Whether requests go around the page cache.
    direct: bool,
    directory: PathBuf,
}

impl SpillFile {
    /// A file of at most `bytes` bytes in a directory, around the page cache if the file system
    /// does that. It takes no space yet.
    pub(crate) fn new(
        directory: &Path,
        bytes: u64,
        memory_backed: bool,
    ) -> Result<Self, RuntimeError> {
        match Self::open(directory, bytes, memory_backed, true) {
            // The file system does not do without its cache, or not for a block.
            Err(RuntimeError::SpillFile {
                errno: Errno::EINVAL,
                ..
            }) => Self::cached(directory, bytes, memory_backed),
            opened => opened,
        }
    }

    /// As [`Self::new`], through the page cache.
    pub(crate) fn cached(
        directory: &Path,
        bytes: u64,
        memory_backed: bool,
    ) -> Result<Self, RuntimeError> {
        Self::open(directory, bytes, memory_backed, false)
    }

    fn open(
        directory: &Path,
        bytes: u64,
        memory_backed: bool,
        direct: bool,
    ) -> Result<Self, RuntimeError> {
        let refuse = |errno| RuntimeError::SpillFile {
            directory: directory.into(),
            errno,
        };
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let file = unlinked_file(directory, flags).map_err(refuse)?;
        let kind = fstatfs(&file).map_err(refuse)?.filesystem_type();
        if !memory_backed && is_memory(kind, directory) {
            return Err(RuntimeError::SpillInMemory {
                directory: directory.into(),
            });
        }
        if direct && !moves_blocks(&file) {
            return Err(refuse(Errno::EINVAL));
        }
        Ok(Self {
            file,
            bytes,
            direct,
            directory: directory.into(),
        })
    }

    /// Writes bytes at any place of a cached file.
    pub(crate) fn write_bytes(&self, start: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.range(start, bytes.len() as u64)?;
        let written = self.file.write_all_at(bytes, start);
        written.map_err(|error| errno_of(&error))
    }

    /// Reads bytes from any place of a cached file.
    pub(crate) fn read_bytes(&self, start: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.range(start, bytes.len() as u64)?;
        let read = self.file.read_exact_at(bytes, start);
        read.map_err(|error| errno_of(&error))
    }

    /// Takes the space of a range, so that writing it cannot fail for lack of it.
    pub(crate) fn claim(&self, start: u64, bytes: u64) -> Result<(), RuntimeError> {
        self.take(start, bytes)
            .map_err(|errno| RuntimeError::SpillSpace {
                directory: self.directory.clone(),
                needed: Bytes(bytes),
                errno,
            })
    }

    fn take(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        if bytes == 0 {
            return Ok(());
        }
        // Asking for more than there is would fill the disk before it fails.
        let free = memory::disk_available(&fstatvfs(&self.file)?);
        let held = Bytes(bytes).0.min(self.allocated()?.0);
        if free.saturating_add(held) < bytes {
            return Err(Errno::ENOSPC);
        }
        let (offset, length) = self.range(start, bytes)?;
        let blocks = start / BLOCK * BLOCK..(start + bytes).next_multiple_of(BLOCK);
        memory::demand_file(blocks.end)?;
        for _ in 0..INTERRUPTIONS_MAX {
            match fallocate(&self.file, FallocateFlags::empty(), offset, length) {
                Err(Errno::EINTR) => {}
                Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => return self.fill(blocks),
                taken => return taken,
            }
        }
        Err(Errno::EINTR)
    }

    /// Takes the space of blocks where the file system has no call for that: by writing what they
    /// hold. The C library's way is to write single bytes, which direct I/O refuses.
    fn fill(&self, blocks: Range<u64>) -> Result<(), Errno> {
        let mut buffer = Buffers::new(1, FILL_BYTES)?;
        for start in blocks.clone().step_by(FILL_BYTES) {
            let bytes = to_usize(blocks.end - start).min(FILL_BYTES);
            let part = buffer.slice(0, bytes);
            part.fill(0);
            let mut held = 0;
            while held < bytes {
                match self.file.read_at(&mut part[held..], start + held as u64) {
                    // The file has no more.
                    Ok(0) => break,
                    Ok(read) => held += read,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(errno_of(&error)),
                }
            }
            let written = self.file.write_all_at(part, start);
            written.map_err(|error| errno_of(&error))?;
        }
        Ok(())
    }

    /// Gives the space of a range back; what it holds is gone. What is not a whole block stays.
    pub(crate) fn release(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        if bytes == 0 {
            return Ok(());
        }
        let (offset, length) = self.range(start, bytes)?;
        match memory::punch_hole(&self.file, offset, length) {
            // A file system without holes keeps the space: no harm but the space.
            Err(Errno::EOPNOTSUPP) => Ok(()),
            punched => punched,
        }
    }

    /// The disk that the system holds for the file now.
    pub(crate) fn allocated(&self) -> Result<Bytes, Errno> {
        memory::file_allocated(&self.file)
    }

    /// A range as the kernel takes it.
    fn range(&self, start: u64, bytes: u64) -> Result<(i64, i64), Errno> {
        let end = start.checked_add(bytes).filter(|end| *end <= self.bytes);
        assert!(end.is_some(), "{start}+{bytes} lie in the file");
        let signed = |bytes| i64::try_from(bytes).map_err(|_| Errno::EFBIG);
        Ok((signed(start)?, signed(bytes)?))
    }

    /// The size of the file.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What limits spilling to a directory, in words: one entry for each thing.
pub(crate) fn what_limits(file: &SpillFile) -> Vec<&'static str> {
    let mut limits = Vec::new();
    if !file.direct {
        limits.push("the file system refuses direct I/O: requests go through the page cache");
    }
    let kind = fstatfs(&file.file).map(|fs| fs.filesystem_type());
    if kind.is_ok_and(|kind| is_memory(kind, &file.directory)) {
        limits.push("the files are in memory");
    }
    limits
}

/// Whether requests of blocks may go around the page cache: the sectors of some disks are larger,
/// and some files go through the cache without a word. Kernels before 6.1 do not tell.
fn moves_blocks(file: &File) -> bool {
    let mut told = MaybeUninit::<libc::statx>::zeroed();
    let (fd, flags, mask) = (file.as_raw_fd(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN);
    let (call, path, to) = (libc::SYS_statx, c"".as_ptr(), told.as_mut_ptr());
    // By its number: C libraries before 2.28 do not have it.
    // SAFETY: the path is a string, and what the kernel tells is written to a live local variable.
    let failed = unsafe { libc::syscall(call, fd, path, flags, mask, to) } != 0;
    // SAFETY: it began as zeroes, which is a valid value of numbers.
    let told = unsafe { told.assume_init() };
    let known = !failed && told.stx_mask & mask != 0;
    !known || are_blocks([told.stx_dio_mem_align, told.stx_dio_offset_align])
}

/// Whether blocks are aligned as memory and offsets must be; 0: nothing is.
fn are_blocks(alignments: [u32; 2]) -> bool {
    let block = |align: u32| align > 0 && BLOCK.is_multiple_of(align.into());
    alignments.into_iter().all(block)
}

/// A file in `directory` without a name, for its owner only.
fn unlinked_file(directory: &Path, flags: i32) -> Result<File, Errno> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let unnamed = options
        .clone()
        .custom_flags(libc::O_TMPFILE | flags)
        .open(directory);
    match unnamed.map_err(|error| errno_of(&error)) {
        // What kernels and file systems without unnamed files answer.
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
            named_and_unlinked(directory, options.create_new(true).custom_flags(flags))
        }
        opened => opened,
    }
}

/// A file that had a name for a moment.
fn named_and_unlinked(directory: &Path, options: &OpenOptions) -> Result<File, Errno> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..NAMES_MAX {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".vtensor-spill-{}-{count}", process::id()));
        let file = options.open(&path).map_err(|error| errno_of(&error));
        // Somebody else's: a process in another container may have the same number.
        if matches!(file, Err(Errno::EEXIST)) {
            continue;
        }
        // With direct I/O refused, some file systems have made the file all the same.
        let removed = fs::remove_file(&path).map_err(|error| errno_of(&error));
        let file = file?;
        removed?;
        return Ok(file);
    }
    Err(Errno::EEXIST)
}

fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::tests::disk;

    #[test]
    fn files_are_their_owners_and_have_no_name() {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).create_new(true);
        let directory = disk();
        let files = [
            unlinked_file(&directory, 0),
            named_and_unlinked(&directory, &options),
        ];
        for file in files {
            let metadata = file.unwrap().metadata().unwrap();
            assert_eq!(metadata.mode() & 0o777, 0o600);
            assert_eq!(metadata.nlink(), 0);
        }
    }

    #[test]
    fn a_name_that_is_taken_is_left_to_its_owner() {
        let directory = disk().join(format!("taken-{}", process::id()));
        fs::create_dir(&directory).unwrap();
        let name = |count| directory.join(format!(".vtensor-spill-{}-{count}", process::id()));
        (0..200).for_each(|count| fs::write(name(count), "another's").unwrap());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = named_and_unlinked(&directory, &options).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert!((0..200).all(|count| fs::read(name(count)).unwrap() == b"another's"));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn space_is_claimed_and_given_back() {
        let file = SpillFile::new(&disk(), 1 << 30, false).unwrap();
        assert_eq!(
            (file.bytes(), file.allocated().unwrap()),
            (1 << 30, Bytes(0))
        );
        file.claim(4096, 8192).unwrap();
        assert_eq!(file.allocated().unwrap(), Bytes(8192));
        file.release(4096, 8192).unwrap();
        assert_eq!(file.allocated().unwrap(), Bytes(0));
    }

    #[test]
    fn disks_with_sectors_larger_than_a_block_go_through_the_cache() {
        assert!(
            [[4, 512], [512, 512], [512, 4096]]
                .into_iter()
                .all(are_blocks)
        );
        let large = [[512, 16384], [8192, 512], [0, 0]];
        assert!(!large.into_iter().any(are_blocks));
        // That of the tests' folder is told, if at all, as it is.
        let file = SpillFile::new(&disk(), BLOCK, false).unwrap();
        assert_eq!(file.direct, moves_blocks(&file.file));
    }

    #[test]
    fn space_that_is_written_keeps_what_it_holds() {
        for file in [
            SpillFile::new(&disk(), 4 << 20, false).unwrap(),
            SpillFile::cached(&disk(), 4 << 20, false).unwrap(),
        ] {
            file.claim(0, 2 * BLOCK).unwrap();
            let mut block = Buffers::new(1, BLOCK_BYTES).unwrap();
            block.slice(0, BLOCK_BYTES).fill(7);
            let blocks = block.slice(0, BLOCK_BYTES);
            file.file.write_all_at(blocks, BLOCK).unwrap();
            file.fill(0..(3 << 20) + BLOCK).unwrap();
            // Some file systems take more ahead.
            assert!(file.allocated().unwrap() >= Bytes((3 << 20) + BLOCK));
            for (at, byte) in [(0, 0), (BLOCK, 7), (2 * BLOCK, 0), (3 << 20, 0)] {
                file.file.read_exact_at(blocks, at).unwrap();
                assert!(blocks.iter().all(|found| *found == byte), "{at}");
            }
        }
    }

    #[test]
    fn a_directory_in_memory_is_refused_unless_it_is_wanted() {
        let shm = Path::new("/dev/shm");
        if !nix::sys::statfs::statfs(shm).is_ok_and(|fs| is_memory(fs.filesystem_type(), shm)) {
            println!("SKIPPED: /dev/shm is not in memory here");
            return;
        }
        let refused = SpillFile::new(shm, 4096, false).unwrap_err();
        assert!(refused.to_string().contains("are in memory"), "{refused}");
        let file = SpillFile::new(shm, 4096, true).unwrap();
        assert!(what_limits(&file).contains(&"the files are in memory"));
    }
}
