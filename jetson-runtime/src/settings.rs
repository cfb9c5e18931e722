//! What the owner of a device has chosen for every program on it: a file and the environment.
//!
//! In: `/etc/vtensor.toml`, or the file that `VTENSOR_CONFIG` names, with lines `option = value`;
//! and variables `VTENSOR_OPTION`, which go first. Out: [`Settings`], from which a [`Config`]
//! begins. What a program chooses itself goes before both.
//!
//! Guarantees: an option that is not known, or a value that it cannot have, is an error that says
//! where it stands; a missing file is none unless it was named. A program that has more rights than
//! its user does not listen to the environment.
//!
//! Limits: a file of at most 64 KiB, in a part of TOML: one option a line, no tables. *Not here*:
//! what the machine is ([`crate::device`]).

mod lines;

use std::env;
use std::ffi::OsString;
use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lgm::planner::Methods;
use lgm::policy::Policy;
use nix::libc;
use vtensor::{Bytes, Kinds, PageBytes};

use crate::live::Config;
use crate::spill::Spill;
use crate::storage::{Integrity, StorageOptions};

/// The file of a device.
pub const FILE: &str = "/etc/vtensor.toml";
/// The variable that names another file; empty is none.
pub const FILE_VARIABLE: &str = "VTENSOR_CONFIG";
/// Where the profile is that the device's service has written at boot.
pub const PROFILE: &str = "/run/vtensor/profile.json";
/// Bytes of a file with settings.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Every option, as it is called in a file; `VTENSOR_` and capitals make the variable.
pub const OPTIONS: [&str; 12] = [
    "budget",
    "page",
    "policy",
    "methods",
    "warmup",
    "spill_dir",
    "spill_max",
    "spill_readable",
    "spill_in_memory",
    "spill_model",
    "spill_writes_per_day",
    "profile",
];

/// What was chosen; `None` is the default of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The memory of a program's arena.
    pub budget: Option<Bytes>,
    /// The page of plans.
    pub page: Option<PageBytes>,
    /// What chooses the moves.
    pub policy: Option<Policy>,
    /// How room is made.
    pub methods: Option<Methods>,
    /// Equal iterations in a row before a program is made of them.
    pub warmup: Option<u32>,
    /// The folder of spill files.
    pub spill_dir: Option<PathBuf>,
    /// What the spill tier may take while nothing is frozen.
    pub spill_max: Option<Bytes>,
    /// Whether spill files stay readable.
    pub spill_readable: Option<bool>,
    /// Whether a folder whose files are in memory is accepted.
    pub spill_in_memory: Option<bool>,
    /// Whether parameters, optimizer state and buffers go to spill files as well.
    pub spill_model: Option<bool>,
    /// What a program may write to a spill file in a day.
    pub spill_writes_per_day: Option<Bytes>,
    /// The profile of the device: a path, or empty for none.
    pub profile: Option<PathBuf>,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("the settings in {} cannot be read: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not one of settings.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Where, from 1 on.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A variable has a value that it cannot have.
    #[error("the environment's {variable}: {reason}")]
    Variable {
        /// Which variable.
        variable: String,
        /// What is wrong.
        reason: String,
    },
}

impl Settings {
    /// The settings of this process.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn load() -> Result<Self, SettingsError> {
        // SAFETY: it reads a word that the kernel gave this process.
        let elevated = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        if elevated {
            Self::from_parts(|_| None)
        } else {
            Self::from_parts(|name| env::var_os(name))
        }
    }

    /// The settings of a process with these variables.
    fn from_parts(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        match variable(FILE_VARIABLE) {
            Some(named) if named.is_empty() => {}
            Some(named) => settings.read_file(Path::new(&named), true)?,
            None => settings.read_file(Path::new(FILE), false)?,
        }
        for option in OPTIONS {
            let name = format!("VTENSOR_{}", option.to_ascii_uppercase());
            let Some(value) = variable(&name) else {
                continue;
            };
            let set = match value.to_str() {
                Some(text) => settings.set(option, text),
                None => Err("it is not text in UTF-8".into()),
            };
            set.map_err(|reason| SettingsError::Variable {
                variable: name,
                reason,
            })?;
        }
        Ok(settings)
    }

    fn read_file(&mut self, path: &Path, wanted: bool) -> Result<(), SettingsError> {
        let failed = |source| SettingsError::File {
            path: path.into(),
            source,
        };
        let text = match read_at_most(path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted => return Ok(()),
            read => read.map_err(failed)?.0,
        };
        let at = |line: usize, reason: String| SettingsError::Line {
            path: path.into(),
            line,
            reason,
        };
        for line in lines::read(&text).map_err(|(line, reason)| at(line, reason))? {
            let set = self.set(&line.key, &line.value);
            set.map_err(|reason| at(line.number, reason))?;
        }
        Ok(())
    }

    /// Sets one option from its text. An error says what is wrong with it.
    fn set(&mut self, option: &str, text: &str) -> Result<(), String> {
        let wrong = |what: &dyn std::fmt::Display| format!("`{option}` is \"{text}\": {what}");
        let bytes = || text.parse::<Bytes>().map_err(|error| wrong(&error));
        let yes = || {
            let parsed = text.parse::<bool>();
            parsed.map_err(|_| wrong(&"take true or false"))
        };
        match option {
            "budget" => self.budget = Some(bytes()?).filter(|budget| budget.0 != 0),
            "page" => {
                let page = PageBytes::new(bytes()?.0);
                self.page = Some(page.map_err(|error| wrong(&error))?);
            }
            "policy" => self.policy = Some(text.parse().map_err(|error| wrong(&error))?),
            "methods" => self.methods = Some(text.parse().map_err(|error| wrong(&error))?),
            "warmup" => {
                let warmup = text.parse::<u32>().ok().filter(|warmup| *warmup >= 2);
                let warmup = warmup.ok_or_else(|| {
                    wrong(&"take a whole number from 2 on, for it takes two to be equal")
                })?;
                self.warmup = Some(warmup);
            }
            "spill_dir" => self.spill_dir = Some(absolute(text).map_err(|error| wrong(&error))?),
            "spill_max" => self.spill_max = Some(bytes()?),
            "spill_readable" => self.spill_readable = Some(yes()?),
            "spill_in_memory" => self.spill_in_memory = Some(yes()?),
            "spill_model" => self.spill_model = Some(yes()?),
            "spill_writes_per_day" => {
                self.spill_writes_per_day = Some(bytes()?).filter(|most| most.0 != 0);
            }
            "profile" => self.profile = Some(absolute(text).map_err(|error| wrong(&error))?),
            _ => {
                return Err(format!(
                    "there is no option `{option}`; there are {}",
                    OPTIONS.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// What a runtime is built with where a program has no wishes of its own.
    #[must_use]
    pub fn config(&self) -> Config {
        let defaults = Config::default();
        Config {
            budget: self.budget,
            policy: self.policy.unwrap_or(defaults.policy),
            methods: self.methods.unwrap_or(defaults.methods),
            page: self.page,
            spill: self.spill_folder().map_or(Spill::Ram, Spill::File),
            storage: self.storage(),
            spill_bytes_max: self.spill_max,
            keep: (self.spill_model == Some(true)).then_some(Kinds::NONE),
            written_per_day_max: self.spill_writes_per_day,
            warmup: self.warmup.unwrap_or(defaults.warmup),
            profile: self.profile(),
            ..defaults
        }
    }

    /// The folder of spill files, if there is one.
    #[must_use]
    pub fn spill_folder(&self) -> Option<PathBuf> {
        named(self.spill_dir.as_deref())
    }

    /// How spill files are used.
    #[must_use]
    pub fn storage(&self) -> StorageOptions {
        StorageOptions {
            integrity: match self.spill_readable {
                Some(true) => Integrity::Checksum,
                _ => Integrity::Encrypt,
            },
            memory_backed: self.spill_in_memory.unwrap_or(false),
            ..StorageOptions::default()
        }
    }

    /// Where the profile of the device may be.
    #[must_use]
    pub fn profile(&self) -> Option<PathBuf> {
        named(Some(self.profile.as_deref().unwrap_or(Path::new(PROFILE))))
    }
}

/// A path; an empty one is none.
fn named(path: Option<&Path>) -> Option<PathBuf> {
    path.filter(|path| *path != Path::new("")).map(Into::into)
}

/// A path that means the same in every folder; empty is none.
fn absolute(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    if text.is_empty() || path.is_absolute() {
        Ok(path)
    } else {
        Err("take a path from the root on, or \"\" for none")
    }
}

/// Reads a text file that is not larger than it should be; and says what was opened.
pub(crate) fn read_at_most(path: &Path, bytes: u64) -> io::Result<(String, Metadata)> {
    let mut options = OpenOptions::new();
    // For a pipe it would wait.
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    let mut text = String::new();
    if found.is_file() {
        // Not by its size: files of the kernel do not tell.
        file.take(bytes + 1).read_to_string(&mut text)?;
    }
    if !found.is_file() || text.len() as u64 > bytes {
        let what = format!("a file of at most {} is wanted", Bytes(bytes));
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok((text, found))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::disk;

    /// The settings of a file with this text, and of these variables.
    fn settings(text: &str, variables: &[(&str, &str)]) -> Result<Settings, String> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = disk().join(format!("settings-{}-{count}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        let settings = Settings::from_parts(|name| match name {
            FILE_VARIABLE => Some(path.clone().into()),
            _ => {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.into())
            }
        });
        fs::remove_file(&path).unwrap();
        settings.map_err(|error| error.to_string())
    }

    const ALL: &str = "
        budget = \"96MiB\"   # an amount
        page = 65536
        policy = \"lru\"
        methods = \"recompute\"
        warmup = 5
        spill_dir = \"/var/lib/vtensor\"
        spill_max = \"2GiB\"
        spill_readable = true
        spill_in_memory = true
        spill_model = true
        spill_writes_per_day = \"50GiB\"
        profile = \"/srv/profile.json\"
    ";

    #[test]
    fn every_option_is_read_from_a_file_and_reaches_the_runtime() {
        let read = settings(ALL, &[]).unwrap();
        for option in OPTIONS {
            assert!(ALL.contains(&format!("{option} = ")), "{option}");
        }
        let config = read.config();
        assert_eq!(config.budget, Some(Bytes(96 << 20)));
        assert_eq!(config.page.map(PageBytes::get), Some(65536));
        assert_eq!((config.policy, config.warmup), (Policy::Lru, 5));
        assert_eq!(config.methods, Methods::Recompute);
        assert!(matches!(&config.spill, Spill::File(d) if d == Path::new("/var/lib/vtensor")));
        assert_eq!(config.spill_bytes_max, Some(Bytes(2 << 30)));
        assert_eq!(config.storage.integrity, Integrity::Checksum);
        assert!(config.storage.memory_backed);
        assert_eq!(config.keep, Some(Kinds::NONE));
        assert_eq!(config.written_per_day_max, Some(Bytes(50 << 30)));
        assert_eq!(config.profile, Some("/srv/profile.json".into()));
    }

    #[test]
    fn the_environment_goes_before_the_file_in_every_option() {
        let variables = [
            ("VTENSOR_BUDGET", "1GiB"),
            ("VTENSOR_PAGE", "2MiB"),
            ("VTENSOR_POLICY", "whole"),
            ("VTENSOR_METHODS", "swap"),
            ("VTENSOR_WARMUP", "2"),
            ("VTENSOR_SPILL_DIR", "/mnt"),
            ("VTENSOR_SPILL_MAX", "3GiB"),
            ("VTENSOR_SPILL_READABLE", "false"),
            ("VTENSOR_SPILL_IN_MEMORY", "false"),
            ("VTENSOR_SPILL_MODEL", "false"),
            ("VTENSOR_SPILL_WRITES_PER_DAY", "0"),
            ("VTENSOR_PROFILE", ""),
        ];
        assert_eq!(variables.len(), OPTIONS.len());
        let both = settings(ALL, &variables).unwrap();
        assert_eq!(both, settings("", &variables).unwrap());
        let file = settings(ALL, &[]).unwrap();
        assert_eq!(file, settings(ALL, &[("VTENSOR_OTHER", "x")]).unwrap());
        let config = both.config();
        assert_eq!(config.budget, Some(Bytes(1 << 30)));
        assert_eq!(config.page.map(PageBytes::get), Some(2 << 20));
        assert_eq!((config.policy, config.warmup), (Policy::Whole, 2));
        assert_eq!(config.methods, Methods::Swap);
        assert!(matches!(&config.spill, Spill::File(d) if d == Path::new("/mnt")));
        assert_eq!(config.spill_bytes_max, Some(Bytes(3 << 30)));
        assert_eq!(config.storage, StorageOptions::default());
        assert_eq!((config.keep, config.written_per_day_max), (None, None));
        assert_eq!(config.profile, None);
        let off = settings(ALL, &[("VTENSOR_BUDGET", "0"), ("VTENSOR_SPILL_DIR", "")]).unwrap();
        assert!(matches!(off.config().spill, Spill::Ram));
        assert_eq!(off.config().budget, None);
    }

    #[test]
    fn the_file_that_is_installed_has_every_option_with_its_default() {
        let file = "yocto-layer/meta-vtensor/recipes-vtensor/vtensor/files/vtensor.toml";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(settings(&text, &[]).unwrap(), Settings::default());
        let set: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .filter(|line| OPTIONS.iter().any(|o| line.starts_with(&format!("{o} = "))))
            .collect();
        assert_eq!(set.len(), OPTIONS.len(), "{set:?}");
        let all = settings(&set.join("\n"), &[]).unwrap().config();
        let default = Config::default();
        assert_eq!((all.policy, all.warmup), (default.policy, default.warmup));
        assert_eq!(
            (all.methods, all.storage),
            (default.methods, default.storage)
        );
        assert_eq!(all.profile, Settings::default().profile());
    }

    #[test]
    fn what_is_wrong_is_said_where_it_stands() {
        for (text, wanted) in [
            (
                "\nbudgit = 1",
                "line 2: there is no option `budgit`; there are budget, page",
            ),
            (
                "budget = \"much\"",
                "line 1: `budget` is \"much\": an amount of memory begins",
            ),
            (
                "budget = 0.5",
                "line 1: `budget` is `0.5`: take a text in quotes",
            ),
            (
                "page = 3000",
                "line 1: `page` is \"3000\": a page is a power of two",
            ),
            ("policy = \"best\"", "`policy` is \"best\""),
            (
                "warmup = 1",
                "`warmup` is \"1\": take a whole number from 2 on",
            ),
            (
                "spill_dir = \"var\"",
                "`spill_dir` is \"var\": take a path from the root on",
            ),
            (
                "\n\nspill_readable = 1",
                "line 3: `spill_readable` is \"1\": take true or false",
            ),
            (
                "[budget]\nbytes = 1",
                "line 1: `[budget]` is no `option = value`",
            ),
            (
                "budget = 1\nbudget = 2",
                "line 2: `budget` is set a second time, after line 1",
            ),
            ("budget", "line 1: `budget` is no `option = value`"),
        ] {
            let said = settings(text, &[]).unwrap_err();
            assert!(said.contains(wanted), "{text:?}: {said}");
        }
        let said = settings("", &[("VTENSOR_WARMUP", "often")]).unwrap_err();
        assert!(
            said.contains("VTENSOR_WARMUP: `warmup` is \"often\""),
            "{said}"
        );
    }

    #[test]
    fn a_file_is_missed_only_if_it_was_named() {
        let none = Settings::from_parts(|name| (name == FILE_VARIABLE).then(OsString::new));
        assert_eq!(none.unwrap(), Settings::default());
        let pipe = disk().join(format!("settings-pipe-{}", std::process::id()));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // The last one says that it is empty, and is 256 GiB.
        let endless = "/proc/self/pagemap";
        for path in [
            "/no/such/file",
            "/dev/zero",
            "/",
            pipe.to_str().unwrap(),
            endless,
        ] {
            let named = Settings::from_parts(|name| (name == FILE_VARIABLE).then(|| path.into()));
            let said = named.unwrap_err().to_string();
            assert!(
                said.contains(path) && said.contains("cannot be read"),
                "{said}"
            );
        }
        fs::remove_file(&pipe).unwrap();
        let default = Settings::default().config();
        assert_eq!(default.profile, Some(PROFILE.into()));
        assert!(default.budget.is_none() && matches!(default.spill, Spill::Ram));
    }
}
