//! Seats: addresses that tensors keep for life.
//!
//! A seat is a reserved range of addresses that shows, while its tensor is in the arena, the pages
//! where it is: pages may change, the address does not. In a frozen program the pages do not change
//! either, so nothing is mapped in the loop.
//!
//! Guarantees: while its tensor is away, a seat shows nothing, so a stray access is a fault and not
//! another tensor's bytes. Limit: a seat shows whole pages of the system, so tensors that have one
//! are rounded up to them.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::score::Spec;
use super::tensor::Key;
use crate::arena::Arena;
use crate::error::RuntimeError;
use crate::region::Region;
use crate::scale::to_usize;

/// An address for life.
#[derive(Debug)]
pub(super) struct Seat {
    region: Region,
    /// What the application asked for.
    pub(super) asked: u64,
}

impl Seat {
    /// Reserves addresses for a tensor.
    pub(super) fn new(spec: &Spec) -> Result<Self, RuntimeError> {
        let bytes = NonZeroUsize::new(to_usize(spec.taken())).expect("a tensor has bytes");
        let region = Region::reserve(bytes);
        let region = region.map_err(RuntimeError::system("reserve an address for a tensor"))?;
        let asked = spec.bytes;
        Ok(Self { region, asked })
    }

    /// The address.
    pub(super) fn pointer(&self) -> NonNull<u8> {
        self.region.pointer(0, self.region.bytes())
    }

    /// Shows ranges of the arena, one behind another, as many as fill it.
    pub(super) fn show(
        &self,
        arena: &Arena,
        ranges: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<(), RuntimeError> {
        let failed = RuntimeError::system("map a tensor at its address");
        let mut offset = 0;
        for (start, bytes) in ranges {
            let size = NonZeroUsize::new(to_usize(bytes)).expect("a range has bytes");
            self.region
                .map_file(offset, size, arena.as_fd(), start, true)
                .map_err(&failed)?;
            offset += bytes;
        }
        assert_eq!(offset, self.region.bytes() as u64, "all of it is shown");
        self.region.keep_private().map_err(&failed)
    }

    /// Shows nothing. If the system refuses, what was shown stays: that costs a check, no bytes.
    pub(super) fn hide(&self) {
        let _ = self.region.hide();
    }
}

/// Seats by tensor and by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats {
    by_key: BTreeMap<Key, Arc<Seat>>,
    by_address: BTreeMap<NonNull<u8>, Key>,
}

// SAFETY: addresses are keys here, and are not followed.
unsafe impl Send for Seats {}
// SAFETY: as above.
unsafe impl Sync for Seats {}

impl Seats {
    pub(super) fn get(&self, key: Key) -> Option<&Arc<Seat>> {
        self.by_key.get(&key)
    }

    /// The tensor whose seat begins there.
    pub(super) fn find(&self, pointer: NonNull<u8>) -> Option<Key> {
        self.by_address.get(&pointer).copied()
    }

    pub(super) fn insert(&mut self, key: Key, seat: Arc<Seat>) {
        self.by_address.insert(seat.pointer(), key);
        self.by_key.insert(key, seat);
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Arc<Seat>> {
        let seat = self.by_key.remove(&key)?;
        self.by_address.remove(&seat.pointer());
        Some(seat)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Arc<Seat>)> {
        self.by_key.iter().map(|(&key, seat)| (key, seat))
    }
}
