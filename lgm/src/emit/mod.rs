//! Emit: the program of a layout.
//!
//! In: a layout, that is stays of units and their pages, the pool, and the tensors in the units.
//! Out: a [`Program`] with windows, places, slots, HOME and counts, in tensors again. Nothing is
//! chosen here, but what lies on a shared page and need not be copied is left out.

mod copies;
mod homes;
mod slots;
mod traffic;
mod windows;

use vtensor::{OpIndex, Place, StepCounts, StepKind, TensorId, WindowId};

use self::copies::Copies;
use self::homes::Homes;
pub(crate) use self::slots::{Slots, Spans, whole_iteration};
use self::traffic::Traffic;
use self::windows::{Numbered, Spot, Windows};
use crate::count::to_i64;
use crate::layout::{Layout, Stays};
use crate::pool::Pool;
use crate::program::{Program, Step};
use crate::share::{Part, Units};
use crate::skeleton::Skeleton;

/// The program of a layout for a skeleton of tensors; the pool takes the first pages of the arena.
#[must_use]
pub fn emit(layout: &Layout<'_>, pool: &Pool, units: &Units, skeleton: &Skeleton) -> Program {
    let Layout {
        stays,
        page_of,
        waits,
        ..
    } = layout;
    let page = stays.graph.page;
    let pool_pages = pool.pages(page);
    let arena = pool_pages + layout.pages;
    let mut windows = Windows::new(page);
    let spots: Vec<Option<Spot>> = (0..skeleton.accesses.len())
        .map(|access| {
            let rows = units.rows_of(access).iter();
            let pages = rows.flat_map(|&row| &stays.accesses[row as usize]);
            let pages: Vec<u32> = pages
                .map(|&stay| page_of[stay as usize] + pool_pages)
                .collect();
            (!pages.is_empty()).then(|| windows.spot(&pages))
        })
        .collect();
    let numbered = windows.finish(arena);
    let places: Vec<Place> = spots
        .iter()
        .zip(&skeleton.accesses)
        .map(|(spot, access)| match spot {
            Some(spot) => {
                let place = numbered.place(*spot);
                let offset = place.offset + first_offset(units, access.tensor);
                Place { offset, ..place }
            }
            None => pool_place(pool, units.of(access.tensor)[0]),
        })
        .collect();
    let traffic = Traffic::new(stays, units, skeleton);
    let slots = Slots::new(stays, units, skeleton, &traffic);
    let ground = Ground {
        stays,
        units,
        traffic: &traffic,
        slots: &slots,
        numbered: &numbered,
        page_of,
        pool,
        pool_pages,
    };
    let copies = Copies::new(&ground, &places);
    let homes = Homes {
        ground: &ground,
        skeleton,
    };
    Program {
        page_bytes: page,
        piece_bytes: units.piece,
        arena_pages: arena,
        spill_bytes: slots.bytes(),
        steps: steps(stays, &waits.steps, &copies, skeleton),
        outs: copies.outs(),
        ins: copies.ins(&waits.ins),
        homes: homes.rows(),
        places,
        windows: numbered.windows,
        runs: numbered.runs,
    }
}

/// What everything is worked out from.
struct Ground<'a> {
    stays: &'a Stays<'a>,
    units: &'a Units,
    traffic: &'a Traffic,
    slots: &'a Slots,
    numbered: &'a Numbered,
    page_of: &'a [u32],
    pool: &'a Pool,
    pool_pages: u32,
}

impl Ground<'_> {
    /// The place of a part of a unit of one page.
    fn place_on(&self, page: u32, part: &Part) -> Place {
        let place = self.numbered.place(Spot::Run(page));
        Place {
            offset: place.offset + part.offset,
            ..place
        }
    }
}

/// Where a tensor begins in its first page.
fn first_offset(units: &Units, tensor: TensorId) -> u64 {
    let parts = units.parts(units.of(tensor)[0]);
    let own = parts.iter().find(|part| part.tensor == tensor);
    own.map_or(0, |part| part.offset)
}

fn pool_place(pool: &Pool, unit: TensorId) -> Place {
    let offset = pool.offset(unit).expect("what has no pages is in the pool");
    Place {
        window: WindowId(0),
        offset,
    }
}

fn steps(
    stays: &Stays<'_>,
    out_needed: &[i64],
    copies: &Copies<'_>,
    skeleton: &Skeleton,
) -> Vec<Step> {
    let queues = &stays.schedule.queues;
    let released = |of: &[u32], step: u32| to_i64(of.partition_point(|&release| release <= step));
    let out_releases: Vec<u32> = queues.outs.iter().map(|out| out.release).collect();
    let in_releases: Vec<u32> = queues.ins.iter().map(|i| i.release).collect();
    let steps = skeleton.ops.iter().zip(0..).map(|(op, step)| Step {
        kind: StepKind::App(OpIndex(step)),
        counts: StepCounts {
            out_needed: copies.outs_below(out_needed[step as usize]),
            in_needed: copies.ins_below(queues.in_needed[step as usize]),
            out_released: copies.outs_below(released(&out_releases, step)),
            in_released: copies.ins_below(released(&in_releases, step)),
        },
        first_place: op.first_access,
    });
    steps.collect()
}
