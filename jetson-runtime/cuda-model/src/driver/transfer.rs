//! Copies and fills.
//!
//! Host memory that the driver does not know (pageable) is staged: a copy to the device reads it
//! when it is enqueued, and may still be on its way when the call returns, even the synchronous
//! one; a copy to the host returns when it is complete.

use super::{Driver, Pending};
use crate::check::{Line, Mode};
use crate::engine::command::Command;
use crate::engine::link::Direction;
use crate::memory::bytes;
use crate::space::{Access, Fault, Kind, Part, Place, Resolved};
use crate::status::Status;

/// One copy between host and device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) what: &'static str,
    pub(crate) device: u64,
    pub(crate) host: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u64,
    /// The call returns when the copy is complete, as far as the driver promises that.
    pub(crate) blocks: bool,
}

impl Driver {
    /// Reports why a range cannot be used, and what the driver answers.
    pub(super) fn fault(&mut self, what: &str, fault: Fault) -> Status {
        let (rule, text) = match fault {
            Fault::Unknown(at) => ("unknown-address", format!("{at:#x}, which is no memory")),
            Fault::Freed(at) => ("use-after-free", format!("{at:#x}, which was freed")),
            Fault::Unmapped(at) => ("unmapped", format!("{at:#x}, where nothing is mapped")),
            Fault::Inaccessible(at) => (
                "inaccessible",
                format!("{at:#x}, to which access was not granted"),
            ),
            Fault::HostOnly(at) => {
                let why = "whose device pointer is another";
                ("host-pointer", format!("{at:#x}, registered memory {why}"))
            }
            Fault::Overflow => (
                "overflow",
                "a range that ends behind the last address".into(),
            ),
        };
        let text = format!("{what} uses {text}");
        self.misuse(rule, Status::INVALID_VALUE, text)
    }

    /// The device's memory at a range.
    pub(super) fn on_device(
        &mut self,
        what: &str,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Resolved, Status> {
        let kind = self.space.around(address).map(|region| region.kind);
        let found = match kind {
            Some(Kind::Registered) if !self.profile.host_pointer_registered => {
                Err(Fault::HostOnly(address))
            }
            _ => self.space.resolve(address, bytes, access),
        };
        found.map_err(|fault| self.fault(what, fault))
    }

    /// The host's memory at a range, if the driver knows it.
    fn on_host(&mut self, transfer: &Transfer) -> Result<Option<Resolved>, Status> {
        let Transfer {
            what, host, bytes, ..
        } = *transfer;
        if host == 0 {
            return Err(Status::INVALID_VALUE);
        }
        match self.space.around(host).map(|region| region.kind) {
            None if self.space.was_freed(host) => Err(self.fault(what, Fault::Freed(host))),
            None => Ok(None),
            Some(Kind::Plain | Kind::Reserved | Kind::RegisteredDevice) => {
                let text = format!("{what} takes {host:#x} for host memory; it is the device's");
                Err(self.misuse("wrong-side", Status::INVALID_VALUE, text))
            }
            Some(_) => {
                let found = self.space.resolve(host, bytes, Access::ReadWrite);
                found.map(Some).map_err(|fault| self.fault(what, fault))
            }
        }
    }

    /// A copy from host to device; what to wait for before the call returns.
    ///
    /// # Safety
    /// Host memory that the driver does not know can be read.
    pub(crate) unsafe fn upload(&mut self, transfer: Transfer) -> Result<Option<Pending>, Status> {
        let Transfer {
            what,
            device,
            bytes,
            stream,
            ..
        } = transfer;
        if bytes == 0 {
            return Ok(None);
        }
        let to = self.on_device(what, device, bytes, Access::ReadWrite)?;
        let mut touches = modes(&to.parts, Mode::Write);
        let Some(from) = self.on_host(&transfer)? else {
            // SAFETY: the caller vouches for the range.
            let bytes = unsafe { staged(transfer) }?;
            let to = to.places;
            self.submit(stream, what, &touches, Command::Upload { bytes, to })?;
            return Ok(None);
        };
        touches.extend(modes(&from.parts, Mode::Read));
        let command = Command::Copy {
            from: from.places,
            to: to.places,
            over: Some(Direction::ToDevice),
        };
        self.submit(stream, what, &touches, command)?;
        self.pending_if(transfer.blocks, stream)
    }

    /// A copy from device to host; what to wait for before the call returns.
    pub(crate) fn download(&mut self, transfer: Transfer) -> Result<Option<Pending>, Status> {
        let Transfer {
            what,
            device,
            bytes,
            stream,
            ..
        } = transfer;
        if bytes == 0 {
            return Ok(None);
        }
        let from = self.on_device(what, device, bytes, Access::Read)?;
        let mut touches = modes(&from.parts, Mode::Read);
        let known = self.on_host(&transfer)?;
        let pageable = known.is_none();
        let to = match known {
            Some(to) => {
                touches.extend(modes(&to.parts, Mode::Write));
                to.places
            }
            None => vec![pageable_place(transfer)?],
        };
        let command = Command::Copy {
            from: from.places,
            to,
            over: Some(Direction::ToHost),
        };
        self.submit(stream, what, &touches, command)?;
        self.pending_if(transfer.blocks || pageable, stream)
    }

    fn pending_if(&mut self, wanted: bool, stream: u64) -> Result<Option<Pending>, Status> {
        let key = self.lane_key(stream)?;
        Ok(wanted.then(|| self.lane_pending(&[key])))
    }

    /// `cuMemcpyDtoDAsync`.
    pub(crate) fn copy_within(
        &mut self,
        to: u64,
        from: u64,
        bytes: u64,
        stream: u64,
    ) -> Result<(), Status> {
        let what = "cuMemcpyDtoDAsync_v2";
        let to = self.on_device(what, to, bytes, Access::ReadWrite)?;
        let from = self.on_device(what, from, bytes, Access::Read)?;
        let mut touches = modes(&from.parts, Mode::Read);
        touches.extend(modes(&to.parts, Mode::Write));
        let command = Command::Copy {
            from: from.places,
            to: to.places,
            over: None,
        };
        self.submit(stream, what, &touches, command)
    }

    /// `cuMemsetD8Async`.
    pub(crate) fn set(
        &mut self,
        to: u64,
        value: u8,
        bytes: u64,
        stream: u64,
    ) -> Result<(), Status> {
        let what = "cuMemsetD8Async";
        let to = self.on_device(what, to, bytes, Access::ReadWrite)?;
        let touches = modes(&to.parts, Mode::Write);
        self.compute_touches(&touches);
        let to = to.places;
        self.submit(stream, what, &touches, Command::Set { to, value })
    }

    /// A kernel touches bytes, which brings managed ones to the device.
    pub(super) fn compute_touches(&mut self, touches: &[(Part, Mode)]) {
        for (part, _) in touches {
            self.residency.touch(part.allocation, &part.range);
        }
    }

    /// Work of a line that touches bytes now.
    pub(super) fn touch(&mut self, line: Line, what: &'static str, touches: &[(Part, Mode)]) {
        let mark = self.order.work(line, what);
        for (part, mode) in touches {
            let range = part.range.clone();
            for conflict in self.order.touch(mark, part.allocation, range, *mode) {
                self.report_conflict(line, what, part, *mode, &conflict);
            }
        }
    }
}

/// Parts, all touched in one way.
pub(super) fn modes(parts: &[Part], mode: Mode) -> Vec<(Part, Mode)> {
    parts.iter().map(|part| (part.clone(), mode)).collect()
}

fn pageable_place(transfer: Transfer) -> Result<Place, Status> {
    let size = |n: u64| usize::try_from(n).map_err(|_| Status::INVALID_VALUE);
    let (at, bytes) = (size(transfer.host)?, size(transfer.bytes)?);
    at.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
    Ok(Place { at, bytes })
}

/// The bytes of a pageable source, as they are now.
///
/// # Safety
/// They can be read.
unsafe fn staged(transfer: Transfer) -> Result<Vec<u8>, Status> {
    let place = pageable_place(transfer)?;
    let mut staged = vec![0_u8; place.bytes];
    let to = staged.as_mut_ptr().expose_provenance();
    // SAFETY: the caller vouches for the source; the target has its size.
    unsafe { bytes::copy(to, place.at, place.bytes) };
    Ok(staged)
}
