//! What is chosen for a machine, and why.
//!
//! In: a probe, the room at this moment, and what the user insists on. Out: a [`Decision`] with
//! its reasons, or a refusal: what cannot work is not done by force. A pure function.

use serde::Serialize;
use vtensor::Bytes;

use super::{Probe, Room};
use crate::cuda::class::Class;
use crate::cuda::error::CudaError;
use crate::cuda::mechanism::Mechanism;

/// A prefetch must be faster than a copy by this, for its budget is not hard.
const PREFETCH_ADVANTAGE: f64 = 1.1;
/// One that is faster by more has moved nothing: both go over the same link.
const PREFETCH_BELIEVED: f64 = 8.0;

/// Where pieces go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Where tensors lie, and how copies are made.
    pub mechanism: Mechanism,
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
    /// If something that was insisted on cannot work, or nothing can.
    pub fn of(probe: &Probe, room: &Room, choices: &Choices) -> Result<Self, CudaError> {
        const ORDER: &str = "order of streams";
        if !probe.works(ORDER) {
            return Err(CudaError::Refused {
                choice: "this GPU",
                reason: format!("the trial of {ORDER} failed: {}", probe.why_not(ORDER)),
            });
        }
        let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
        let mechanism = mechanism(probe, choices.mechanism, &mut reasons)?;
        let spill = spill(probe, choices.spill, mechanism, &mut reasons, &mut warnings)?;
        let duplex = probe.copy_engines >= 2;
        reasons.push(match probe.copy_engines {
            0 | 1 => "one stream takes both directions: the device has one copy engine".into(),
            engines => format!("a stream for each direction: {engines} copy engines"),
        });
        let room = room.given(probe, &mut reasons, &mut warnings);
        let budget_bytes = match choices.budget {
            Some(budget) => {
                afford(room, budget)?;
                budget.0
            }
            None => room,
        };
        Ok(Self {
            mechanism,
            prefetch: mechanism == Mechanism::Managed,
            spill,
            duplex,
            budget_bytes,
            reasons,
            warnings,
        })
    }

    /// Refuses what is more than the device can be given.
    ///
    /// # Errors
    /// If `bytes` are more than the budget.
    pub fn afford(&self, bytes: Bytes) -> Result<(), CudaError> {
        afford(self.budget_bytes, bytes)
    }
}

fn afford(room: u64, wanted: Bytes) -> Result<(), CudaError> {
    match wanted.0 <= room {
        true => Ok(()),
        false => Err(CudaError::Refused {
            choice: "the budget",
            reason: format!("{wanted} are wanted, {} can be given", Bytes(room)),
        }),
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
        && matches!(probe.class, Class::C | Class::D)
        && (PREFETCH_ADVANTAGE..PREFETCH_BELIEVED)
            .contains(&(out.min(r#in) / link.out_bps.min(link.in_bps)))
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
    mechanism: Mechanism,
    reasons: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<SpillPlace, CudaError> {
    if wanted == Some(SpillPlace::Storage) && mechanism == Mechanism::Managed {
        return Err(CudaError::Refused {
            choice: "storage",
            reason: "with `managed` the driver moves pages, between memories only".into(),
        });
    }
    let one_memory = probe.class.one_memory();
    let (chosen, reason) = match (one_memory, wanted) {
        (_, Some(SpillPlace::Host)) => (SpillPlace::Host, "spill to the host, as was asked for"),
        (_, Some(SpillPlace::Storage)) => {
            (SpillPlace::Storage, "spill to storage, as was asked for")
        }
        (true, None) => (
            SpillPlace::Storage,
            "spill to storage: the host's memory is the device's own, moving there frees none",
        ),
        (false, None) => (SpillPlace::Host, "spill to pinned memory of the host"),
    };
    reasons.push(reason.into());
    if one_memory && chosen == SpillPlace::Host {
        warnings.push("spilling to the host frees nothing here: it is the same memory".into());
    }
    Ok(chosen)
}
