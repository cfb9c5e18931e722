//! Device profiles: what a plan needs to know of a machine.
//!
//! In: a JSON file, `{"schema": 1, "devices": {NAME: {…}}}`, of which one is built in
//! (`devices.json` beside this file shows every key). Out: checked [`Profile`]s. Unknown keys are
//! ignored.
//!
//! *Not here*: durations of ops, which each trace brings for each device; probing a machine.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use vtensor::{PageBytes, limits};

const SCHEMA: u64 = 1;
/// Bytes of a file with profiles.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Bounds of a bandwidth. The lower one keeps all predicted times inside 64 bits.
const BPS_MIN: f64 = 1e6;
const BPS_MAX: f64 = 1e15;
const LATENCY_NS_MAX: u64 = 1_000_000_000;

const _: () = assert!(limits::TOTAL_BYTES_MAX / 1_000_000 < u64::MAX / 1_000_000_000 / 8);

/// The link between the device and its spill tier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bytes per second from the device to the spill tier.
    pub out_bps: f64,
    /// Bytes per second from the spill tier to the device.
    pub in_bps: f64,
    /// Nanoseconds that each copy takes beside its bytes.
    pub copy_latency_ns: u64,
    /// Whether both directions run at once at full speed. Otherwise there is one queue.
    pub duplex: bool,
}

/// What the spill tier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SpillTier {
    /// A file on local storage.
    Storage,
    /// Memory of the host, other than the device's.
    Host,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The key under which traces hold durations for it.
    pub name: String,
    /// Its memory class, A to E.
    pub class: char,
    /// What its spill tier is.
    pub spill: SpillTier,
    /// The link to its spill tier.
    pub link: Link,
    /// The page size that it prefers.
    pub page_bytes: PageBytes,
}

impl Profile {
    /// Checks what planners count on: numbers in their ranges, and a name.
    ///
    /// # Errors
    /// A sentence that names the first thing that does not hold.
    pub fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || self.name.len() > limits::NAME_BYTES_MAX {
            return Err(format!(
                "a device name has 1 to {} bytes",
                limits::NAME_BYTES_MAX
            ));
        }
        if !('A'..='E').contains(&self.class) {
            return Err(format!(
                "class is one letter from A to E, not {:?}",
                self.class
            ));
        }
        for (key, bps) in [("out_bps", self.link.out_bps), ("in_bps", self.link.in_bps)] {
            if !(BPS_MIN..=BPS_MAX).contains(&bps) {
                return Err(format!(
                    "{key} is a number of bytes per second from {BPS_MIN:e} to {BPS_MAX:e}, \
                     not {bps:e}"
                ));
            }
        }
        if self.link.copy_latency_ns > LATENCY_NS_MAX {
            return Err(format!(
                "a copy takes at most {LATENCY_NS_MAX} ns beside its bytes, not {}",
                self.link.copy_latency_ns
            ));
        }
        Ok(())
    }
}

/// Why profiles cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The input could not be read.
    #[error("reading the device profiles failed: {0}")]
    Io(#[source] io::Error),
    /// The file is larger than any sensible one.
    #[error("a file with device profiles has at most {max} bytes, this one has more")]
    TooLarge {
        /// Bytes that are accepted.
        max: usize,
    },
    /// The file is not JSON with the wanted keys.
    #[error("not a file with device profiles: {0}")]
    Json(#[from] serde_json::Error),
    /// The file has another version of the format.
    #[error("device profiles have schema {SCHEMA}, this file says {found}")]
    Schema {
        /// What the file says.
        found: u64,
    },
    /// A device is not described well.
    #[error("device \"{name}\": {message}")]
    Device {
        /// Its name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// There is no such device.
    #[error("no device \"{wanted}\"; there are {}", known.join(", "))]
    Unknown {
        /// The device that was asked for.
        wanted: String,
        /// Those that exist.
        known: Vec<String>,
    },
}

/// A set of profiles with different names.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// The profiles that are built in.
    #[must_use]
    pub fn builtin() -> Self {
        Self::from_json(include_bytes!("devices.json")).expect("the tests read the built-in file")
    }

    /// Reads a file of profiles.
    ///
    /// # Errors
    /// If it is no such file, or a value makes no sense; the message names the device and the key.
    pub fn from_json(file: &[u8]) -> Result<Self, ProfileError> {
        if file.len() > FILE_BYTES_MAX {
            return Err(ProfileError::TooLarge {
                max: FILE_BYTES_MAX,
            });
        }
        // The version first: other keys may mean something else in another one.
        let Version { schema } = serde_json::from_slice(file)?;
        if schema != SCHEMA {
            return Err(ProfileError::Schema { found: schema });
        }
        let File { devices } = serde_json::from_slice(file)?;
        let profiles = devices.0.into_iter().map(|(name, device)| {
            let profile = device.into_profile(&name);
            match profile.and_then(|p| p.check().map(|()| p)) {
                Ok(profile) => Ok((name, profile)),
                Err(message) => Err(ProfileError::Device { name, message }),
            }
        });
        Ok(Self {
            profiles: profiles.collect::<Result<_, _>>()?,
        })
    }

    /// Reads profiles from a stream, to its end.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json), and if reading fails. A stream beyond the limit is not
    /// read to its end.
    pub fn read(input: impl Read) -> Result<Self, ProfileError> {
        let mut file = Vec::new();
        let mut bounded = input.take(FILE_BYTES_MAX as u64 + 1);
        bounded.read_to_end(&mut file).map_err(ProfileError::Io)?;
        Self::from_json(&file)
    }

    /// A profile by its name.
    ///
    /// # Errors
    /// If there is none; the message lists those that exist.
    pub fn get(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.profiles
            .get(name)
            .ok_or_else(|| ProfileError::Unknown {
                wanted: name.into(),
                known: self.profiles.keys().cloned().collect(),
            })
    }

    /// All profiles, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }
}

#[derive(Deserialize)]
struct Version {
    schema: u64,
}

#[derive(Deserialize)]
struct File {
    devices: Distinct,
}

/// A device as a file has it, in seconds.
#[derive(Deserialize)]
struct Device {
    class: char,
    spill: SpillTier,
    out_bps: f64,
    in_bps: f64,
    copy_latency_s: f64,
    duplex: bool,
    page_bytes: PageBytes,
}

impl Device {
    fn into_profile(self, name: &str) -> Result<Profile, String> {
        let latency_ns = (self.copy_latency_s * 1e9).round();
        if !(0.0..=LATENCY_NS_MAX as f64).contains(&latency_ns) {
            return Err(format!(
                "copy_latency_s is a number of seconds from 0 to 1, not {}",
                self.copy_latency_s
            ));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let copy_latency_ns = latency_ns as u64;
        Ok(Profile {
            name: name.into(),
            class: self.class,
            spill: self.spill,
            link: Link {
                out_bps: self.out_bps,
                in_bps: self.in_bps,
                copy_latency_ns,
                duplex: self.duplex,
            },
            page_bytes: self.page_bytes,
        })
    }
}

/// A map that refuses a key that it already has, where serde's would keep the last silently.
struct Distinct(BTreeMap<String, Device>);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Distinct;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with a device under each name")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Distinct, A::Error> {
                let mut devices = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if devices.contains_key(&name) {
                        let message = format!("device \"{name}\" is there twice");
                        return Err(serde::de::Error::custom(message));
                    }
                    let device = map.next_value()?;
                    devices.insert(name, device);
                }
                Ok(Distinct(devices))
            }
        }
        json.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"{"schema": 1, "note": "x", "devices": {"d": {"class": "A",
        "spill": "storage", "out_bps": 1.5e9, "in_bps": 2.5e9, "copy_latency_s": 20e-6,
        "duplex": true, "page_bytes": 65536, "extra": [1]}}}"#;

    #[test]
    fn the_built_in_file_is_sound() {
        let profiles = Profiles::builtin();
        let names: Vec<_> = profiles
            .iter()
            .map(|profile| profile.name.as_str())
            .collect();
        assert_eq!(names, ["agx_orin", "orin_nano_8g", "rtx3060"]);
        let nano = profiles.get("orin_nano_8g").expect("built in");
        assert_eq!((nano.class, nano.spill), ('A', SpillTier::Storage));
        assert_eq!((nano.link.out_bps, nano.link.in_bps), (1.5e9, 2.5e9));
        assert_eq!(nano.link.copy_latency_ns, 20_000);
        assert_eq!(nano.page_bytes.get(), 2 << 20);
        let desktop = profiles.get("rtx3060").expect("built in");
        assert_eq!((desktop.class, desktop.spill), ('D', SpillTier::Host));
        assert_eq!(desktop.link.copy_latency_ns, 10_000);
    }

    #[test]
    fn unknown_names_get_the_known_ones() {
        let error = Profiles::builtin()
            .get("tx2")
            .expect_err("not built in")
            .to_string();
        assert_eq!(
            error,
            "no device \"tx2\"; there are agx_orin, orin_nano_8g, rtx3060"
        );
    }

    #[test]
    fn each_fault_is_named() {
        assert!(Profiles::from_json(SOUND.as_bytes()).is_ok());
        for (old, new, wanted) in [
            (
                r#""schema": 1"#,
                r#""schema": 2"#,
                "have schema 1, this file says 2",
            ),
            (r#""schema": 1, "#, "", "missing field `schema`"),
            ("1.5e9", "0", "device \"d\": out_bps is a number"),
            ("1.5e9", "-1e9", "not -1e9"),
            ("2.5e9", "1e300", "in_bps is a number"),
            ("2.5e9", "NaN", "expected value at line 2"),
            (
                "20e-6",
                "-20e-6",
                "copy_latency_s is a number of seconds from 0 to 1, not -0.00002",
            ),
            ("20e-6", "7", "copy_latency_s"),
            ("65536", "65537", "a page is a power of two"),
            ("65536", "-4096", "invalid value"),
            (
                r#""A""#,
                r#""F""#,
                "class is one letter from A to E, not 'F'",
            ),
            (r#""A""#, r#""AB""#, "expected a character"),
            (r#""storage""#, r#""tape""#, "unknown variant `tape`"),
            (r#""duplex": true, "#, "", "missing field `duplex`"),
            (r#""d": {"#, r#""": {"#, "a device name has 1 to"),
            (
                "{\"schema\"",
                "[\"schema\"",
                "not a file with device profiles",
            ),
        ] {
            assert_eq!(SOUND.matches(old).count(), 1, "{old}");
            let file = SOUND.replace(old, new);
            let error = Profiles::from_json(file.as_bytes())
                .expect_err(new)
                .to_string();
            assert!(
                error.contains(wanted),
                "{new}\nwanted: {wanted}\nfound: {error}"
            );
        }
        let device = SOUND.split_once("\"devices\": {").expect("has devices").1;
        let twice = SOUND.replace("}}}", &format!("}}, {device}"));
        let error = Profiles::from_json(twice.as_bytes())
            .expect_err("twice")
            .to_string();
        assert!(error.contains("device \"d\" is there twice"), "{error}");
        let error = Profiles::read(io::repeat(b' '))
            .expect_err("large")
            .to_string();
        assert!(error.contains("at most 1048576 bytes"), "{error}");
    }
}
