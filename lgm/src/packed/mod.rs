//! Contiguous arenas: whole tensors at offsets, as the published policies place them.
//!
//! In: a policy, the graph, a link and an arena. Out: a program, all of whose places are offsets in
//! window 0. The policy schedules for the arena's bytes; its residences are packed; if they do not
//! fit for the holes between them, the policy schedules anew for less, until they do. What that
//! costs is what vTensors save.
//!
//! | module | noun |
//! |---|---|
//! | `residences` | when whole tensors are on the device |
//! | `places` | where they are, and who waits for whom |
//! | `program` | the executable form |
//!
//! Guarantees: deterministic; the program stays inside the arena. The graph's page is only the unit
//! in which room is counted here, so it should be small; pieces and windows have the arena's page.
//!
//! Limits: an arena packed offline, with all lives known, is kinder to the policies than the
//! allocators that they were published with.

mod places;
mod program;
mod residences;

use vtensor::{Bytes, PageBytes};

use self::places::{Blocks, Until};
use self::program::Parts;
use self::residences::Residences;
use crate::cost::{Load, Timeline};
use crate::graph::{Graph, Holding};
use crate::packing::Packing;
use crate::policy::{Policy, Scheduler, Task, Timed};
use crate::profile::Link;
use crate::program::Program;
use crate::queues::Pages;
use crate::tricks::Tricks;

/// The unit in which room is counted before it is packed.
pub const UNIT: PageBytes = PageBytes::MIN;
/// Tensors below a share of this, a quarter where there is room, never move: their copies would
/// take longer to start than to run.
pub const POOL_OF: PageBytes = match PageBytes::new(1 << 20) {
    Ok(bytes) => bytes,
    Err(_) => PageBytes::MIN,
};
/// By how much a schedule retreats at once, at least and at most, in thousandths of the arena.
const STEP: (i64, i64) = (16, 120);
/// How far a schedule retreats at most, in thousandths of the arena.
const RETREAT_MAX: i64 = 750;
/// How many schedules are packed for each size.
const SCHEDULES_MAX: usize = 3;
/// How often the last step down is halved.
const HALVINGS: usize = 3;

/// One range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// How many bytes it may have.
    pub bytes: Bytes,
    /// The page in which the program counts it.
    pub page: PageBytes,
    /// Slower programs are of no use: nanoseconds of an iteration.
    pub below_ns: u64,
}

/// A program, and what is known of it.
#[derive(Debug)]
pub struct Packed {
    /// The program, not verified.
    pub program: Program,
    /// What the cost model says.
    pub timeline: Timeline,
    /// The most bytes that are held at once: no packing of the same residences is lower.
    pub load: Bytes,
}

/// Plans with a policy whose tensors are contiguous; `None` if none of its schedules can be packed,
/// or none takes less than `arena.below_ns`.
#[must_use]
pub fn plan(policy: Policy, graph: &Graph<'_>, link: &Link, arena: Arena) -> Option<Packed> {
    let pages = Pages::of(graph);
    let pool = pool_units(graph);
    let units = i64::try_from(arena.bytes.0 / UNIT.get()).expect("limits: at most 2^51 bytes");
    let most = pages.live.iter().copied().max().unwrap_or(0) + pool;
    let all = units.min(most);
    let mut packer = Packer {
        graph,
        link,
        arena,
        best: None,
    };
    let mut scheduler = Scheduler::new(policy, Tricks::default());
    let mut attempt = |retreat: i64| {
        let task = Task {
            graph,
            pages: &pages,
            capacity: all - (all * retreat + 999) / 1000 - pool,
            link,
        };
        // With less memory there will be no schedule either.
        let timed = scheduler.timed(task).ok()?;
        Some(packer.pack(&timed))
    };
    // Down in steps that follow from how much is missing, then halfway back where that does.
    let (mut low, mut high) = (0, 0);
    while let Some(excess) = attempt(high).filter(|&excess| excess > 0) {
        low = high;
        high += (excess / 2).clamp(STEP.0, STEP.1);
        if high > RETREAT_MAX {
            return packer.best;
        }
    }
    for _ in 0..HALVINGS {
        let middle = low.midpoint(high);
        if middle == low {
            break;
        }
        match attempt(middle) {
            Some(0) => high = middle,
            _ => low = middle,
        }
    }
    packer.best
}

/// Room for the tensors that are too small to move.
fn pool_units(graph: &Graph<'_>) -> i64 {
    let mut change = vec![0_i64; graph.steps() as usize + 1];
    for (tensor, _) in graph.held(Holding::Pool) {
        let bytes = i64::try_from(graph.skeleton.tensor(tensor).bytes.0);
        let bytes = bytes.expect("small tensors are small");
        crate::demand::add_on_circle(&mut change, graph.life(tensor), bytes);
    }
    let most = crate::demand::prefix_sums(&change).into_iter().max();
    let unit = i64::try_from(UNIT.get()).expect("a small page");
    (most.unwrap_or(0) + unit - 1) / unit
}

/// Packs schedules, and keeps the fastest.
struct Packer<'a> {
    graph: &'a Graph<'a>,
    link: &'a Link,
    arena: Arena,
    best: Option<Packed>,
}

impl Packer<'_> {
    fn time(&self) -> u64 {
        let best = self.best.as_ref();
        best.map_or(self.arena.below_ns, |best| best.timeline.iteration_ns)
    }

    /// Packs schedules; returns by how many thousandths of the arena the one that came closest was
    /// too high to cost no waits, or 0 if none could be faster than what there is.
    fn pack(&mut self, all: &[Timed]) -> i64 {
        let mut closest = None;
        let mut last_ns = None;
        for timed in all.iter().take(SCHEDULES_MAX) {
            let took = timed.schedule.timeline.iteration_ns;
            if took >= self.time() {
                break;
            }
            // What takes the same time most often is the same.
            if last_ns.replace(took) == Some(took) {
                continue;
            }
            let excess = self.pack_one(timed);
            closest = Some(closest.map_or(excess, |closest: i64| closest.min(excess)));
        }
        closest.unwrap_or(0)
    }

    fn pack_one(&mut self, timed: &Timed) -> i64 {
        let residences = Residences::new(self.graph, &timed.schedule);
        let untils: &[Until] = match timed.waits_for_outs {
            true => &[Until::LastAccess],
            false => &[Until::OutComplete, Until::LastAccess],
        };
        let bytes = self.whole_pages();
        let mut excess = 0;
        for &until in untils {
            let with = (self.graph, self.link, self.arena);
            let blocks = Blocks::new(with, &timed.schedule, &residences, until);
            match blocks.pack(bytes) {
                Ok(packing) => {
                    self.keep(timed, &residences, &packing, blocks.load());
                    break;
                }
                Err(height) => {
                    let over = (height - bytes).saturating_mul(1000) / bytes.max(1);
                    excess = excess.max(i64::try_from(over).unwrap_or(i64::MAX));
                    excess = excess.max(1);
                }
            }
        }
        excess
    }

    fn whole_pages(&self) -> u64 {
        let page = self.arena.page.get();
        self.arena.bytes.0 / page * page
    }

    fn keep(&mut self, timed: &Timed, residences: &Residences, packing: &Packing, load: u64) {
        let parts = Parts {
            graph: self.graph,
            arena: self.arena,
            timed,
            residences,
            packing,
        };
        let program = parts.program();
        let timeline = Load::of_program(self.graph.skeleton, &program, self.link).simulate();
        if timeline.iteration_ns < self.time() {
            self.best = Some(Packed {
                program,
                timeline,
                load: Bytes(load),
            });
        }
    }
}
