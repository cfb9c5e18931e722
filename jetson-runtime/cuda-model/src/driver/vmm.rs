//! Virtual memory: reserved addresses, physical allocations, mappings.
//!
//! A physical allocation may be mapped at several addresses: they show the same bytes, and the
//! checker knows them as the same. It lives until it is released and nowhere mapped.

use super::Driver;
use crate::memory::physical::Extent;
use crate::memory::span::Span;
use crate::space::{Access, AllocationId, Kind, Mapping, Region};
use crate::status::Status;

/// Kinds in a `CUmemAllocationProp`: pinned memory, on a device.
const TYPE_PINNED: i32 = 1;
const LOCATION_DEVICE: i32 = 1;

/// What a physical allocation should be, as far as the model looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Property {
    pub(crate) kind: i32,
    pub(crate) location: i32,
    pub(crate) device: i32,
}

/// A physical allocation.
#[derive(Debug)]
pub(super) struct Chunk {
    id: AllocationId,
    extent: Extent,
    bytes: u64,
    mapped: u64,
    released: bool,
}

impl Chunk {
    pub(super) const fn id(&self) -> AllocationId {
        self.id
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn released(&self) -> bool {
        self.released
    }
}

/// Reserved addresses.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) bytes: u64,
    addresses: Span,
    shown: Span,
}

impl Driver {
    /// Whether the device has virtual memory, and the amounts are whole granules.
    fn granular(&mut self, what: &str, amounts: &[u64]) -> Result<(), Status> {
        if !self.profile.virtual_memory {
            return Err(Status::NOT_SUPPORTED);
        }
        let granule = self.granularity;
        let Some(odd) = amounts.iter().find(|n| !n.is_multiple_of(granule)) else {
            return Ok(());
        };
        let text = format!("{what}: {odd:#x} is no multiple of the granularity {granule}");
        Err(self.misuse("granularity", Status::INVALID_VALUE, text))
    }

    fn check_property(&mut self, property: Property) -> Result<(), Status> {
        if property.kind != TYPE_PINNED || property.location != LOCATION_DEVICE {
            return Err(Status::INVALID_VALUE);
        }
        self.device(property.device)
    }

    /// `cuMemGetAllocationGranularity`.
    pub(crate) fn allocation_granularity(&mut self, property: Property) -> Result<u64, Status> {
        self.check_property(property)?;
        self.granular("cuMemGetAllocationGranularity", &[])?;
        Ok(self.granularity)
    }

    /// `cuMemAddressReserve`.
    pub(crate) fn reserve(&mut self, bytes: u64, align: u64, wish: u64) -> Result<u64, Status> {
        self.granular("cuMemAddressReserve", &[bytes])?;
        if bytes == 0 || (align != 0 && !align.is_power_of_two()) {
            return Err(Status::INVALID_VALUE);
        }
        if bytes > self.profile.reservation_bytes_max {
            return Err(Status::OUT_OF_MEMORY);
        }
        let size = |n: u64| usize::try_from(n).map_err(|_| Status::OUT_OF_MEMORY);
        let align = size(align.max(self.granularity))?;
        let reserve =
            |wish| Span::reserve(size(bytes)?, align, wish).map_err(|_| Status::OUT_OF_MEMORY);
        let (addresses, shown) = (reserve(size(wish)?)?, reserve(0)?);
        let start = addresses.start() as u64;
        self.add_region(Region {
            kind: Kind::Reserved,
            start,
            bytes,
            shown_at: shown.start(),
            mappings: std::collections::BTreeMap::new(),
        });
        let reservation = Reservation {
            bytes,
            addresses,
            shown,
        };
        self.reservations.insert(start, reservation);
        Ok(start)
    }

    /// `cuMemAddressFree`: a whole reservation, with nothing mapped.
    pub(crate) fn unreserve(&mut self, address: u64, bytes: u64) -> Result<(), Status> {
        let found = self.reservations.get(&address);
        if found.is_none_or(|reservation| reservation.bytes != bytes) {
            let text = format!("{address:#x}+{bytes} is no reservation");
            return Err(self.misuse("bad-free", Status::INVALID_VALUE, text));
        }
        let region = self.space.starting(address);
        let mapped = region.map_or(0, |region| region.mappings.len());
        if mapped > 0 {
            let text = format!("{address:#x}+{bytes} is given back with {mapped} mappings in it");
            return Err(self.misuse("free-of-mapped", Status::INVALID_VALUE, text));
        }
        self.space.remove(address);
        let reservation = self
            .reservations
            .remove(&address)
            .expect("it was just found");
        self.retire_addresses(reservation.addresses);
        Ok(())
    }

    /// `cuMemCreate`.
    pub(crate) fn create(&mut self, bytes: u64, property: Property) -> Result<u64, Status> {
        self.check_property(property)?;
        self.granular("cuMemCreate", &[bytes])?;
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        self.take(bytes)?;
        let Ok(extent) = self.physical.allocate(bytes) else {
            self.give(bytes);
            return Err(Status::OUT_OF_MEMORY);
        };
        let chunk = Chunk {
            id: self.new_allocation(),
            extent,
            bytes,
            mapped: 0,
            released: false,
        };
        let handle = super::new_handle();
        self.chunk_handles.insert(chunk.id, handle);
        self.chunks.insert(handle, chunk);
        Ok(handle)
    }

    /// `cuMemRelease`: the memory goes when nothing is mapped to it any more.
    pub(crate) fn release_chunk(&mut self, handle: u64) -> Result<(), Status> {
        match self.chunks.get_mut(&handle) {
            Some(chunk) if !chunk.released => chunk.released = true,
            _ => return Err(self.bad_handle("physical allocation", handle)),
        }
        self.drop_unused(handle);
        Ok(())
    }

    fn drop_unused(&mut self, handle: u64) {
        let unused = |chunk: &mut Chunk| chunk.released && chunk.mapped == 0;
        if let Some(chunk) = self.chunks.get_mut(&handle)
            && unused(chunk)
        {
            let (id, extent, bytes) = (chunk.id, chunk.extent, chunk.bytes);
            self.chunks.remove(&handle);
            self.chunk_handles.remove(&id);
            self.order.forget(id);
            self.physical.free(extent);
            self.give(bytes);
        }
    }

    /// `cuMemMap`: a whole physical allocation, at free reserved addresses.
    pub(crate) fn map(
        &mut self,
        address: u64,
        bytes: u64,
        offset: u64,
        handle: u64,
    ) -> Result<(), Status> {
        self.granular("cuMemMap", &[address, bytes, offset])?;
        let chunk = self.chunks.get(&handle).filter(|chunk| !chunk.released);
        let Some((id, extent, whole)) = chunk.map(|chunk| (chunk.id, chunk.extent, chunk.bytes))
        else {
            return Err(self.bad_handle("physical allocation", handle));
        };
        if offset != 0 || bytes != whole {
            let text = format!("{bytes} bytes from {offset} of an allocation of {whole}");
            return Err(self.misuse("partial-map", Status::INVALID_VALUE, text));
        }
        let start = self.free_place(address, bytes)?;
        let reservation = &self.reservations[&start];
        let at = usize::try_from(address - start).expect("it lies in the reservation");
        let size = usize::try_from(bytes).expect("it lies in the reservation");
        let shown = reservation
            .shown
            .show(at, size, self.physical.file(), extent.offset);
        shown.map_err(|_| Status::OUT_OF_MEMORY)?;
        let mapping = Mapping {
            bytes,
            allocation: id,
            offset: 0,
            access: Access::None,
        };
        let region = self.space.around_mut(address).expect("it is reserved");
        region.mappings.insert(address - start, mapping);
        let chunk = self.chunks.get_mut(&handle).expect("it was just found");
        chunk.mapped += 1;
        Ok(())
    }

    /// The start of the reservation in which the range is free.
    fn free_place(&mut self, address: u64, bytes: u64) -> Result<u64, Status> {
        let region = self.space.around(address);
        let region = region.filter(|region| region.kind == Kind::Reserved);
        let inside = region.filter(|region| address - region.start + bytes <= region.bytes);
        let Some(region) = inside else {
            let text = format!("{address:#x}+{bytes} lies in no reservation");
            return Err(self.misuse("map-outside", Status::INVALID_VALUE, text));
        };
        let offset = address - region.start;
        let taken = region.touched(offset..offset + bytes).next();
        if let Some((at, _)) = taken {
            let at = region.start + at;
            let text = format!("{address:#x}+{bytes}: {at:#x} is mapped already");
            return Err(self.misuse("double-map", Status::INVALID_VALUE, text));
        }
        Ok(region.start)
    }

    /// Offsets of the mappings that fill a range exactly; `None` if they do not.
    fn filled(&self, address: u64, bytes: u64) -> Option<(u64, Vec<(u64, Mapping)>)> {
        let region = self.space.around(address)?;
        let start = address - region.start;
        let end = start.checked_add(bytes)?;
        let mut at = start;
        let mut found = Vec::new();
        for (offset, mapping) in region.touched(start..end) {
            if offset != at {
                return None;
            }
            at += mapping.bytes;
            found.push((offset, *mapping));
        }
        (at == end && region.kind == Kind::Reserved).then_some((region.start, found))
    }

    /// `cuMemUnmap`: whole mappings, and nothing else.
    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) -> Result<(), Status> {
        self.granular("cuMemUnmap", &[address, bytes])?;
        let Some((start, mappings)) = self.filled(address, bytes).filter(|_| bytes > 0) else {
            let text = format!("{address:#x}+{bytes} is not made of whole mappings");
            return Err(self.misuse("blind-unmap", Status::INVALID_VALUE, text));
        };
        for (_, mapping) in &mappings {
            self.check_settled(mapping.allocation, "unmapped");
        }
        self.drain();
        let reservation = &self.reservations[&start];
        let at = usize::try_from(address - start).expect("it lies in the reservation");
        let size = usize::try_from(bytes).expect("it lies in the reservation");
        let hidden = reservation.shown.hide(at, size);
        hidden.map_err(|_| Status::OPERATING_SYSTEM)?;
        let region = self.space.around_mut(address).expect("it is reserved");
        for (offset, _) in &mappings {
            region.mappings.remove(offset);
        }
        for (_, mapping) in mappings {
            self.unmapped(mapping.allocation);
        }
        Ok(())
    }

    fn unmapped(&mut self, id: AllocationId) {
        let handle = self.chunk_handles[&id];
        let chunk = self.chunks.get_mut(&handle);
        chunk.expect("mapped memory exists").mapped -= 1;
        self.drop_unused(handle);
    }

    /// `cuMemSetAccess`, of the one device.
    pub(crate) fn set_access(
        &mut self,
        address: u64,
        bytes: u64,
        property: Property,
        flags: i32,
    ) -> Result<(), Status> {
        self.granular("cuMemSetAccess", &[address, bytes])?;
        let access = match flags {
            0 => Access::None,
            1 => Access::Read,
            3 => Access::ReadWrite,
            _ => return Err(Status::INVALID_VALUE),
        };
        if property.location != LOCATION_DEVICE {
            return Err(Status::INVALID_VALUE);
        }
        self.device(property.device)?;
        let Some((_, mappings)) = self.filled(address, bytes).filter(|_| bytes > 0) else {
            let text = format!("access to {address:#x}+{bytes}, which is not whole mappings");
            return Err(self.misuse("access-of-unmapped", Status::INVALID_VALUE, text));
        };
        let region = self.space.around_mut(address).expect("it is reserved");
        for (offset, _) in mappings {
            let mapping = region.mappings.get_mut(&offset);
            mapping.expect("it was just found").access = access;
        }
        Ok(())
    }

    /// Whether any mapping shows a physical allocation.
    pub(super) fn mappings(&self) -> impl Iterator<Item = (u64, &Mapping)> {
        let reserved = self.space.regions().filter(|r| r.kind == Kind::Reserved);
        reserved.flat_map(|region| {
            let start = region.start;
            region
                .mappings
                .iter()
                .map(move |(at, mapping)| (start + at, mapping))
        })
    }
}
