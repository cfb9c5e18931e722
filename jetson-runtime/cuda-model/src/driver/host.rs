//! Pinned and registered memory of the host, and what the host says it touches.

use super::Driver;
use super::allocation::Block;
use super::streams::name_of;
use super::transfer::modes;
use crate::check::{Line, Mode};
use crate::memory::span::Span;
use crate::space::{Access, Kind, Region};
use crate::status::Status;

/// Flags of `cuMemHostAlloc`: portable, mapped, write-combined.
const ALLOC_FLAGS: u32 = 7;
/// Flags of `cuMemHostRegister`: portable, mapped, I/O memory, read-only.
const REGISTER_FLAGS: u32 = 15;

/// An access by the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touching {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) write: bool,
}

impl Driver {
    /// `cuMemHostAlloc`. On an integrated device it takes of the one memory.
    pub(crate) fn allocate_host(&mut self, bytes: u64, flags: u32) -> Result<u64, Status> {
        if flags > ALLOC_FLAGS {
            return Err(Status::INVALID_VALUE);
        }
        self.new_block(Kind::Pinned, bytes, self.profile.integrated)
    }

    /// `cuMemFreeHost`.
    pub(crate) fn free_host(&mut self, address: u64) -> Result<(), Status> {
        self.free_block(address, &[Kind::Pinned])
    }

    /// `cuMemHostRegister`. The memory stays the application's.
    pub(crate) fn register(&mut self, address: u64, bytes: u64, flags: u32) -> Result<(), Status> {
        if !self.profile.host_register {
            return Err(Status::NOT_SUPPORTED);
        }
        let end = address.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
        if address == 0 || bytes == 0 || flags > REGISTER_FLAGS {
            return Err(Status::INVALID_VALUE);
        }
        if let Some(region) = self.space.overlapping(address, end) {
            let text = format!(
                "{address:#x}+{bytes} overlaps {:?} memory at {:#x}",
                region.kind, region.start
            );
            return Err(self.misuse("double-register", Status::ALREADY_REGISTERED, text));
        }
        let at = usize::try_from(address).map_err(|_| Status::INVALID_VALUE)?;
        let size = usize::try_from(bytes).map_err(|_| Status::INVALID_VALUE)?;
        let device = match self.profile.host_pointer_registered {
            true => None,
            false => Some(Span::reserve(size, 1, 0).map_err(|_| Status::OUT_OF_MEMORY)?),
        };
        let id = self.new_allocation();
        let kind = Kind::Registered;
        self.space.add(Region::whole(kind, address, at, bytes, id));
        let alias = device.as_ref().map(|span| span.start() as u64);
        if let Some(alias) = alias {
            let kind = Kind::RegisteredDevice;
            self.space.add(Region::whole(kind, alias, at, bytes, id));
        }
        let block = Block {
            id,
            kind,
            bytes,
            counted: 0,
            extent: None,
            addresses: device,
            shown: None,
            device: alias,
        };
        self.blocks.insert(address, block);
        Ok(())
    }

    /// `cuMemHostUnregister`.
    pub(crate) fn unregister(&mut self, address: u64) -> Result<(), Status> {
        let registered = |block: &Block| block.kind == Kind::Registered;
        if !self.blocks.get(&address).is_some_and(registered) {
            let text = format!("{address:#x} is not where registered memory begins");
            return Err(self.misuse("bad-free", Status::NOT_REGISTERED, text));
        }
        self.free_block(address, &[Kind::Registered])
    }

    /// `cuMemHostGetDevicePointer`.
    pub(crate) fn device_pointer(&mut self, address: u64) -> Result<u64, Status> {
        let region = self.space.around(address);
        let region = region.filter(|region| {
            matches!(region.kind, Kind::Pinned | Kind::Registered | Kind::Managed)
        });
        let Some(start) = region.map(|region| region.start) else {
            let text = format!("{address:#x} is no pinned or registered memory");
            return Err(self.misuse("bad-pointer", Status::INVALID_VALUE, text));
        };
        let device = self.blocks.get(&start).and_then(|block| block.device);
        Ok(device.unwrap_or(start) + (address - start))
    }

    /// The host touches memory that the driver knows; reports what that conflicts with.
    pub(crate) fn host_touch(&mut self, touching: Touching) -> Result<(), Status> {
        let Touching {
            address,
            bytes,
            write,
        } = touching;
        let region = self.space.around(address);
        let Some(kind) = region.map(|region| region.kind) else {
            return match self.space.was_freed(address) {
                true => {
                    let text = format!("the host touches {address:#x}, which was freed");
                    Err(self.misuse("use-after-free", Status::INVALID_VALUE, text))
                }
                // Memory of the host that the device does not know of.
                false => Ok(()),
            };
        };
        if !kind.on_host() {
            let text = format!("the host touches {address:#x}, which is {kind:?} memory");
            return Err(self.misuse("host-touch-of-device", Status::INVALID_VALUE, text));
        }
        let resolved = self.space.resolve(address, bytes, Access::ReadWrite);
        let parts = resolved
            .map_err(|fault| self.fault("the host", fault))?
            .parts;
        if kind == Kind::Managed && !self.profile.concurrent_managed {
            self.check_idle(address);
        }
        let mode = if write { Mode::Write } else { Mode::Read };
        for part in &parts {
            self.residency.leave(part.allocation, &part.range);
        }
        let touches = modes(&parts, mode);
        self.touch(Line::HOST, "the host's access", &touches);
        Ok(())
    }

    /// Reports a touch of managed memory while a device that cannot share it is busy.
    fn check_idle(&mut self, address: u64) {
        if let Some(line) = self.order.busy() {
            let text = format!(
                "the host touches managed memory at {address:#x} while {} may be at work, on a \
                 device without concurrent access",
                name_of(line)
            );
            self.reports.add("managed-while-busy", text);
        }
    }
}
