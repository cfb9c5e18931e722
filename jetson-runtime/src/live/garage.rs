//! The garage: the spill tier of what no program holds. It grows as tensors come, and gives space
//! back when they have gone.

use std::path::PathBuf;
use std::sync::Arc;

use nix::errno::Errno;
use vtensor::{Bytes, limits};

use super::space::Space;
use crate::error::RuntimeError;
use crate::memory;
use crate::spill::{Spill, Tier};
use crate::storage::StorageOptions;

/// No file needs to be larger: as large as files can be on ext4.
const FILE_BYTES_MAX: u64 = 1 << 44;

/// Slots on demand.
#[derive(Debug)]
pub(super) struct Garage {
    tier: Arc<Tier>,
    space: Space,
    /// The directory whose disk sets the limit, where nobody has.
    disk: Option<PathBuf>,
}

impl Garage {
    /// A garage that takes no space yet.
    pub(super) fn new(
        spill: &Spill,
        storage: &StorageOptions,
        max: Option<Bytes>,
    ) -> Result<Self, RuntimeError> {
        let disk = match (max, spill) {
            (None, Spill::File(directory)) => Some(directory.clone()),
            _ => None,
        };
        let max = match max {
            Some(max) => max.min(ceiling(spill)),
            None => Bytes(room(spill)?.0 / limits::SLOT_ALIGN * limits::SLOT_ALIGN),
        };
        Ok(Self {
            tier: Arc::new(Tier::unclaimed(spill, storage, max.0)?),
            space: Space::new(max.0, limits::SLOT_ALIGN),
            disk,
        })
    }

    pub(super) const fn tier(&self) -> &Arc<Tier> {
        &self.tier
    }

    /// Takes a slot, with its space.
    pub(super) fn take(&mut self, bytes: u64) -> Result<u64, RuntimeError> {
        let Some(slot) = self.space.take(bytes) else {
            return Err(match &self.disk {
                Some(directory) => RuntimeError::SpillSpace {
                    directory: directory.clone(),
                    needed: Bytes(bytes),
                    errno: Errno::ENOSPC,
                },
                None => RuntimeError::SpillFull {
                    needed: Bytes(bytes),
                    used: Bytes(self.space.used_bytes()),
                    max: Bytes(self.space.size()),
                },
            });
        };
        self.tier
            .claim(slot, self.space.taken_by(bytes))
            .inspect_err(|_| self.space.give(slot))?;
        Ok(slot)
    }

    pub(super) fn give(&mut self, slot: u64) {
        self.space.give(slot);
    }

    /// Gives the space of everything that is free back to the system.
    pub(super) fn trim(&self) -> Result<(), RuntimeError> {
        self.space
            .gaps()
            .try_for_each(|(start, end)| self.tier.release(start, end - start))
    }

    /// Bytes of taken slots.
    pub(super) const fn used(&self) -> Bytes {
        Bytes(self.space.used_bytes())
    }
}

/// What a spill tier cannot exceed, whatever it may: addresses are reserved for all of it.
fn ceiling(spill: &Spill) -> Bytes {
    match spill {
        Spill::Ram => memory::installed().unwrap_or(Bytes(limits::TOTAL_BYTES_MAX)),
        Spill::File(_) => Bytes(FILE_BYTES_MAX),
    }
}

/// What the machine could give to a spill tier.
fn room(spill: &Spill) -> Result<Bytes, RuntimeError> {
    match spill {
        Spill::Ram => memory::available().ok_or(RuntimeError::System {
            what: "tell the memory that is free; say how much the spill tier may take",
            errno: Errno::ENOENT,
        }),
        Spill::File(directory) => {
            let disk = nix::sys::statvfs::statvfs(directory.as_path()).map_err(|errno| {
                RuntimeError::SpillFile {
                    directory: directory.clone(),
                    errno,
                }
            })?;
            let bytes = memory::disk_available(&disk);
            Ok(Bytes(bytes.min(limits::TOTAL_BYTES_MAX)))
        }
    }
}
