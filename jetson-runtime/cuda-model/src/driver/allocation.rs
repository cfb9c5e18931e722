//! Device and managed memory.

use nix::errno::Errno;

use super::Driver;
use super::streams::name_of;
use crate::memory::physical::Extent;
use crate::memory::span::Span;
use crate::space::{AllocationId, Kind, Region};
use crate::status::Status;

/// Device allocations begin at multiples of this, as documented for `cuMemAlloc` in practice.
const ALIGN: usize = 1 << 16;

/// What is behind a region that is one allocation.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: AllocationId,
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    /// What it takes of the device's memory.
    pub(super) counted: u64,
    pub(super) extent: Option<Extent>,
    /// The addresses that the program knows, where the model made them.
    pub(super) addresses: Option<Span>,
    /// Where the bytes are shown, if not at those.
    pub(super) shown: Option<Span>,
    /// The device's addresses of registered memory.
    pub(super) device: Option<u64>,
}

impl Driver {
    /// Takes device memory.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Status> {
        if bytes > self.capacity.saturating_sub(self.used) {
            return Err(Status::OUT_OF_MEMORY);
        }
        self.used += bytes;
        Ok(())
    }

    /// Gives device memory back.
    pub(super) fn give(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// `cuMemGetInfo`: free and total bytes.
    pub(crate) fn memory_info(&self) -> (u64, u64) {
        (self.capacity.saturating_sub(self.used), self.capacity)
    }

    /// `cuMemAlloc`.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, Status> {
        self.new_block(Kind::Plain, bytes, true)
    }

    /// `cuMemAllocManaged`. Where the driver cannot page, it takes device memory at once.
    pub(crate) fn allocate_managed(&mut self, bytes: u64, flags: u32) -> Result<u64, Status> {
        if !matches!(flags, 1 | 2) {
            return Err(Status::INVALID_VALUE);
        }
        let counted = !self.profile.concurrent_managed;
        self.new_block(Kind::Managed, bytes, counted)
    }

    /// An allocation of the device, or of the host through the driver.
    pub(super) fn new_block(
        &mut self,
        kind: Kind,
        bytes: u64,
        counted: bool,
    ) -> Result<u64, Status> {
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let counted = if counted { bytes } else { 0 };
        self.take(counted)?;
        let made = self.make_block(kind, bytes, counted);
        if made.is_err() {
            self.give(counted);
        }
        made.map_err(|_| Status::OUT_OF_MEMORY)
    }

    fn make_block(&mut self, kind: Kind, bytes: u64, counted: u64) -> Result<u64, Errno> {
        let extent = self.physical.allocate(bytes)?;
        let size = usize::try_from(extent.bytes).map_err(|_| Errno::ENOMEM)?;
        let addresses = Span::reserve(size, ALIGN, 0)?;
        // Device memory is shown where the program does not look.
        let shown = match kind.on_host() {
            true => None,
            false => Some(Span::reserve(size, ALIGN, 0)?),
        };
        let place = shown.as_ref().unwrap_or(&addresses);
        place.show(0, size, self.physical.file(), extent.offset)?;
        let (start, shown_at) = (addresses.start() as u64, place.start());
        let id = self.new_allocation();
        self.add_region(Region::whole(kind, start, shown_at, bytes, id));
        if kind == Kind::Managed {
            self.residency.allocate(id);
        }
        let block = Block {
            id,
            kind,
            bytes,
            counted,
            extent: Some(extent),
            addresses: Some(addresses),
            shown,
            device: None,
        };
        self.blocks.insert(start, block);
        Ok(start)
    }

    /// Adds a region at addresses that the system gave. Registered memory that is still noted there
    /// cannot be what it was.
    pub(super) fn add_region(&mut self, region: Region) {
        let end = region.start + region.bytes;
        while let Some(stale) = self.space.overlapping(region.start, end) {
            let (start, kind) = (stale.start, stale.kind);
            assert_eq!(
                kind,
                Kind::Registered,
                "only the application's memory can have gone"
            );
            let text = format!("{start:#x} was given back to the system while it was registered");
            self.reports.add("freed-while-registered", text);
            let block = self
                .blocks
                .remove(&start)
                .expect("registered memory is a block");
            self.drain();
            self.drop_block(start, block);
        }
        self.space.add(region);
    }

    /// `cuMemFree`: device and managed memory.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), Status> {
        self.free_block(address, &[Kind::Plain, Kind::Managed])
    }

    /// Frees an allocation of one of the kinds, which begins at the address.
    pub(super) fn free_block(&mut self, address: u64, kinds: &[Kind]) -> Result<(), Status> {
        let found = self.blocks.get(&address);
        if !found.is_some_and(|block| kinds.contains(&block.kind)) {
            let how = match self.space.around(address) {
                Some(region) => {
                    format!("is part of {:?} memory at {:#x}", region.kind, region.start)
                }
                None if self.space.was_freed(address) => "was freed before".to_owned(),
                None => "was never allocated".to_owned(),
            };
            let text = format!("{address:#x} {how}");
            return Err(self.misuse("bad-free", Status::INVALID_VALUE, text));
        }
        let block = self.blocks.remove(&address).expect("it was just found");
        self.check_settled(block.id, "freed");
        self.drain();
        self.drop_block(address, block);
        Ok(())
    }

    /// Reports work on an allocation that the host does not know to be complete.
    pub(super) fn check_settled(&mut self, id: AllocationId, what: &str) {
        if let Some(mark) = self.order.pending(id) {
            let text = format!(
                "{} is {what} while {} (work {} of {}) may still use it",
                self.allocation_name(id),
                mark.what,
                mark.number,
                name_of(mark.line)
            );
            self.reports.add("in-use", text);
        }
    }

    /// Takes a block out of the space; the streams are done with it.
    pub(super) fn drop_block(&mut self, address: u64, block: Block) {
        self.space.remove(address);
        if let Some(device) = block.device {
            self.space.remove(device);
        }
        self.order.forget(block.id);
        self.residency.free(block.id);
        drop(block.shown);
        if let Some(span) = block.addresses {
            // Nobody may touch them any more, not even the host.
            if block.kind.on_host()
                && let Some(extent) = block.extent
            {
                let _ = span.hide(
                    0,
                    usize::try_from(extent.bytes).expect("it was mapped here"),
                );
            }
            self.retire_addresses(span);
        }
        if let Some(extent) = block.extent {
            self.physical.free(extent);
        }
        self.give(block.counted);
    }

    /// What reports call an allocation.
    pub(super) fn allocation_name(&self, id: AllocationId) -> String {
        let block = self.blocks.values().find(|block| block.id == id);
        let chunk = || self.chunks.values().find(|chunk| chunk.id() == id);
        match block {
            Some(block) => {
                format!("{:?} memory {} of {} bytes", block.kind, id.0, block.bytes)
            }
            None => match chunk() {
                Some(chunk) => format!("physical memory {} of {} bytes", id.0, chunk.bytes()),
                None => format!("memory {}", id.0),
            },
        }
    }
}
