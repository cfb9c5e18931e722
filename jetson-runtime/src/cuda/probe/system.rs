//! The system around a device: its memory, its kernel, its release of L4T.
//!
//! Rules for a device that shares the host's memory: what counts is `MemAvailable`, not what the
//! driver calls free, which leaves out page cache that can be reclaimed. Swap does not count, least
//! of all zram, which is the same memory. `NvMapMemUsed`, where the kernel has it, is what GPUs
//! hold; it is never swapped.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A release of Linux for Tegra.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct L4tRelease {
    /// As in 36.4.7.
    pub major: u32,
    /// As in 36.4.7.
    pub minor: u32,
    /// As in 36.4.7.
    pub patch: u32,
}

impl L4tRelease {
    /// The one whose allocations of GPU memory fail far below what is free.
    pub const REGRESSION: Self = Self {
        major: 36,
        minor: 4,
        patch: 7,
    };

    /// Reads the first line of `nv_tegra_release`: `# R36 (release), REVISION: 4.7, GCID: …`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.lines().next()?.split_once("# R")?;
        let (major, rest) = rest.split_once(' ')?;
        let (_, rest) = rest.split_once("REVISION:")?;
        let revision = rest.split(',').next()?.trim();
        let mut numbers = revision.split('.').map(|number| number.parse().ok());
        let minor = numbers.next()??;
        // Early revisions have two numbers.
        let patch = numbers.next().map_or(Some(0), |patch| patch)?;
        Some(Self {
            major: major.parse().ok()?,
            minor,
            patch,
        })
    }
}

impl fmt::Display for L4tRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What the system tells, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// The release of the kernel.
    pub kernel: String,
    /// All memory of the host.
    pub total_bytes: Option<u64>,
    /// What applications could still have, page cache that can be reclaimed included.
    pub available_bytes: Option<u64>,
    /// Swap; that in zram is the same memory.
    pub swap_bytes: Option<u64>,
    /// Whether any of it is in zram.
    pub zram: bool,
    /// What GPUs hold of the host's memory.
    pub nvmap_bytes: Option<u64>,
    /// The release of Linux for Tegra; `None` elsewhere.
    pub l4t: Option<L4tRelease>,
}

impl System {
    /// This system.
    #[must_use]
    pub fn here() -> Self {
        Self::under(Path::new("/"))
    }

    /// The system whose files are under `root`.
    #[must_use]
    pub fn under(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let memory = read("proc/meminfo");
        let field = |name: &str| {
            let rest = memory.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        Self {
            kernel: read("proc/sys/kernel/osrelease").trim().to_owned(),
            total_bytes: field("MemTotal:"),
            available_bytes: field("MemAvailable:"),
            swap_bytes: field("SwapTotal:"),
            zram: read("proc/swaps").contains("/dev/zram"),
            nvmap_bytes: field("NvMapMemUsed:"),
            l4t: L4tRelease::parse(&read("etc/nv_tegra_release")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        let line = "# R36 (release), REVISION: 4.7, GCID: 42132812, BOARD: generic, EABI: aarch64";
        let release = L4tRelease::parse(line).unwrap();
        assert_eq!(release, L4tRelease::REGRESSION);
        assert_eq!(release.to_string(), "36.4.7");
        let two = L4tRelease::parse("# R32 (release), REVISION: 7, GCID: 1").unwrap();
        assert_eq!((two.major, two.minor, two.patch), (32, 7, 0));
        for text in [
            "",
            "R36",
            "# R36",
            "# Rx (release), REVISION: 4.7",
            "# R36 (r), REVISION: a.b",
        ] {
            assert_eq!(L4tRelease::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_board_is_read_from_its_files() {
        let root = std::env::temp_dir().join(format!("vtensor-system-{}", std::process::id()));
        fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
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
        write("proc/sys/kernel/osrelease", "5.15.148-tegra\n");
        write(
            "etc/nv_tegra_release",
            "# R36 (release), REVISION: 4.4, GCID: 1\n",
        );
        let system = System::under(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(system.kernel, "5.15.148-tegra");
        assert_eq!(system.available_bytes, Some(5_000_000 * 1024));
        assert_eq!(system.nvmap_bytes, Some(100_000 * 1024));
        assert!(system.zram);
        assert_eq!(system.l4t.map(|release| release.patch), Some(4));
        assert_eq!(System::under(Path::new("/nowhere")), System::default());
    }
}
