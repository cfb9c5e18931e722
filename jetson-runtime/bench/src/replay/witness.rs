//! The digest of what each training step did.
//!
//! In: each access of each op, as it was executed. Out: a SHA-256 for each iteration, in planned
//! units, so that scale, spill tier, addresses and timing are not in it. What is in it was seen,
//! not read from the plan: the arena's bytes behind the pointer, the version that was found there.

use jetson_runtime::Step;
use lgm::plan::Plan;
use sha2::{Digest, Sha256};
use vtensor::{ArenaRange, Bytes, Mode, OpIndex};

use super::address::{self, AddressMap};

pub(super) type Sum = [u8; 32];

/// Watches all accesses.
#[derive(Debug)]
pub(super) struct Witness {
    map: AddressMap,
    /// Planned bytes over executed bytes.
    ratio: u64,
    /// For each access of the skeleton what the plan says: its bytes, and where they are.
    planned: Vec<(Bytes, Vec<ArenaRange>)>,
    /// For each access the pointer that was translated last, and the digest of what it led to.
    known: Vec<Option<(u64, Sum)>>,
    hash: Sha256,
    first: Option<Sum>,
    equal: bool,
}

/// What one access came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Writes of this iteration before it.
    pub(super) read_version: u32,
    /// Writes of this iteration behind it.
    pub(super) left_version: u32,
    /// Wrong bytes.
    pub(super) wrong: u64,
}

impl Witness {
    /// A witness of a plan that is executed at `ratio`, with the windows at the addresses of now.
    pub(super) fn new(plan: &Plan, ratio: u64, map: AddressMap) -> Self {
        Self {
            map,
            ratio,
            planned: planned_places(plan),
            known: vec![None; plan.skeleton.accesses.len()],
            hash: Sha256::new(),
            first: None,
            equal: true,
        }
    }

    /// An op begins.
    pub(super) fn op(&mut self, op: OpIndex) {
        self.hash.update(op.0.to_le_bytes());
    }

    /// Access `access` of the open step, which is access `row` of the skeleton, took place.
    pub(super) fn access(&mut self, step: &Step<'_>, access: usize, row: usize, seen: Seen) {
        let address = step.pointer(access).addr().get() as u64;
        let place = match self.known[row] {
            Some((known, sum)) if known == address => sum,
            _ => self.translate(address, step.bytes(access) as u64, row),
        };
        self.known[row] = Some((address, place));
        self.hash.update(step.tensor(access).0.to_le_bytes());
        self.hash.update([match step.mode(access) {
            Mode::Read => 0,
            Mode::Write => 1,
            Mode::ReadWrite => 2,
        }]);
        self.hash.update(place);
        self.hash.update(seen.read_version.to_le_bytes());
        self.hash.update(seen.left_version.to_le_bytes());
        self.hash.update(seen.wrong.to_le_bytes());
    }

    /// The digest of the bytes of the arena that an access was given, in planned units.
    fn translate(&self, address: u64, executed: u64, row: usize) -> Sum {
        let (bytes, planned) = &self.planned[row];
        assert_eq!(
            executed,
            bytes.0.div_ceil(self.ratio),
            "the runtime gives each tensor its size"
        );
        let found = self.map.ranges(address, executed);
        let found = found.expect("the runtime gives addresses of its arena only");
        let mut hash = Sha256::new();
        let mut left = bytes.0;
        let scaled = found.iter().map(|range| {
            let start = range.start * self.ratio;
            // The bytes of a tensor round up: the last of them may stand for fewer.
            let taken = left.min((range.end - range.start) * self.ratio);
            left -= taken;
            ArenaRange {
                start,
                end: start + taken,
            }
        });
        let scaled: Vec<ArenaRange> = scaled.collect();
        assert_eq!(
            &scaled, planned,
            "the runtime puts tensors where the plan says"
        );
        for range in scaled {
            hash.update(range.start.to_le_bytes());
            hash.update(range.end.to_le_bytes());
        }
        hash.finalize().into()
    }

    /// An iteration ends.
    pub(super) fn iteration_end(&mut self) {
        let sum: Sum = self.hash.finalize_reset().into();
        self.equal &= *self.first.get_or_insert(sum) == sum;
    }

    /// Whether all iterations were equal.
    pub(super) const fn equal(&self) -> bool {
        self.equal
    }

    /// The digest of an iteration, and of what `content` says about the contents at the end, in
    /// hexadecimal.
    pub(super) fn digest(&self, content: Sum) -> String {
        let mut hash = Sha256::new();
        hash.update(self.first.unwrap_or_default());
        hash.update(content);
        let sum = hash.finalize();
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// For each access of the skeleton, its bytes and its bytes of the arena.
fn planned_places(plan: &Plan) -> Vec<(Bytes, Vec<ArenaRange>)> {
    let (skeleton, program) = (&plan.skeleton, &plan.program);
    let mut places = vec![(Bytes(0), Vec::new()); skeleton.accesses.len()];
    for (index, step) in program.steps.iter().enumerate() {
        let op = OpIndex::from_index(index);
        let first = skeleton.ops[op.index()].first_access as usize;
        for (index, access) in skeleton.accesses_of(op).iter().enumerate() {
            let bytes = skeleton.tensor(access.tensor).bytes;
            let place = program.places[step.first_place as usize + index];
            let mut ranges = Vec::new();
            for range in program.arena_ranges(place, bytes) {
                address::push(&mut ranges, range);
            }
            places[first + index] = (bytes, ranges);
        }
    }
    places
}
