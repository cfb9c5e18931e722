//! Places: the offset of each residence in one arena, and who waits for whom because of it.
//!
//! Two ways to count how long a residence takes its room: until its last access, so that whoever is
//! next may have to wait for its out; or until its out is complete as the schedule has it, so that
//! hardly anyone has to. The first fits into less, the second costs no time.

use super::Arena;
use super::residences::{Claimant, Residences, out_ends};
use crate::cost::copy_ns;
use crate::graph::Graph;
use crate::packing::{Block, Effort, Packing, load, pack};
use crate::pool::sub_page_align;
use crate::profile::Link;
use crate::schedule::Schedule;

/// Work on one packing: a look, and more where that came close.
const LOOK: Effort = Effort {
    orders: 2_000_000,
    search: 0,
};
const EFFORT: Effort = Effort {
    orders: 8_000_000,
    search: 0,
};
/// Thousandths above the arena that are close.
const CLOSE: u64 = 30;

/// How long a residence takes its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Its out is complete.
    OutComplete,
    /// Its last access is.
    LastAccess,
}

/// The residences of a schedule as blocks.
pub(super) struct Blocks {
    blocks: Vec<Block>,
}

impl Blocks {
    pub(super) fn new(
        (graph, link, arena): (&Graph<'_>, &Link, Arena),
        schedule: &Schedule,
        residences: &Residences,
        until: Until,
    ) -> Self {
        let outs = schedule.queues.outs.iter();
        let outs_ns: Vec<u64> = outs
            .map(|out| {
                let bytes = schedule.moves[out.row].bytes;
                copy_ns(bytes, link.out_bps, link.copy_latency_ns)
            })
            .collect();
        let ends = out_ends(graph, schedule, &outs_ns);
        let align = sub_page_align(arena.page);
        let block = |(row, residence): (usize, &super::residences::Residence)| {
            let later = match residence.out {
                Some(number) if until == Until::OutComplete => {
                    ends[number].saturating_sub(residence.until)
                }
                _ => 0,
            };
            let bytes = graph.skeleton.tensor(residence.tensor).bytes.0;
            Block {
                bytes: bytes.next_multiple_of(align),
                lives: residences.lives(row, later),
            }
        };
        Self {
            blocks: residences.all.iter().enumerate().map(block).collect(),
        }
    }

    /// The most bytes that are held at once.
    pub(super) fn load(&self) -> u64 {
        load(&self.blocks)
    }

    /// Packs them into an arena; how high that came if it failed.
    pub(super) fn pack(&self, bytes: u64) -> Result<Packing, u64> {
        if self.load() > bytes {
            return Err(self.load());
        }
        let mut packing = pack(&self.blocks, bytes, LOOK);
        let close = bytes + bytes / 1000 * CLOSE;
        if (bytes + 1..=close).contains(&packing.height) {
            packing = pack(&self.blocks, bytes, EFFORT);
        }
        match packing.height <= bytes {
            true => Ok(packing),
            false => Err(packing.height),
        }
    }
}

/// For each step and each in, how many outs must be complete because of the room that it takes,
/// relative to its iteration; very few for none.
pub(super) struct Waits {
    pub(super) steps: Vec<i64>,
    pub(super) ins: Vec<i64>,
}

impl Waits {
    /// Whoever claims room waits for the last out of everyone else who had a part of it. That is
    /// sound, and no more than is needed: whoever had it before the last one has been waited for
    /// by the last one.
    pub(super) fn new(
        graph: &Graph<'_>,
        schedule: &Schedule,
        residences: &Residences,
        packing: &Packing,
        align: u64,
    ) -> Self {
        let outs = i64::try_from(schedule.queues.outs.len()).expect("limits: few copies");
        let mut waits = Self {
            steps: vec![i64::MIN; graph.steps() as usize],
            ins: vec![i64::MIN; schedule.queues.ins.len()],
        };
        let range = |row: usize| {
            let bytes = graph.skeleton.tensor(residences.all[row].tensor).bytes.0;
            let start = packing.offsets[row];
            start..start + bytes.next_multiple_of(align)
        };
        // Only what an out ends can be waited for.
        let leaving = residences.all.iter().enumerate();
        let leaving: Vec<_> = leaving
            .filter_map(|(row, residence)| Some((range(row), residence.until, residence.out?)))
            .collect();
        for (row, residence) in residences.all.iter().enumerate() {
            let wait = match residence.by {
                Claimant::Always => continue,
                Claimant::Step(step) => &mut waits.steps[step as usize],
                Claimant::In(number) => &mut waits.ins[number],
            };
            let own = range(row);
            let shared = leaving
                .iter()
                .filter(|(other, ..)| other.start < own.end && own.start < other.end);
            for &(_, until, number) in shared {
                let count = i64::try_from(number).expect("limits: few copies") + 1;
                let before = if until <= residence.claim { 0 } else { outs };
                *wait = (*wait).max(count - before);
            }
        }
        waits
    }
}
