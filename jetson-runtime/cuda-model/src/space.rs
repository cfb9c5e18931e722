//! The addresses that the device knows, and what is behind them.
//!
//! In: regions (allocations, reservations, host memory) and mappings inside them. Out: for a range
//! of addresses, which bytes of which allocations it names, and where this process can touch them.
//!
//! A device address is no address of the host: each region of device memory takes untouchable
//! addresses, and the bytes are shown somewhere else. A program that follows a device pointer on
//! the host therefore crashes here, as it would on hardware.
//!
//! Guarantees: regions do not overlap; aliases of one page name the same allocation and offset.
//! Not here: the system calls (see `memory`), and who may touch what when (see `check`).

use std::collections::BTreeMap;
use std::ops::Range;

/// Names an allocation of physical memory, or of host memory that the driver knows. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AllocationId(pub(crate) u32);

/// What a region of addresses is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cuMemAlloc`.
    Plain,
    /// `cuMemAddressReserve`: holds what is mapped into it.
    Reserved,
    /// `cuMemAllocManaged`: host and device use the same addresses.
    Managed,
    /// `cuMemHostAlloc`.
    Pinned,
    /// Host memory of the application that it registered.
    Registered,
    /// The device's addresses of registered memory where those of the host cannot be used.
    RegisteredDevice,
}

impl Kind {
    /// Whether the host may touch the addresses.
    pub(crate) const fn on_host(self) -> bool {
        matches!(self, Self::Managed | Self::Pinned | Self::Registered)
    }
}

/// What may be done at a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    None,
    Read,
    ReadWrite,
}

/// A part of a region that has memory behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) allocation: AllocationId,
    /// Where in the allocation the mapping begins.
    pub(crate) offset: u64,
    pub(crate) access: Access,
}

/// A range of addresses of one kind.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) kind: Kind,
    /// The first address, as the program under test knows it.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Where this process finds the first byte.
    pub(crate) shown_at: usize,
    /// By offset in the region.
    pub(crate) mappings: BTreeMap<u64, Mapping>,
}

impl Region {
    /// A region with one mapping of a whole allocation.
    pub(crate) fn whole(kind: Kind, start: u64, at: usize, bytes: u64, id: AllocationId) -> Self {
        let mapping = Mapping {
            bytes,
            allocation: id,
            offset: 0,
            access: Access::ReadWrite,
        };
        Self {
            kind,
            start,
            bytes,
            shown_at: at,
            mappings: BTreeMap::from([(0, mapping)]),
        }
    }

    /// The mappings that touch a range of offsets.
    pub(crate) fn touched(
        &self,
        range: Range<u64>,
    ) -> impl Iterator<Item = (u64, &Mapping)> + use<'_> {
        let before = self.mappings.range(..range.start).next_back();
        let before = before.filter(|(at, mapping)| *at + mapping.bytes > range.start);
        let inside = self.mappings.range(range);
        before
            .into_iter()
            .chain(inside)
            .map(|(at, mapping)| (*at, mapping))
    }

    fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Bytes of one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) allocation: AllocationId,
    pub(crate) range: Range<u64>,
}

/// Where this process finds bytes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: usize,
    pub(crate) bytes: usize,
}

/// What a range of addresses names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The places, in the order of the addresses.
    pub(crate) places: Vec<Place>,
    pub(crate) parts: Vec<Part>,
}

/// Why a range of addresses cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The address belongs to no region.
    Unknown(u64),
    /// The address belonged to a region that is no more.
    Freed(u64),
    /// Nothing is mapped at the address.
    Unmapped(u64),
    /// Access to the mapping was not granted, or not for writing.
    Inaccessible(u64),
    /// Only the host may use the address.
    HostOnly(u64),
    /// The range ends behind the last address.
    Overflow,
}

/// All regions.
#[derive(Debug, Default)]
pub(crate) struct Space {
    regions: BTreeMap<u64, Region>,
    /// Ends of freed regions by start, to tell use after free from a wild address.
    freed: BTreeMap<u64, u64>,
}

impl Space {
    /// Adds a region; it overlaps no other.
    pub(crate) fn add(&mut self, region: Region) {
        let end = region.end();
        assert!(
            self.overlapping(region.start, end).is_none(),
            "regions do not overlap"
        );
        self.forget(region.start, end);
        self.regions.insert(region.start, region);
    }

    /// The region that a range touches first.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> Option<&Region> {
        let last = self
            .regions
            .range(..end)
            .next_back()
            .map(|(_, region)| region);
        last.filter(|region| region.end() > start)
    }

    /// Takes a region out. What was registered is the application's own again, and may be freed and
    /// used anew without a word to the driver.
    pub(crate) fn remove(&mut self, start: u64) -> Option<Region> {
        let region = self.regions.remove(&start)?;
        if region.kind != Kind::Registered {
            self.freed.insert(region.start, region.end());
        }
        Some(region)
    }

    /// These addresses may be the application's from now on.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        self.freed
            .retain(|freed, freed_end| *freed >= end || *freed_end <= start);
    }

    /// The region that begins at an address.
    pub(crate) fn starting(&self, start: u64) -> Option<&Region> {
        self.regions.get(&start)
    }

    /// The region around an address.
    pub(crate) fn around(&self, address: u64) -> Option<&Region> {
        self.overlapping(address, address.saturating_add(1))
    }

    /// The region around an address, to change its mappings.
    pub(crate) fn around_mut(&mut self, address: u64) -> Option<&mut Region> {
        let start = self.around(address)?.start;
        self.regions.get_mut(&start)
    }

    /// All regions, by address.
    pub(crate) fn regions(&self) -> impl Iterator<Item = &Region> {
        self.regions.values()
    }

    /// Whether an address belonged to a region that is no more.
    pub(crate) fn was_freed(&self, address: u64) -> bool {
        let last = self.freed.range(..=address).next_back();
        last.is_some_and(|(_, end)| *end > address)
    }

    /// What a range of addresses names, if all of it grants `access` to the device.
    pub(crate) fn resolve(
        &self,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Resolved, Fault> {
        let end = address.checked_add(bytes).ok_or(Fault::Overflow)?;
        let mut resolved = Resolved::default();
        let mut at = address;
        while at < end {
            let Some(region) = self.around(at) else {
                return Err(match self.was_freed(at) {
                    true => Fault::Freed(at),
                    false => Fault::Unknown(at),
                });
            };
            let part_end = end.min(region.end());
            resolve_in(region, at..part_end, access, &mut resolved)?;
            at = part_end;
        }
        Ok(resolved)
    }
}

/// Adds what a range of addresses inside one region names.
fn resolve_in(
    region: &Region,
    range: Range<u64>,
    access: Access,
    resolved: &mut Resolved,
) -> Result<(), Fault> {
    let range = range.start - region.start..range.end - region.start;
    let mut at = range.start;
    for (start, mapping) in region.touched(range.clone()) {
        if start > at {
            break;
        }
        if mapping.access < access {
            return Err(Fault::Inaccessible(region.start + at));
        }
        let end = range.end.min(start + mapping.bytes);
        let shift = mapping.offset + (at - start);
        let part = Part {
            allocation: mapping.allocation,
            range: shift..shift + (end - at),
        };
        match resolved.parts.last_mut() {
            Some(last)
                if last.allocation == part.allocation && last.range.end == part.range.start =>
            {
                last.range.end = part.range.end;
            }
            _ => resolved.parts.push(part),
        }
        at = end;
    }
    if at < range.end {
        return Err(Fault::Unmapped(region.start + at));
    }
    let size = |n: u64| usize::try_from(n).expect("regions are shown in this process");
    resolved.places.push(Place {
        at: region.shown_at + size(range.start),
        bytes: size(range.end - range.start),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(start: u64, pages: &[(u64, u32, Access)]) -> Region {
        let mappings = pages.iter().map(|&(page, id, access)| {
            let mapping = Mapping {
                bytes: 10,
                allocation: AllocationId(id),
                offset: 0,
                access,
            };
            (page * 10, mapping)
        });
        Region {
            kind: Kind::Reserved,
            start,
            bytes: 50,
            shown_at: 9000,
            mappings: mappings.collect(),
        }
    }

    fn part(id: u32, range: Range<u64>) -> Part {
        let allocation = AllocationId(id);
        Part { allocation, range }
    }

    #[test]
    fn a_range_names_the_pages_that_it_lies_in() {
        let mut space = Space::default();
        let full = Access::ReadWrite;
        let pages = [
            (0, 7, full),
            (1, 5, full),
            (2, 5, full),
            (4, 6, Access::Read),
        ];
        space.add(reserved(1000, &pages));
        let found = space.resolve(1005, 20, full).unwrap();
        assert_eq!(
            found.places,
            [Place {
                at: 9005,
                bytes: 20
            }]
        );
        assert_eq!(found.parts, [part(7, 5..10), part(5, 0..10), part(5, 0..5)]);
        assert_eq!(space.resolve(1025, 10, full), Err(Fault::Unmapped(1030)));
        assert_eq!(space.resolve(1030, 1, full), Err(Fault::Unmapped(1030)));
        assert_eq!(space.resolve(1041, 5, full), Err(Fault::Inaccessible(1041)));
        assert!(space.resolve(1041, 9, Access::Read).is_ok());
        assert_eq!(
            space.resolve(1041, 10, Access::Read),
            Err(Fault::Unknown(1050))
        );
        assert_eq!(space.resolve(999, 2, full), Err(Fault::Unknown(999)));
        assert_eq!(space.resolve(u64::MAX, 2, full), Err(Fault::Overflow));
        assert_eq!(space.resolve(1, 0, full), Ok(Resolved::default()));
    }

    #[test]
    fn neighbours_are_one_range_in_two_places() {
        let mut space = Space::default();
        space.add(Region::whole(Kind::Plain, 100, 500, 10, AllocationId(1)));
        space.add(Region::whole(Kind::Plain, 110, 300, 10, AllocationId(2)));
        let found = space.resolve(105, 10, Access::ReadWrite).unwrap();
        assert_eq!(found.parts, [part(1, 5..10), part(2, 0..5)]);
        let places = [Place { at: 505, bytes: 5 }, Place { at: 300, bytes: 5 }];
        assert_eq!(found.places, places);
    }

    #[test]
    fn freed_addresses_are_known_until_they_are_used_again() {
        let mut space = Space::default();
        space.add(Region::whole(Kind::Plain, 100, 500, 10, AllocationId(1)));
        assert!(
            space.remove(105).is_none(),
            "a region is named by its start"
        );
        assert_eq!(space.remove(100).unwrap().bytes, 10);
        let full = Access::ReadWrite;
        assert_eq!(space.resolve(105, 1, full), Err(Fault::Freed(105)));
        assert_eq!(space.resolve(110, 1, full), Err(Fault::Unknown(110)));
        space.add(Region::whole(Kind::Plain, 108, 500, 1, AllocationId(2)));
        assert_eq!(space.resolve(100, 1, full), Err(Fault::Unknown(100)));
        space.remove(108);
        assert!(space.was_freed(108));
        space.forget(0, 200);
        assert!(!space.was_freed(108));
        let registered = Region::whole(Kind::Registered, 100, 100, 10, AllocationId(3));
        space.add(registered);
        space.remove(100);
        assert!(!space.was_freed(100), "it is the application's again");
    }
}
