//! The profile of a device: what was found at boot, so that no program has to look again.
//!
//! In: the file that `vtensor-bench probe --profile FILE` writes, as a service does at boot. Out:
//! the link of a folder that was measured, and the probe of a GPU ([`KnownGpu`]), where they hold
//! for this boot of this machine.
//!
//! Guarantees: a profile of another boot, kernel, machine or version, or one that everybody may
//! write, is refused with the reason, and so is a probe of another GPU or driver; the runtime then
//! measures by itself. Numbers are kept in bounds by whoever uses them. Nothing here decides what
//! is correct, only what is planned for.
//!
//! Limits: a file of at most 64 KiB. *Not here*: measuring ([`crate::storage::probe`],
//! [`crate::cuda::probe`]); what the owner has chosen ([`crate::settings`]).

mod gpu;
mod way;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lgm::profile::Link;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::cuda::probe::{Gpu, Probe};
use crate::settings::read_at_most;
use crate::storage::{StorageOptions, Tuning};
use crate::system::System;

pub use gpu::{KnownGpu, Source};
pub use way::MeasuredWay;
pub(crate) use way::{BPS, link_of};

/// The form of the file.
const SCHEMA: u32 = 2;
/// Bytes of a file with a profile.
const FILE_BYTES_MAX: u64 = 64 << 10;

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
    /// GPUs, and what works on them.
    pub gpus: Vec<Probe>,
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
    /// It is of another machine, boot or driver.
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
    /// It has nothing of this GPU.
    #[error("it has nothing of the GPU {0}; write it again (vtensor-bench probe)")]
    NoGpu(String),
}

impl DeviceProfile {
    /// A profile of this machine.
    #[must_use]
    pub fn new(system: System, storage: Vec<MeasuredWay>, gpus: Vec<Probe>) -> Self {
        Self {
            schema: SCHEMA,
            vtensor: env!("CARGO_PKG_VERSION").into(),
            system,
            storage,
            gpus,
        }
    }

    /// Reads the profile at `path`, if it is one of `here`.
    ///
    /// # Errors
    /// See [`ProfileRefusal`].
    pub fn read(path: &Path, here: &System) -> Result<Self, ProfileRefusal> {
        let (text, file) = read_at_most(path, FILE_BYTES_MAX)?;
        if file.mode() & 0o002 != 0 {
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

    /// The profile at `path`, if there is one of this machine. Whatever else is wrong with it is
    /// logged, and no error: it saves measurements, and nothing else.
    pub(crate) fn found(path: Option<&Path>) -> Option<Self> {
        let path = path?;
        match Self::read(path, &System::here()) {
            Ok(profile) => Some(profile),
            Err(ProfileRefusal::File(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(refusal) => {
                warn!(profile = %path.display(), "not used: {refusal}");
                None
            }
        }
    }

    /// What was found about a GPU.
    ///
    /// # Errors
    /// If that is another one, or has another driver now.
    pub fn gpu(&self, gpu: &Gpu) -> Result<&Probe, ProfileRefusal> {
        let same = |probe: &&Probe| probe.gpu.name == gpu.name && probe.gpu.uuid == gpu.uuid;
        let found = self.gpus.iter().find(same);
        let found = found.ok_or_else(|| ProfileRefusal::NoGpu(gpu.name.clone()))?;
        if found.gpu.driver_version != gpu.driver_version {
            return Err(ProfileRefusal::Other {
                what: "driver",
                found: found.gpu.driver_version.to_string(),
                here: gpu.driver_version.to_string(),
            });
        }
        Ok(found)
    }

    /// The link of a folder and what suits it, if a way to its file system was measured that has
    /// these options.
    #[must_use]
    pub fn link(&self, folder: &Path, options: &StorageOptions) -> Option<(Link, Tuning)> {
        let file_system = fs::metadata(folder).ok()?.dev();
        let serves = |way: &&MeasuredWay| way.serves(file_system, options);
        // A profile begins with the way that the runtime takes if it may.
        let way = self.storage.iter().find(serves)?;
        Some((link_of(way.bps, way.latency_ns), way.tuning()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::storage::{Integrity, IoPath, StorageProbe};
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
            request_bytes: 256 << 10,
            copy_bytes: 8 << 20,
            sealers: 1,
            raw_bps: [bps; 2],
            over_raw: [1.0; 2],
            busy: [0.5; 2],
            seal_bps: [bps; 2],
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
        let written = DeviceProfile::new(here.clone(), ways, Vec::new());
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
                sealers: Some(0),
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
        let (link, tuning) = read.link(&disk(), &default).unwrap();
        assert_eq!((tuning.request_bytes, tuning.sealers), (256 << 10, 1));
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
            serde_json::to_string(&DeviceProfile::new(system, Vec::new(), Vec::new())).unwrap()
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
        let newer = good.replace("\"schema\":2", "\"schema\":3");
        assert!(refused(&newer).contains("written for form \"3\""));
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
}
