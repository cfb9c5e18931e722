//! The profile of a device: what was found at boot, so that no program has to look again.
//!
//! In: the file that `vtensor-bench probe --profile FILE` writes, as a service does at boot. Out:
//! the link of a folder that was measured, where that holds for this boot of this machine.
//!
//! Guarantees: a profile of another boot, kernel, machine or version, or one that everybody may
//! write, is refused with the reason; the runtime then measures by itself. Numbers are kept in
//! bounds by whoever uses them. Nothing here decides what is correct, only what is planned for.
//!
//! Limits: a file of at most 64 KiB. *Not here*: measuring ([`crate::storage::probe`]); what the
//! owner has chosen ([`crate::settings`]).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lgm::profile::Link;
use nix::sys::utsname::uname;
use serde::{Deserialize, Serialize};

use crate::scale::system_page;
use crate::settings::read_at_most;
use crate::storage::{Integrity, IoPath, StorageOptions, StorageProbe};

/// The form of the file.
const SCHEMA: u32 = 1;
/// Bytes of a file with a profile.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// What no link is below or above, so that a strange measurement does no harm.
pub(crate) const BPS: [f64; 2] = [1e6, 1e13];
const LATENCY_NS_MAX: u64 = 100_000_000;

/// What was found at boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// The form of the file.
    schema: u32,
    /// The version that has measured.
    vtensor: String,
    /// The machine, and its boot.
    pub system: System,
    /// Ways to reach folders for spill files.
    pub storage: Vec<MeasuredWay>,
}

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

/// What spilling to a folder achieves in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredWay {
    /// The folder.
    pub folder: PathBuf,
    /// The number of its file system, valid until the machine is started again.
    pub file_system: u64,
    /// How requests reach the disk: `io_uring` or `pread/pwrite`.
    pub path: String,
    /// Whether contents are sealed; otherwise they are checked.
    pub sealed: bool,
    /// The largest request.
    pub request_bytes: u32,
    /// Requests in flight.
    pub depth: u32,
    /// Bytes per second out and in.
    pub bps: [f64; 2],
    /// Nanoseconds of a copy of one block, out and in.
    pub latency_ns: [u64; 2],
}

/// Why a profile is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileRefusal {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    File(#[from] io::Error),
    /// Everybody may write it.
    #[error("everybody may write it; take that right away (chmod o-w)")]
    Writable,
    /// It is not a profile of this version.
    #[error("it is no profile of this version: {0}; write it again (vtensor-bench probe)")]
    Form(String),
    /// It is of another machine or boot.
    #[error(
        "it was written for {what} {found:?}, this is {here:?}; write it again (vtensor-bench \
         probe)"
    )]
    Other {
        /// What differs.
        what: &'static str,
        /// As it was.
        found: String,
        /// As it is.
        here: String,
    },
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
}

impl MeasuredWay {
    /// What a measurement has found for a folder.
    ///
    /// # Errors
    /// If the folder is gone.
    pub fn new(
        folder: &Path,
        options: &StorageOptions,
        probe: &StorageProbe,
    ) -> Result<Self, io::Error> {
        Ok(Self {
            folder: folder.into(),
            file_system: fs::metadata(folder)?.dev(),
            path: probe.path.into(),
            sealed: options.integrity == Integrity::Encrypt,
            request_bytes: probe.request_bytes,
            depth: options.depth,
            bps: probe.bps,
            latency_ns: probe.latency_ns,
        })
    }

    /// Whether a spill file with these options, on this file system, goes this way.
    fn serves(&self, file_system: u64, options: &StorageOptions) -> bool {
        self.file_system == file_system
            && self.sealed == (options.integrity == Integrity::Encrypt)
            && (options.request_bytes).is_none_or(|wanted| wanted == self.request_bytes)
            && self.depth == options.depth
            && match options.path {
                IoPath::Auto => true,
                IoPath::Uring => self.path == "io_uring",
                IoPath::Plain => self.path != "io_uring",
            }
    }
}

impl DeviceProfile {
    /// A profile of this machine.
    #[must_use]
    pub fn new(system: System, storage: Vec<MeasuredWay>) -> Self {
        Self {
            schema: SCHEMA,
            vtensor: env!("CARGO_PKG_VERSION").into(),
            system,
            storage,
        }
    }

    /// Reads the profile at `path`, if it is one of `here`.
    ///
    /// # Errors
    /// See [`ProfileRefusal`].
    pub fn read(path: &Path, here: &System) -> Result<Self, ProfileRefusal> {
        let text = read_at_most(path, FILE_BYTES_MAX)?;
        if fs::metadata(path)?.mode() & 0o002 != 0 {
            return Err(ProfileRefusal::Writable);
        }
        let profile: Self =
            serde_json::from_str(&text).map_err(|error| ProfileRefusal::Form(error.to_string()))?;
        let was = &profile.system;
        let version = env!("CARGO_PKG_VERSION");
        for (what, found, here) in [
            ("form", &profile.schema.to_string(), &SCHEMA.to_string()),
            ("version", &profile.vtensor, &version.to_owned()),
            ("boot", &was.boot, &here.boot),
            ("kernel", &was.kernel, &here.kernel),
            ("architecture", &was.architecture, &here.architecture),
            ("board", &was.board, &here.board),
        ] {
            if found != here {
                let (found, here) = (found.clone(), here.clone());
                return Err(ProfileRefusal::Other { what, found, here });
            }
        }
        Ok(profile)
    }

    /// The link of a folder and the request to use, if a way to its file system was measured that
    /// has these options.
    #[must_use]
    pub fn link(&self, folder: &Path, options: &StorageOptions) -> Option<(Link, u32)> {
        let file_system = fs::metadata(folder).ok()?.dev();
        let serves = |way: &&MeasuredWay| way.serves(file_system, options);
        // A profile begins with the way that the runtime takes if it may.
        let way = self.storage.iter().find(serves)?;
        Some((link_of(way.bps, way.latency_ns), way.request_bytes))
    }
}

/// What a measurement means to the planner.
pub(crate) fn link_of(bps: [f64; 2], latency_ns: [u64; 2]) -> Link {
    Link {
        out_bps: bps[0].clamp(BPS[0], BPS[1]),
        in_bps: bps[1].clamp(BPS[0], BPS[1]),
        copy_latency_ns: latency_ns[0].max(latency_ns[1]).min(LATENCY_NS_MAX),
        // Both directions share the disk and, with encryption, the cores.
        duplex: false,
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tests::disk;

    fn way(folder: &Path, path: &'static str, sealed: bool, bps: f64) -> MeasuredWay {
        let options = StorageOptions {
            integrity: if sealed {
                Integrity::Encrypt
            } else {
                Integrity::Checksum
            },
            ..StorageOptions::default()
        };
        let probe = StorageProbe {
            path,
            bps: [bps, 2.0 * bps],
            latency_ns: [3000, 4000],
            request_bytes: 1 << 20,
            raw_bps: [bps; 2],
            limits: Vec::new(),
        };
        MeasuredWay::new(folder, &options, &probe).unwrap()
    }

    fn with_file<T>(name: &str, text: &str, act: impl FnOnce(&Path) -> T) -> T {
        let path = disk().join(format!("profile-{name}-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        let done = act(&path);
        fs::remove_file(&path).unwrap();
        done
    }

    #[test]
    fn a_profile_of_this_boot_tells_the_link_of_the_way_that_is_taken() {
        let ways = vec![
            way(&disk(), "io_uring", true, 1e9),
            way(&disk(), "pread/pwrite", true, 2e8),
            way(&disk(), "io_uring", false, 3e9),
        ];
        let here = System::here();
        let written = DeviceProfile::new(here.clone(), ways);
        let text = serde_json::to_string(&written).unwrap();
        let read = with_file("good", &text, |path| DeviceProfile::read(path, &here)).unwrap();
        assert_eq!(read, written);
        let out = |options: StorageOptions| Some(read.link(&disk(), &options)?.0.out_bps);
        let default = StorageOptions::default();
        let plain = StorageOptions {
            path: IoPath::Plain,
            ..default
        };
        let checked = StorageOptions {
            integrity: Integrity::Checksum,
            ..default
        };
        assert_eq!(out(default), Some(1e9));
        assert_eq!(out(plain), Some(2e8));
        assert_eq!(out(checked), Some(3e9));
        assert_eq!(
            out(StorageOptions {
                depth: 1,
                ..default
            }),
            None
        );
        assert_eq!(
            out(StorageOptions {
                request_bytes: Some(4096),
                ..default
            }),
            None
        );
        let both = StorageOptions {
            path: IoPath::Plain,
            ..checked
        };
        assert_eq!(out(both), None, "it was not measured");
        let (link, request_bytes) = read.link(&disk(), &default).unwrap();
        assert_eq!(request_bytes, 1 << 20);
        assert_eq!(
            (link.in_bps, link.copy_latency_ns, link.duplex),
            (2e9, 4000, false)
        );
        assert_eq!(
            read.link(Path::new("/proc"), &default),
            None,
            "another file system"
        );
        assert_eq!(read.link(Path::new("/no/such"), &default), None);
    }

    #[test]
    fn a_profile_of_anything_else_is_refused_with_the_reason() {
        let here = System::here();
        let text = |system: System| {
            serde_json::to_string(&DeviceProfile::new(system, Vec::new())).unwrap()
        };
        let refused = |text: &str| {
            with_file("bad", text, |path| DeviceProfile::read(path, &here))
                .unwrap_err()
                .to_string()
        };
        let other = || "other".to_owned();
        for (system, what) in [
            (
                System {
                    boot: other(),
                    ..here.clone()
                },
                "boot",
            ),
            (
                System {
                    kernel: other(),
                    ..here.clone()
                },
                "kernel",
            ),
            (
                System {
                    architecture: other(),
                    ..here.clone()
                },
                "architecture",
            ),
            (
                System {
                    board: other(),
                    ..here.clone()
                },
                "board",
            ),
        ] {
            let said = refused(&text(system));
            assert!(
                said.contains(&format!("written for {what} \"other\"")),
                "{said}"
            );
        }
        let good = text(here.clone());
        let newer = good.replace("\"schema\":1", "\"schema\":2");
        assert!(refused(&newer).contains("written for form \"2\""));
        assert!(refused(&good[1..]).contains("no profile of this version"));
        let large = " ".repeat(1 + (64 << 10));
        assert!(
            refused(&large).contains("at most 64 KiB"),
            "{}",
            refused(&large)
        );
        let said = with_file("open", &good, |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
            DeviceProfile::read(path, &here).unwrap_err().to_string()
        });
        assert!(said.contains("everybody may write"), "{said}");
        let missing = DeviceProfile::read(Path::new("/no/such"), &here);
        assert!(matches!(missing, Err(ProfileRefusal::File(_))));
    }

    #[test]
    fn strange_numbers_are_kept_in_bounds() {
        let link = link_of([0.0, f64::INFINITY], [0, u64::MAX]);
        assert_eq!((link.out_bps, link.in_bps), (1e6, 1e13));
        assert_eq!(link.copy_latency_ns, LATENCY_NS_MAX);
    }

    #[test]
    fn the_machine_is_known() {
        let here = System::here();
        assert!(here.page_bytes.is_power_of_two() && here.memory_bytes > here.page_bytes);
        assert!(!here.kernel.is_empty() && !here.architecture.is_empty());
        assert_eq!(here, System::here());
    }
}
