//! A machine, as long as it is up: what a profile of it is valid for.
//!
//! In: files of the kernel and the firmware. Out: a [`System`], two of which are the same machine
//! in the same boot if they are equal. *Not here*: how much memory is left at a moment
//! ([`crate::memory`], [`crate::cuda::probe`]).

use std::fmt;
use std::fs;

use nix::sys::utsname::uname;
use serde::{Deserialize, Serialize};

use crate::scale::system_page;

/// A machine, as long as it is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// The kernel's name for this boot; empty if it has none.
    pub boot: String,
    /// The release of the kernel.
    pub kernel: String,
    /// The instruction set.
    pub architecture: String,
    /// The board, as its device tree or its firmware calls it; empty if neither tells.
    pub board: String,
    /// The release of Jetson Linux; empty elsewhere.
    pub jetson_linux: String,
    /// The page of the machine.
    pub page_bytes: u64,
    /// Memory of the machine; 0 if it does not tell.
    pub memory_bytes: u64,
    /// Mappings that the system grants a process; 0 if it does not tell.
    pub mappings_max: u64,
}

impl System {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let names = uname();
        let name = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
        let of_kernel = |file: &str| text_of(file).parse().unwrap_or(0);
        let memory = text_of("/proc/meminfo");
        let memory_kib: Option<u64> = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"))
            .and_then(|kib| kib.trim().parse().ok());
        let board = match text_of("/proc/device-tree/model") {
            model if model.is_empty() => text_of("/sys/class/dmi/id/product_name"),
            model => model,
        };
        Self {
            boot: text_of("/proc/sys/kernel/random/boot_id"),
            kernel: names
                .as_ref()
                .map_or_else(|_| String::new(), |u| name(u.release())),
            architecture: names.map_or_else(|_| String::new(), |u| name(u.machine())),
            board,
            jetson_linux: first_line(&text_of("/etc/nv_tegra_release")).to_owned(),
            page_bytes: system_page(),
            memory_bytes: memory_kib.map_or(0, |kib| kib.saturating_mul(1024)),
            mappings_max: of_kernel("/proc/sys/vm/max_map_count"),
        }
    }

    /// The release of Jetson Linux in numbers; `None` elsewhere.
    #[must_use]
    pub fn l4t(&self) -> Option<L4tRelease> {
        L4tRelease::parse(&self.jetson_linux)
    }
}

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

/// A file of the kernel without its ends; empty if it cannot be read.
fn text_of(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim_matches(|c: char| c == '\0' || c.is_whitespace())
        .to_owned()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
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
    fn the_machine_is_known() {
        let here = System::here();
        assert!(here.page_bytes.is_power_of_two() && here.memory_bytes > here.page_bytes);
        assert!(!here.kernel.is_empty() && !here.architecture.is_empty());
        assert_eq!(here, System::here());
    }
}
