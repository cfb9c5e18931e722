//! Measuring memory.
//!
//! `VmRSS` counts a page once for every address that it is mapped at, and the arena's pages are
//! mapped in many windows: it can show ten times the memory that is there. What counts is the
//! arena's allocated blocks, and the process's *proportional* set size (PSS), in which a page that
//! is mapped n times weighs 1/n each time. The budget holds if PSS, minus the spill tier in RAM,
//! minus what the process had before the freeze, stays below the arena plus small change.

use std::fs;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::fstat;
use nix::sys::statvfs::Statvfs;
use vtensor::Bytes;

use crate::error::RuntimeError;

/// What a runtime and its process hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Memory that the system holds for the arena.
    pub arena_allocated: Bytes,
    /// Memory, or disk, that the system holds for the spill tier.
    pub spill_allocated: Bytes,
    /// The proportional set size of the whole process.
    pub pss: Bytes,
}

/// The proportional set size of this process. See the module's text on why not `VmRSS`.
///
/// # Errors
/// If the kernel does not tell (before 4.14, or without `/proc`).
pub fn process_pss() -> Result<Bytes, RuntimeError> {
    let what = "read the process's PSS from /proc/self/smaps_rollup";
    field_bytes("/proc/self/smaps_rollup", "Pss:").ok_or(RuntimeError::System {
        what,
        errno: Errno::ENOENT,
    })
}

/// The memory that the machine could still give, if it tells. The limit of a control group is not
/// in it: there the kernel ends the process, or the allocation of the arena fails.
pub(crate) fn available() -> Option<Bytes> {
    field_bytes("/proc/meminfo", "MemAvailable:")
}

/// The memory of the machine, whoever has it. `None` if it does not tell.
pub(crate) fn installed() -> Option<Bytes> {
    field_bytes("/proc/meminfo", "MemTotal:")
}

/// Refuses what the machine cannot give, before the kernel has to kill for it.
pub(crate) fn demand(what: &'static str, bytes: u64) -> Result<(), RuntimeError> {
    match available() {
        Some(available) if available.0 < bytes => Err(RuntimeError::Memory {
            what,
            needed: Bytes(bytes),
            available,
        }),
        _ => Ok(()),
    }
}

/// Refuses a file that the process may not have: the kernel would send a signal that ends it.
pub(crate) fn demand_file(bytes: u64) -> Result<(), Errno> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    match limit < bytes {
        true => Err(Errno::EFBIG),
        false => Ok(()),
    }
}

/// What a disk has free for this process.
pub(crate) fn disk_available(disk: &Statvfs) -> u64 {
    disk.blocks_available().saturating_mul(disk.fragment_size())
}

/// The blocks that a file holds.
pub(crate) fn file_allocated(file: impl AsFd) -> Result<Bytes, Errno> {
    let blocks = u64::try_from(fstat(file)?.st_blocks).map_err(|_| Errno::EOVERFLOW)?;
    Ok(Bytes(blocks * 512))
}

/// Gives the blocks of a range of a file back; its size stays.
pub(crate) fn punch_hole(file: impl AsFd, offset: i64, length: i64) -> Result<(), Errno> {
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, punch, offset, length)
}

/// A field in kB of a file of the kernel.
fn field_bytes(file: &str, field: &str) -> Option<Bytes> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_pss_and_available_memory() {
        let pss = process_pss().unwrap();
        assert!(
            pss > Bytes(100 << 10) && pss < available().unwrap(),
            "{pss}"
        );
    }
}
