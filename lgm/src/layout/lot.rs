//! Lot: stays that are claimed together and leave together.

use super::stays::StayId;

/// Stays that are claimed together and leave together: consecutive numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lot {
    pub(super) first: StayId,
    pub(super) count: u32,
}

impl Lot {
    /// Goes on behind some stays.
    pub(super) fn skip(&mut self, count: u32) {
        self.first += count;
        self.count -= count;
    }
}
