//! Planted faults. Some do no harm: whoever uses them must ask which.
//!
//! Works on programs of any size: each kind of fault is planted at a few places chosen by seed.

use fastrand::Rng;

use lgm::program::Program;
use lgm::skeleton::Skeleton;
use vtensor::{Bytes, PageRun, Pieces, StepCounts};

/// A spoiled program, and what was done to it.
pub(crate) type Mutation = (String, Program);

/// How often each kind is planted.
const TRIES: usize = 3;

type Kind = (
    &'static str,
    fn(&Skeleton, &mut Program, &mut Rng) -> Option<()>,
);

const KINDS: &[Kind] = &[
    ("drop a wait for outs", drop_out_wait),
    ("drop a wait for ins", drop_in_wait),
    ("shorten an in's wait", shorten_after_out),
    ("wait for more", wait_for_more),
    ("swap outs", swap_outs),
    ("swap ins", swap_ins),
    ("swap the slots of outs", swap_out_slots),
    ("shift a page", shift_page),
    ("shift a place", shift_place),
    ("shift a copy", shift_copy),
    ("use another window", another_window),
    ("shorten a copy", shorten_copy),
    ("lie about bytes", lie_about_bytes),
    ("release outs earlier", release_outs_earlier),
    ("release ins earlier", release_ins_earlier),
    ("release later", release_later),
    ("reuse a slot", reuse_slot),
    ("return a stale copy", return_stale),
    ("lose an out", lose_out),
    ("lose an in", lose_in),
    ("break a home's place", break_home_place),
    ("break a home's slot", break_home_slot),
    ("lose a home", lose_home),
    ("shrink the arena", shrink_arena),
];

/// All kinds of faults, each planted a few times. Programs that came out unchanged are left out.
pub(crate) fn mutations(skeleton: &Skeleton, program: &Program, seed: u64) -> Vec<Mutation> {
    let mut rng = Rng::with_seed(seed);
    let mut mutations: Vec<Mutation> = Vec::new();
    for &(name, plant) in KINDS {
        for _ in 0..TRIES {
            let mut spoiled = program.clone();
            if plant(skeleton, &mut spoiled, &mut rng).is_none() || spoiled == *program {
                continue;
            }
            if mutations.iter().all(|(_, other)| *other != spoiled) {
                mutations.push((name.into(), spoiled));
            }
        }
    }
    mutations
}

fn any(rng: &mut Rng, length: usize) -> Option<usize> {
    (length > 0).then(|| rng.usize(..length))
}

/// Lowers a count at one step, and as far before and after as counts must not decrease.
fn lower(
    program: &mut Program,
    rng: &mut Rng,
    pick: fn(&mut StepCounts) -> &mut i64,
) -> Option<()> {
    let steps = program.steps.len();
    let mut raised = Vec::new();
    for step in 0..steps {
        let before = match step.checked_sub(1) {
            Some(before) => *pick(&mut program.steps[before].counts),
            None => i64::MIN,
        };
        if *pick(&mut program.steps[step].counts) > before {
            raised.push(step);
        }
    }
    let step = raised[any(rng, raised.len())?];
    let value = match step.checked_sub(1) {
        Some(before) if rng.bool() => *pick(&mut program.steps[before].counts),
        _ => *pick(&mut program.steps[step].counts) - 1,
    };
    let old = *pick(&mut program.steps[step].counts);
    for step in &mut program.steps[step..] {
        let count = pick(&mut step.counts);
        if *count == old {
            *count = value;
        }
        if rng.u8(..4) == 0 {
            break;
        }
    }
    Some(())
}

fn drop_out_wait(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    lower(program, rng, |counts| &mut counts.out_needed)
}

fn drop_in_wait(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    lower(program, rng, |counts| &mut counts.in_needed)
}

fn shorten_after_out(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.ins.len())?;
    let by = rng.i64(1..=2);
    let value = program.ins[row].after_out - by;
    for copy in &mut program.ins[..=row] {
        copy.after_out = copy.after_out.min(value);
    }
    Some(())
}

fn wait_for_more(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let step = any(rng, program.steps.len())?;
    let counts = &mut program.steps[step].counts;
    *if rng.bool() {
        &mut counts.out_needed
    } else {
        &mut counts.in_needed
    } += 1;
    Some(())
}

fn swap_outs(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.outs.len().checked_sub(1)?)?;
    program.outs.swap(row, row + 1);
    Some(())
}

fn swap_ins(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.ins.len().checked_sub(1)?)?;
    program.ins.swap(row, row + 1);
    if rng.bool() {
        let after_out = program.ins[row].after_out;
        program.ins[row].after_out = program.ins[row + 1].after_out;
        program.ins[row + 1].after_out = after_out;
    }
    Some(())
}

fn swap_out_slots(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let (a, b) = (any(rng, program.outs.len())?, any(rng, program.outs.len())?);
    let slot = program.outs[a].slot;
    program.outs[a].slot = program.outs[b].slot;
    program.outs[b].slot = slot;
    Some(())
}

fn shift_page(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.runs.len())?;
    let PageRun { first, .. } = &mut program.runs[row];
    *first = if rng.bool() {
        first.checked_sub(1)?
    } else {
        *first + 1
    };
    Some(())
}

fn shift_place(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.places.len())?;
    let offset = &mut program.places[row].offset;
    let by = *rng.choice(&[256, 512, 2048, 4096])?;
    *offset = if rng.bool() {
        *offset + by
    } else {
        offset.checked_sub(by)?
    };
    Some(())
}

fn shift_copy(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let page = program.page_bytes.get();
    let place = if rng.bool() {
        let row = any(rng, program.outs.len())?;
        &mut program.outs[row].source
    } else {
        let row = any(rng, program.ins.len())?;
        &mut program.ins[row].destination
    };
    place.offset = if rng.bool() {
        place.offset + page
    } else {
        place.offset.checked_sub(page)?
    };
    Some(())
}

fn another_window(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let window = program.places[any(rng, program.places.len())?].window;
    let place = match rng.u8(..3) {
        0 => rng.choice(&mut program.places)?,
        1 => &mut rng.choice(&mut program.outs)?.source,
        _ => &mut rng.choice(&mut program.ins)?.destination,
    };
    place.window = window;
    Some(())
}

fn shorten_copy(skeleton: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let piece = program.piece_bytes;
    // By a page: a smaller piece may lie untouched where it was, if nobody else wrote there.
    let per_page = u32::try_from(program.page_bytes.get() / piece.get()).ok()?;
    let (tensor, pieces, bytes) = if rng.bool() {
        let out = rng.choice(&mut program.outs)?;
        (out.tensor, &mut out.pieces, &mut out.bytes)
    } else {
        let copy = rng.choice(&mut program.ins)?;
        (copy.tensor, &mut copy.pieces, &mut copy.bytes)
    };
    pieces.count = pieces.count.checked_sub(per_page)?;
    *bytes = Pieces::of(skeleton.tensor(tensor).bytes, piece).bytes(*pieces)?;
    Some(())
}

fn lie_about_bytes(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let bytes = if rng.bool() {
        &mut rng.choice(&mut program.outs)?.bytes
    } else {
        &mut rng.choice(&mut program.ins)?.bytes
    };
    *bytes = Bytes(bytes.0 / 2);
    Some(())
}

/// Moves the release of a command to an earlier step.
fn earlier(
    program: &mut Program,
    rng: &mut Rng,
    rows: usize,
    pick: fn(&mut StepCounts) -> &mut i64,
) -> Option<()> {
    let row = i64::try_from(any(rng, rows)?).ok()?;
    let position = |step: &mut lgm::program::Step| *pick(&mut step.counts) > row;
    let released = program.steps.iter_mut().position(position)?;
    let first = any(rng, released)?;
    for step in &mut program.steps[first..released] {
        let count = pick(&mut step.counts);
        *count = (*count).max(row + 1);
    }
    Some(())
}

fn release_outs_earlier(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let rows = program.outs.len();
    earlier(program, rng, rows, |counts| &mut counts.out_released)
}

fn release_ins_earlier(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let rows = program.ins.len();
    earlier(program, rng, rows, |counts| &mut counts.in_released)
}

fn release_later(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let step = any(rng, program.steps.len().checked_sub(1)?)?;
    let before = match step.checked_sub(1) {
        Some(before) => program.steps[before].counts,
        None => StepCounts::default(),
    };
    let counts = &mut program.steps[step].counts;
    if rng.bool() {
        counts.out_released = before.out_released;
    } else {
        counts.in_released = before.in_released;
    }
    Some(())
}

fn reuse_slot(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let (a, b) = (any(rng, program.outs.len())?, any(rng, program.outs.len())?);
    program.outs[a].slot = program.outs[b].slot;
    Some(())
}

fn return_stale(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.ins.len())?;
    let slots: Vec<u64> = program
        .outs
        .iter()
        .map(|out| out.slot)
        .chain(program.homes.iter().filter_map(|home| home.slot))
        .filter(|slot| *slot != program.ins[row].slot)
        .collect();
    program.ins[row].slot = slots[any(rng, slots.len())?];
    Some(())
}

fn one_less(count: &mut i64, row: i64) {
    if *count > row {
        *count -= 1;
    }
}

fn lose_out(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.outs.len())?;
    program.outs.remove(row);
    let row = i64::try_from(row).ok()?;
    for step in &mut program.steps {
        one_less(&mut step.counts.out_needed, row);
        one_less(&mut step.counts.out_released, row);
    }
    for copy in &mut program.ins {
        one_less(&mut copy.after_out, row);
    }
    Some(())
}

fn lose_in(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.ins.len())?;
    program.ins.remove(row);
    let row = i64::try_from(row).ok()?;
    for step in &mut program.steps {
        one_less(&mut step.counts.in_needed, row);
        one_less(&mut step.counts.in_released, row);
    }
    Some(())
}

fn break_home_place(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.homes.len())?;
    let place = match rng.u8(..3) {
        0 => None,
        1 => program.places.get(any(rng, program.places.len())?).copied(),
        _ => program.homes[any(rng, program.homes.len())?].place,
    };
    program.homes[row].place = place;
    Some(())
}

fn break_home_slot(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.homes.len())?;
    let slot = match rng.u8(..3) {
        0 => None,
        1 => Some(program.outs.get(any(rng, program.outs.len())?)?.slot),
        _ => Some(program.homes[row].slot.unwrap_or(0) + 4096),
    };
    program.homes[row].slot = slot;
    Some(())
}

fn lose_home(_: &Skeleton, program: &mut Program, rng: &mut Rng) -> Option<()> {
    let row = any(rng, program.homes.len())?;
    program.homes.swap_remove(row);
    Some(())
}

fn shrink_arena(_: &Skeleton, program: &mut Program, _: &mut Rng) -> Option<()> {
    program.arena_pages = program.arena_pages.checked_sub(1)?;
    Some(())
}
