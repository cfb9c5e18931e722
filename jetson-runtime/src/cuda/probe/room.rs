//! What a device can be given at this moment.
//!
//! Rules for a device that shares the host's memory: what counts is `MemAvailable`, not what the
//! driver calls free, which leaves out page cache that can be reclaimed. Swap does not count, least
//! of all zram, which is the same memory. `NvMapMemUsed`, where the kernel has it, is what GPUs
//! hold; it is never swapped.

use std::fs;
use std::path::Path;

use serde::Serialize;
use vtensor::Bytes;

use super::Probe;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::system::{L4tRelease, System};

/// Left to the system and to other programs on a device that shares the host's memory.
const SHARED_RESERVE_MIN: u64 = 512 << 20;
/// Left on a device with memory of its own.
const OWN_RESERVE_MIN: u64 = 256 << 20;
/// What GPUs can have together under the release with the regression, as seen on 8 GB boards.
const REGRESSION_CAP: u64 = 3_932 << 20;

/// Memory at one moment, which no file can keep. In bytes; `None` where the system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Room {
    /// What the driver counts as free.
    pub free_bytes: u64,
    /// What applications could still have, page cache that can be reclaimed included.
    pub available_bytes: Option<u64>,
    /// Whether any swap is in zram.
    pub zram: bool,
    /// What GPUs hold of the host's memory.
    pub nvmap_bytes: Option<u64>,
    /// The release of Linux for Tegra, of which one has a cap of its own; `None` elsewhere.
    pub l4t: Option<L4tRelease>,
}

impl Room {
    /// What there is now.
    ///
    /// # Errors
    /// If the driver does not tell how much is free.
    pub fn now(device: &Device) -> Result<Self, CudaError> {
        let (free, _) = device.memory()?;
        Ok(Self {
            free_bytes: free.0,
            l4t: System::here().l4t(),
            ..Self::under(Path::new("/"))
        })
    }

    /// What the files under `root` tell.
    fn under(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let memory = read("proc/meminfo");
        let field = |name: &str| {
            let rest = memory.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        Self {
            available_bytes: field("MemAvailable:"),
            nvmap_bytes: field("NvMapMemUsed:"),
            zram: read("proc/swaps").contains("/dev/zram"),
            ..Self::default()
        }
    }

    /// What a device can be given of it, in bytes; why goes to `reasons`, what the user should
    /// know to `warnings`.
    pub(super) fn given(
        &self,
        probe: &Probe,
        reasons: &mut Vec<String>,
        warnings: &mut Vec<String>,
    ) -> u64 {
        let one_memory = probe.class.one_memory();
        let (counted, what, reserve) = match self.available_bytes {
            Some(available) if one_memory => {
                let reserve = (probe.memory_bytes / 10).max(SHARED_RESERVE_MIN);
                let what = "available to applications (swap not counted)";
                (available, what, reserve)
            }
            _ => {
                let reserve = (probe.memory_bytes / 20).max(OWN_RESERVE_MIN);
                (self.free_bytes, "free by the driver's count", reserve)
            }
        };
        let mut room = counted.min(probe.memory_bytes).saturating_sub(reserve);
        reasons.push(format!(
            "a budget of up to {}: {} {what}, less {}",
            Bytes(room),
            Bytes(counted),
            Bytes(reserve)
        ));
        if one_memory && self.zram {
            warnings.push(
                "there is swap in zram, which is the same memory: tensors are never swapped, and \
                 filling it takes from them"
                    .into(),
            );
        }
        if self.l4t == Some(L4tRelease::REGRESSION) {
            let cap = REGRESSION_CAP.saturating_sub(self.nvmap_bytes.unwrap_or(0));
            room = room.min(cap);
            warnings.push(format!(
                "L4T {} fails to allocate GPU memory far below what is free; the budget is held \
                 to {}; update to 36.5 or later",
                L4tRelease::REGRESSION,
                Bytes(room)
            ));
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_read_from_its_files() {
        let root = std::env::temp_dir().join(format!("vtensor-room-{}", std::process::id()));
        fs::create_dir_all(root.join("proc")).unwrap();
        let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        write(
            "proc/meminfo",
            "MemTotal:        7800000 kB\nMemAvailable:    5000000 kB\n\
             SwapTotal:       3900000 kB\nNvMapMemUsed:     100000 kB\n",
        );
        write(
            "proc/swaps",
            "Filename Type Size\n/dev/zram0 partition 650000\n",
        );
        let room = Room::under(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(room.available_bytes, Some(5_000_000 * 1024));
        assert_eq!(room.nvmap_bytes, Some(100_000 * 1024));
        assert!(room.zram);
        assert_eq!(Room::under(Path::new("/nowhere")), Room::default());
    }
}
