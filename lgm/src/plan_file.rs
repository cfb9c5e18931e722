//! Plan files: a [`Plan`] as bytes, for storage and for verification alone.
//!
//! ```text
//! bytes  0..8    magic: not text, and damaged by a copy that changes line ends
//!        8..12   version of the format
//!       12..20   length of the payload in bytes
//!       20..52   SHA-256 of version, length and payload
//!       52..     payload: the plan in postcard's encoding
//! ```
//! Numbers are little-endian.
//!
//! Guarantees: equal plans give equal files. Reading costs memory in proportion to the file, never
//! more than [`limits`] allow: tables are held to their limits while they are read. A file that was
//! cut, extended or changed in any bit is refused.
//!
//! Limits: [`limits::PLAN_BYTES_MAX`] bytes.
//!
//! *Not here*: whether the program is right, which only `verify` says. A plan that was read here
//! has a sound skeleton and profile, and tables and amounts inside the limits; its indices may
//! still point anywhere.

use std::io::{self, Read};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use vtensor::{Bytes, limits};

use crate::foreign::{HEAD_BYTES, PLAN_MAGIC, looks_like};
use crate::plan::Plan;

/// The version of the format. Any change of a type inside [`Plan`] is a new one.
pub const VERSION: u32 = 4;

const HEADER_BYTES: usize = 52;

/// Why a file cannot be used as a plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// The input could not be read.
    #[error("reading the plan failed: {0}")]
    Io(#[source] io::Error),
    /// The file is something else.
    #[error("not a plan file: found {found}")]
    Foreign {
        /// What it looks like.
        found: &'static str,
    },
    /// The file comes from another version.
    #[error(
        "the plan file has format {found}, this version reads format {VERSION}: plan again, or \
         use the version that wrote it"
    )]
    Version {
        /// The version of its format.
        found: u32,
    },
    /// The file is larger than any that is accepted.
    #[error(
        "a plan file has at most {max} bytes, this one has or claims {found}",
        max = limits::PLAN_BYTES_MAX
    )]
    TooLarge {
        /// Its bytes.
        found: u64,
    },
    /// The file ends too early.
    #[error("the plan file is cut off: it has {found} of {wanted} bytes")]
    Truncated {
        /// Bytes that are there.
        found: u64,
        /// Bytes that it says it has, or at least those of a header.
        wanted: u64,
    },
    /// The file goes on after its end.
    #[error("the plan file has {extra} bytes after its end")]
    Trailing {
        /// How many.
        extra: u64,
    },
    /// The file was changed since it was written.
    #[error("the plan file is damaged: its content does not have the digest that it states")]
    Digest,
    /// The content is whole but not a plan. A writer of another kind made it.
    #[error("the plan file is malformed at byte {position}: {message}")]
    Malformed {
        /// Bytes from the start of the file.
        position: u64,
        /// What is wrong there.
        message: String,
    },
    /// The plan breaks a limit, or contradicts itself.
    #[error("the plan is refused: {0}")]
    Refused(String),
}

/// A plan as a file. A plan beyond [`limits::PLAN_BYTES_MAX`] is encoded too; reading refuses it.
#[must_use]
pub fn encode(plan: &Plan) -> Vec<u8> {
    let header = vec![0; HEADER_BYTES];
    let mut file =
        postcard::to_extend(plan, header).expect("a plan has only lists of known length");
    let length = (file.len() - HEADER_BYTES) as u64;
    file[..8].copy_from_slice(&PLAN_MAGIC);
    file[8..12].copy_from_slice(&VERSION.to_le_bytes());
    file[12..20].copy_from_slice(&length.to_le_bytes());
    let digest = digest(&file);
    file[20..HEADER_BYTES].copy_from_slice(&digest);
    file
}

/// The SHA-256 that a plan's file states: equal plans, and no others, have the same.
#[must_use]
pub fn digest_of(plan: &Plan) -> [u8; 32] {
    digest(&encode(plan))
}

/// Reads a plan from a file's bytes.
///
/// # Errors
/// If the file is no plan, is damaged, or has values beyond the limits.
pub fn decode(file: &[u8]) -> Result<Plan, PlanFileError> {
    let payload = unwrap(file)?;
    let mut input = postcard::Deserializer::from_bytes(payload);
    let plan = Plan::deserialize(&mut input);
    let left = input.finalize().map_or(0, <[u8]>::len);
    let position = (file.len() - left) as u64;
    let malformed = |message: &str| PlanFileError::Malformed {
        position,
        message: message.into(),
    };
    let plan = plan.map_err(|error| match error {
        // The encoding carries no message of ours.
        postcard::Error::SerdeDeCustom => {
            malformed("a value is outside its range, or a table is longer than its limit")
        }
        error => malformed(&error.to_string()),
    })?;
    if left > 0 {
        return Err(malformed("the plan ends before its payload does"));
    }
    check(&plan).map_err(PlanFileError::Refused)?;
    Ok(plan)
}

/// Reads a plan from a stream, to its end.
///
/// # Errors
/// As [`decode`], and if reading fails. A stream beyond the limit is not read to its end.
pub fn read(input: impl Read) -> Result<Plan, PlanFileError> {
    let mut file = Vec::new();
    let mut bounded = input.take(limits::PLAN_BYTES_MAX + 1);
    bounded.read_to_end(&mut file).map_err(PlanFileError::Io)?;
    decode(&file)
}

/// Checks everything around the payload and returns it.
fn unwrap(file: &[u8]) -> Result<&[u8], PlanFileError> {
    let found = file.len() as u64;
    if file.is_empty() || !file.starts_with(&PLAN_MAGIC[..file.len().min(PLAN_MAGIC.len())]) {
        return Err(PlanFileError::Foreign {
            found: looks_like(&file[..file.len().min(HEAD_BYTES)]),
        });
    }
    if found > limits::PLAN_BYTES_MAX {
        return Err(PlanFileError::TooLarge { found });
    }
    // Another version may have another header: it comes before everything else.
    if let Some(version) = file.get(8..12) {
        let version = u32::from_le_bytes(version.try_into().expect("four bytes"));
        if version != VERSION {
            return Err(PlanFileError::Version { found: version });
        }
    }
    let Some(payload) = file.get(HEADER_BYTES..) else {
        let wanted = HEADER_BYTES as u64;
        return Err(PlanFileError::Truncated { found, wanted });
    };
    let length = u64::from_le_bytes(file[12..20].try_into().expect("eight bytes"));
    let wanted = length.saturating_add(HEADER_BYTES as u64);
    if wanted > limits::PLAN_BYTES_MAX {
        return Err(PlanFileError::TooLarge { found: wanted });
    }
    if found < wanted {
        return Err(PlanFileError::Truncated { found, wanted });
    }
    if found > wanted {
        let extra = found - wanted;
        return Err(PlanFileError::Trailing { extra });
    }
    if digest(file) == file[20..HEADER_BYTES] {
        Ok(payload)
    } else {
        Err(PlanFileError::Digest)
    }
}

fn digest(file: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(&file[8..20]);
    hash.update(&file[HEADER_BYTES..]);
    hash.finalize().into()
}

/// Checks amounts that no table limit covers, so that sums over the plan cannot overflow.
fn check(plan: &Plan) -> Result<(), String> {
    plan.skeleton.check()?;
    if let Some(replays) = &plan.replays {
        let wrong = |message| format!("of the application's iteration: {message}");
        replays.original.check().map_err(wrong)?;
    }
    plan.profile.check()?;
    let origin = &plan.origin;
    for name in [&origin.planner, &origin.model, &origin.policy] {
        if name.len() > limits::NAME_BYTES_MAX {
            return Err(format!("a name has {} bytes", name.len()));
        }
    }
    for (what, bytes) in [
        ("the budget", origin.budget),
        ("the peak", origin.peak),
        ("the largest op", origin.largest_op),
        ("the spill tier", plan.program.spill_bytes),
    ] {
        if bytes.0 > limits::TOTAL_BYTES_MAX {
            return Err(format!("{what} has {bytes}"));
        }
    }
    if u64::from(plan.program.arena_pages) > limits::PAGES_MAX {
        return Err(format!("the arena has {} pages", plan.program.arena_pages));
    }
    check_moved(plan.program.outs.iter().map(|out| out.bytes))?;
    check_moved(plan.program.ins.iter().map(|i| i.bytes))
}

fn check_moved(mut copies: impl Iterator<Item = Bytes>) -> Result<(), String> {
    match copies.try_fold(Bytes(0), Bytes::checked_add) {
        Some(sum) if sum.0 <= limits::TOTAL_BYTES_MAX => Ok(()),
        _ => Err(format!(
            "one iteration moves more than {} in one direction",
            Bytes(limits::TOTAL_BYTES_MAX)
        )),
    }
}
