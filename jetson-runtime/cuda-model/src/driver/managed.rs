//! Managed memory: prefetch, advice, discard.
//!
//! A prefetch moves pages and changes no byte: it is ordered in its stream, takes the link's time
//! for what it moves, and conflicts with nothing. A discard gives content up.

use super::Driver;
use super::transfer::modes;
use crate::check::Mode;
use crate::engine::command::Command;
use crate::engine::link::Direction;
use crate::space::{Access, Kind, Resolved};
use crate::status::Status;

/// The advice with the highest number that is modelled.
const ADVICE_MAX: i32 = 6;
/// Kinds of `CUmemLocation`: a device, and three of the host's nodes.
const LOCATION_DEVICE: i32 = 1;
const LOCATION_HOST: std::ops::RangeInclusive<i32> = 2..=4;

/// Where managed memory should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Location {
    Host,
    Device(i32),
}

impl Location {
    /// From the ordinal of the older calls; -1 is the host.
    pub(crate) const fn of_ordinal(device: i32) -> Self {
        match device {
            -1 => Self::Host,
            device => Self::Device(device),
        }
    }

    /// From a `CUmemLocation`.
    pub(crate) fn of_kind(kind: i32, id: i32) -> Result<Self, Status> {
        match kind {
            LOCATION_DEVICE => Ok(Self::Device(id)),
            kind if LOCATION_HOST.contains(&kind) => Ok(Self::Host),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

impl Driver {
    /// `cuMemPrefetchAsync`.
    pub(crate) fn prefetch(
        &mut self,
        address: u64,
        bytes: u64,
        location: Location,
        stream: u64,
    ) -> Result<(), Status> {
        let over = self.placed(location)?;
        let what = "cuMemPrefetchAsync";
        let resolved = self.managed_range(what, address, bytes)?;
        let mut bytes = 0;
        for part in &resolved.parts {
            bytes += match over {
                Direction::ToDevice => self.residency.prefetch(part.allocation, &part.range),
                Direction::ToHost => self.residency.leave(part.allocation, &part.range),
            };
        }
        self.submit(stream, what, &[], Command::Migrate { bytes, over })
    }

    /// `cuMemAdvise`.
    pub(crate) fn advise(
        &mut self,
        address: u64,
        bytes: u64,
        advice: i32,
        location: Location,
    ) -> Result<(), Status> {
        if !(1..=ADVICE_MAX).contains(&advice) {
            return Err(Status::INVALID_VALUE);
        }
        self.placed(location)?;
        self.managed_range("cuMemAdvise", address, bytes)?;
        Ok(())
    }

    /// `cuMemDiscardBatchAsync`.
    pub(crate) fn discard(&mut self, ranges: &[(u64, u64)], stream: u64) -> Result<(), Status> {
        if !self.profile.concurrent_managed {
            return Err(Status::NOT_SUPPORTED);
        }
        let what = "cuMemDiscardBatchAsync";
        let mut touches = Vec::new();
        for (address, bytes) in ranges {
            let resolved = self.managed_range(what, *address, *bytes)?;
            for part in &resolved.parts {
                self.residency.leave(part.allocation, &part.range);
            }
            touches.extend(modes(&resolved.parts, Mode::Discard));
        }
        let nothing = Command::Set {
            to: Vec::new(),
            value: 0,
        };
        self.submit(stream, what, &touches, nothing)
    }

    /// The way to a location, if the device can be told where managed memory should be.
    fn placed(&mut self, location: Location) -> Result<Direction, Status> {
        if !self.profile.concurrent_managed {
            return Err(Status::INVALID_DEVICE);
        }
        match location {
            Location::Host => Ok(Direction::ToHost),
            Location::Device(ordinal) => {
                self.device(ordinal)?;
                Ok(Direction::ToDevice)
            }
        }
    }

    fn managed_range(&mut self, what: &str, address: u64, bytes: u64) -> Result<Resolved, Status> {
        let kind = self.space.around(address).map(|region| region.kind);
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        if kind.is_some_and(|kind| kind != Kind::Managed) {
            let text = format!("{what} of {address:#x}, which is not managed memory");
            return Err(self.misuse("not-managed", Status::INVALID_VALUE, text));
        }
        self.on_device(what, address, bytes, Access::ReadWrite)
    }
}
