//! Program files: a proven plan with the score that it was made for, to be run frozen from the
//! first iteration on.
//!
//! ```text
//! bytes 0..8   magic: not text, and damaged by a copy that changes line ends
//!       8..12  version of the format
//!      12..20  length of the plan file
//!      20..    the plan file, then the score in postcard's encoding
//! ```
//! Numbers are little-endian.
//!
//! Guarantees: a file from outside is checked like a stranger's. The plan has its own digest and
//! limits and is proven again; the score must be sound, name persistent tensors that exist here
//! with the same names, sizes and kinds in the same order, and give exactly the plan's skeleton.
//! *Not here*: which device made it; durations only change how fast it is.

use std::collections::BTreeSet;

use lgm::plan::Plan;
use lgm::plan_file;
use lgm::trace::Phase;
use lgm::verify::VerifiedPlan;
use serde::{Deserialize, Serialize};
use vtensor::{Mode, TensorKind, limits};

use super::program;
use super::registry::Registry;
use super::score::{Event, OpEvent, Score, Spec};
use super::tensor::Key;
use super::transcript::{DEVICE, Transcript};

const MAGIC: [u8; 8] = *b"\x8eVTSC\r\n\x1a";
const VERSION: u32 = 3;
const HEADER_BYTES: usize = 20;
const PHASES: [Phase; 4] = [
    Phase::Load,
    Phase::Forward,
    Phase::Backward,
    Phase::Optimizer,
];

/// A tensor in a file.
#[derive(Serialize, Deserialize)]
struct FileSpec {
    name: String,
    bytes: u64,
    kind: TensorKind,
    scratch: bool,
    fixed: bool,
}

/// Which tensor: a persistent one by its order of creation among those that exist, or one of the
/// iteration by its number.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum FileKey {
    Persistent(u32),
    Transient(u32),
}

#[derive(Serialize, Deserialize)]
enum FileEvent {
    Create(FileSpec),
    Destroy(u32),
    Op {
        name: String,
        phase: u8,
        accesses: Vec<(FileKey, Mode)>,
        replayable: bool,
    },
}

#[derive(Serialize, Deserialize)]
struct FileScore {
    /// The persistent tensors that the ops use, with their order among all.
    persistent: Vec<(u32, FileSpec)>,
    events: Vec<FileEvent>,
}

/// What a file holds, fitted to the tensors that exist here.
pub(super) struct Loaded {
    pub(super) plan: VerifiedPlan,
    pub(super) score: Score,
    pub(super) durations_ns: Vec<u64>,
    /// Ops that may not run again, by number.
    pub(super) once: BTreeSet<usize>,
}

impl From<&Spec> for FileSpec {
    fn from(spec: &Spec) -> Self {
        Self {
            name: spec.name.to_string(),
            bytes: spec.bytes,
            kind: spec.kind,
            scratch: spec.scratch,
            fixed: spec.fixed,
        }
    }
}

impl From<FileSpec> for Spec {
    fn from(spec: FileSpec) -> Self {
        Self {
            name: spec.name.into(),
            bytes: spec.bytes,
            kind: spec.kind,
            scratch: spec.scratch,
            fixed: spec.fixed,
        }
    }
}

/// Writes a program down.
pub(super) fn encode(plan: &Plan, score: &Score, registry: &Registry) -> Vec<u8> {
    let all: Vec<Key> = registry.persistent().collect();
    let order = |key: Key| {
        let at = all.iter().position(|other| *other == key);
        u32::try_from(at.expect("a score's tensors are alive")).expect("rows are u32")
    };
    let file_key = |key: Key| match key.is_transient() {
        true => FileKey::Transient(u32::try_from(key.index()).expect("numbers are u32")),
        false => FileKey::Persistent(order(key)),
    };
    let spec = |key: Key| FileSpec::from(registry.spec(key).expect("it is alive"));
    let persistent = score.persistent().into_iter();
    let events = score.events.iter().map(|event| match event {
        Event::Create(spec) => FileEvent::Create(spec.into()),
        Event::Destroy(key) => {
            FileEvent::Destroy(u32::try_from(key.index()).expect("numbers are u32"))
        }
        Event::Op(op) => FileEvent::Op {
            name: op.name.to_string(),
            phase: phase_number(op.phase),
            accesses: op
                .accesses
                .iter()
                .map(|&(key, mode)| (file_key(key), mode))
                .collect(),
            replayable: op.replayable,
        },
    });
    let score = FileScore {
        persistent: persistent.map(|key| (order(key), spec(key))).collect(),
        events: events.collect(),
    };
    let plan = plan_file::encode(plan);
    let mut file = Vec::with_capacity(HEADER_BYTES + plan.len());
    file.extend_from_slice(&MAGIC);
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&(plan.len() as u64).to_le_bytes());
    file.extend_from_slice(&plan);
    postcard::to_extend(&score, file).expect("a score has only lists of known length")
}

/// The place of a phase in [`PHASES`]; one that is newer than this file counts as forward.
fn phase_number(phase: Phase) -> u8 {
    let at = PHASES.iter().position(|known| *known == phase);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(1)
}

/// Reads a program and fits it to the tensors that exist. The error is a sentence for people.
pub(super) fn decode(
    file: &[u8],
    registry: &Registry,
    left_out: &dyn Fn(Key) -> bool,
) -> Result<Loaded, String> {
    let (plan, score) = split(file)?;
    let plan = plan_file::decode(plan).map_err(|error| error.to_string())?;
    let (score, rest): (FileScore, &[u8]) =
        postcard::take_from_bytes(score).map_err(|error| format!("its score: {error}"))?;
    if !rest.is_empty() {
        return Err(format!("it has {} bytes after its end", rest.len()));
    }
    let score = fit(score, registry)?;
    let planned = program::original(&plan);
    let durations_ns: Vec<u64> = planned.ops.iter().map(|op| op.duration_ns).collect();
    if score.ops().count() != durations_ns.len() {
        return Err("its score and its plan have different ops".into());
    }
    // Ops that were kept from running again, although they are declared so, stay kept from it.
    let once = planned.ops.iter().enumerate();
    let once = once
        .filter(|(_, op)| !op.replayable)
        .map(|(number, _)| number);
    let once = once.collect();
    let transcript = Transcript::new(&score, registry, &durations_ns, left_out, &once);
    let transcript = transcript.map_err(|error| format!("its score: {error}"))?;
    let skeleton = transcript.trace.skeleton(DEVICE);
    if skeleton.map_err(|error| format!("its score: {error}"))? != *planned {
        return Err("its score and its plan describe different iterations".into());
    }
    let plan = VerifiedPlan::new(plan).map_err(|violation| format!("its plan: {violation}"))?;
    Ok(Loaded {
        plan,
        score,
        durations_ns,
        once,
    })
}

/// The plan and the score of a file.
fn split(file: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let found = file.len();
    if !file.starts_with(&MAGIC[..found.min(MAGIC.len())]) || found == 0 {
        return Err("it is no program file".into());
    }
    if found as u64 > limits::PLAN_BYTES_MAX {
        return Err(format!(
            "it has {found} bytes, {} are accepted",
            limits::PLAN_BYTES_MAX
        ));
    }
    let cut = || format!("it is cut off after {found} bytes");
    let header = file.get(..HEADER_BYTES).ok_or_else(cut)?;
    let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
    if version != VERSION {
        return Err(format!(
            "it has format {version}, this version reads {VERSION}"
        ));
    }
    let length = u64::from_le_bytes(header[12..].try_into().expect("eight bytes"));
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(HEADER_BYTES));
    let plan = end
        .and_then(|end| file.get(HEADER_BYTES..end))
        .ok_or_else(cut)?;
    Ok((plan, &file[HEADER_BYTES + plan.len()..]))
}

/// A score of the tensors that exist, checked.
fn fit(file: FileScore, registry: &Registry) -> Result<Score, String> {
    let all: Vec<Key> = registry.persistent().collect();
    let mut known = std::collections::BTreeMap::new();
    for (order, wanted) in file.persistent {
        let key = all.get(order as usize).copied();
        let found = key.and_then(|key| registry.spec(key));
        let wanted = Spec::from(wanted);
        match (key, found) {
            (Some(key), Some(found)) if *found == wanted => known.insert(order, key),
            _ => {
                let found = found.map_or("none".into(), ToString::to_string);
                return Err(format!(
                    "persistent tensor number {order} was {wanted}, here it is {found}; create \
                     the tensors of the recording, in its order, before loading"
                ));
            }
        };
    }
    let mut events = Vec::with_capacity(file.events.len());
    let mut alive: Vec<bool> = Vec::new();
    let transient = |alive: &[bool], number: u32| match alive.get(number as usize) {
        Some(true) => Ok(Key::transient(number)),
        _ => Err(format!(
            "its score uses tensor {number}, which does not exist there"
        )),
    };
    for event in file.events {
        events.push(match event {
            FileEvent::Create(spec) => {
                let fine = spec.bytes > 0
                    && spec.bytes <= limits::TENSOR_BYTES_MAX
                    && alive.len() < limits::TENSORS_MAX;
                if !fine {
                    return Err("its score creates a tensor beyond the limits".into());
                }
                alive.push(true);
                Event::Create(spec.into())
            }
            FileEvent::Destroy(number) => {
                let key = transient(&alive, number)?;
                alive[number as usize] = false;
                Event::Destroy(key)
            }
            FileEvent::Op {
                name,
                phase,
                accesses,
                replayable,
            } => {
                let key = |key: FileKey| match key {
                    FileKey::Transient(number) => transient(&alive, number),
                    FileKey::Persistent(order) => known
                        .get(&order)
                        .copied()
                        .ok_or_else(|| format!("its score uses tensor {order}, not in its list")),
                };
                let accesses = accesses.into_iter().map(|(id, mode)| Ok((key(id)?, mode)));
                let phase = PHASES.get(phase as usize).copied();
                Event::Op(OpEvent {
                    name: name.into(),
                    phase: phase.ok_or("its score has an unknown phase")?,
                    accesses: accesses.collect::<Result<_, String>>()?,
                    replayable,
                })
            }
        });
    }
    if alive.contains(&true) {
        return Err("its score leaves tensors behind".into());
    }
    Ok(Score {
        events,
        kept: Vec::new(),
    })
}
