//! What is chosen for a machine, and why.
//!
//! In: a probe, and what the user insists on. Out: a [`Decision`] with its reasons, or a refusal:
//! what cannot work is not done by force. A pure function.

use serde::{Deserialize, Serialize};
use vtensor::Bytes;

use super::{L4tRelease, Probe};
use crate::cuda::error::CudaError;
use crate::cuda::mechanism::Mechanism;

/// Left to the system and to other programs on a device that shares the host's memory.
const SHARED_RESERVE_MIN: u64 = 512 << 20;
/// Left on a device with memory of its own.
const OWN_RESERVE_MIN: u64 = 256 << 20;
/// What GPUs can have together under the release with the regression, as seen on 8 GB boards.
const REGRESSION_CAP: u64 = 3_932 << 20;
/// A prefetch must be faster than a copy by this, for its budget is not hard.
const PREFETCH_ADVANTAGE: f64 = 1.1;

/// Where pieces go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpillPlace {
    /// Pinned memory of the host.
    Host,
    /// A file.
    Storage,
}

/// What the user insists on; `None` leaves it to the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Where tensors lie, and how copies are made.
    pub mechanism: Option<Mechanism>,
    /// Where pieces go.
    pub spill: Option<SpillPlace>,
    /// The budget.
    pub budget: Option<Bytes>,
}

/// What is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The mechanism's name.
    pub mechanism: String,
    /// Whether copies are prefetches.
    pub prefetch: bool,
    /// Where pieces go.
    pub spill: SpillPlace,
    /// Whether outs and ins have a stream each.
    pub duplex: bool,
    /// What the device can be given, in bytes.
    pub budget_bytes: u64,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
    /// What the user should know, a sentence each.
    pub warnings: Vec<String>,
}

impl Decision {
    /// Decides.
    ///
    /// # Errors
    /// If something that was insisted on cannot work.
    pub fn of(probe: &Probe, choices: &Choices) -> Result<Self, CudaError> {
        let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
        let mechanism = mechanism(probe, choices.mechanism, &mut reasons)?;
        let spill = spill(probe, choices.spill, &mut reasons, &mut warnings);
        let duplex = probe.copy_engines >= 2;
        reasons.push(match probe.copy_engines {
            0 | 1 => "one stream takes both directions: the device has one copy engine".into(),
            engines => format!("a stream for each direction: {engines} copy engines"),
        });
        let room = room(probe, &mut reasons, &mut warnings);
        let budget = match choices.budget {
            Some(budget) if budget.0 > room => {
                return Err(CudaError::Refused {
                    choice: "the budget",
                    reason: format!("{budget} was asked for, {} can be given", Bytes(room)),
                });
            }
            Some(budget) => budget.0,
            None => room,
        };
        Ok(Self {
            mechanism: mechanism.name().into(),
            prefetch: mechanism == Mechanism::Managed,
            spill,
            duplex,
            budget_bytes: budget,
            reasons,
            warnings,
        })
    }
}

/// Whether a mechanism works, by its trial.
fn check(probe: &Probe, mechanism: Mechanism) -> Result<(), CudaError> {
    let trial = match mechanism {
        Mechanism::Mapped => "aliased windows",
        Mechanism::Packed => "one allocation",
        Mechanism::Managed => "prefetch",
    };
    match probe.works(trial) {
        true => Ok(()),
        false => Err(CudaError::Refused {
            choice: mechanism.name(),
            reason: format!("the trial of {trial} failed: {}", probe.why_not(trial)),
        }),
    }
}

fn mechanism(
    probe: &Probe,
    wanted: Option<Mechanism>,
    reasons: &mut Vec<String>,
) -> Result<Mechanism, CudaError> {
    if let Some(wanted) = wanted {
        check(probe, wanted)?;
        reasons.push(format!("{wanted}, as was asked for"));
        return Ok(wanted);
    }
    if let Some(link) = &probe.link
        && let Some([out, r#in]) = link.prefetch_bps
        && ['C', 'D'].contains(&probe.class)
        && out.min(r#in) > PREFETCH_ADVANTAGE * link.out_bps.min(link.in_bps)
    {
        reasons.push(format!(
            "managed: prefetches move {:.1} GB/s, copies {:.1} GB/s",
            out.min(r#in) * 1e-9,
            link.out_bps.min(link.in_bps) * 1e-9
        ));
        return Ok(Mechanism::Managed);
    }
    if check(probe, Mechanism::Mapped).is_ok() {
        reasons.push(format!(
            "mapped: pages show in several windows ({})",
            probe.why_not("aliased windows")
        ));
        return Ok(Mechanism::Mapped);
    }
    check(probe, Mechanism::Packed)?;
    reasons.push(format!(
        "packed: pages cannot be mapped ({})",
        probe.why_not("aliased windows")
    ));
    Ok(Mechanism::Packed)
}

fn spill(
    probe: &Probe,
    wanted: Option<SpillPlace>,
    reasons: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> SpillPlace {
    let one_memory = ['A', 'B'].contains(&probe.class);
    let chosen = match (one_memory, wanted) {
        (_, Some(wanted)) => wanted,
        (true, None) => SpillPlace::Storage,
        (false, None) => SpillPlace::Host,
    };
    reasons.push(match (one_memory, chosen) {
        (true, SpillPlace::Storage) => {
            "spill to storage: the host's memory is the device's own, moving there frees none"
                .into()
        }
        (true, SpillPlace::Host) => "spill to the host, as was asked for".into(),
        (false, SpillPlace::Host) => "spill to pinned memory of the host".into(),
        (false, SpillPlace::Storage) => "spill to storage, as was asked for".into(),
    });
    if one_memory && chosen == SpillPlace::Host {
        warnings.push("spilling to the host frees nothing here: it is the same memory".into());
    }
    if chosen == SpillPlace::Storage {
        warnings.push("programs on a GPU cannot spill to storage yet".into());
    }
    chosen
}

/// What the device can be given.
fn room(probe: &Probe, reasons: &mut Vec<String>, warnings: &mut Vec<String>) -> u64 {
    let one_memory = ['A', 'B'].contains(&probe.class);
    let system = &probe.system;
    let (counted, what, reserve) = match system.available_bytes {
        Some(available) if one_memory => {
            let reserve = (probe.memory_bytes / 10).max(SHARED_RESERVE_MIN);
            (
                available,
                "available to applications (swap not counted)",
                reserve,
            )
        }
        _ => {
            let reserve = (probe.memory_bytes / 20).max(OWN_RESERVE_MIN);
            (probe.free_bytes, "free by the driver's count", reserve)
        }
    };
    let mut room = counted.min(probe.memory_bytes).saturating_sub(reserve);
    reasons.push(format!(
        "a budget of up to {}: {} {what}, less {}",
        Bytes(room),
        Bytes(counted),
        Bytes(reserve)
    ));
    if one_memory && system.zram {
        warnings.push(
            "there is swap in zram, which is the same memory: tensors are never swapped, and \
             filling it takes from them"
                .into(),
        );
    }
    if system.l4t == Some(L4tRelease::REGRESSION) {
        let cap = REGRESSION_CAP.saturating_sub(system.nvmap_bytes.unwrap_or(0));
        room = room.min(cap);
        warnings.push(format!(
            "L4T {} fails to allocate GPU memory far below what is free; the budget is held to \
             {}; update to 36.5 or later",
            L4tRelease::REGRESSION,
            Bytes(room)
        ));
    }
    room
}
