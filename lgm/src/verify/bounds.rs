//! V12 and the static half of V10: tables refer to what is there.
//!
//! What passes here can be indexed and added up without a further check. The cost is linear in
//! the tables (the rows of homes are sorted).

use std::collections::BTreeSet;

use vtensor::limits;
use vtensor::{Bytes, OpIndex, PieceRun, Place, StepIndex, TensorId};

use crate::program::Program;
use crate::skeleton::Skeleton;

use super::atlas::Atlas;
use super::violation::{At, Rule, Verdict, refuse};

/// Checks all tables of a program against its skeleton.
pub(super) fn check(skeleton: &Skeleton, program: &Program, atlas: &Atlas) -> Verdict {
    if let Err(message) = skeleton.check() {
        return refuse(Rule::V12, At::Table, message);
    }
    sizes(program)?;
    windows(program, atlas)?;
    steps(skeleton, program)?;
    places(skeleton, program)?;
    commands(skeleton, program)?;
    homes(skeleton, program)?;
    coverage(skeleton, program)
}

fn sizes(program: &Program) -> Verdict {
    let tables = [
        ("windows", program.windows.len(), limits::WINDOWS_MAX),
        ("outs", program.outs.len(), limits::COMMANDS_MAX),
        ("ins", program.ins.len(), limits::COMMANDS_MAX),
    ];
    for (name, rows, rows_max) in tables {
        if rows > rows_max {
            let message = format!("{rows} {name} are more than the {rows_max} supported");
            return refuse(Rule::V12, At::Table, message);
        }
    }
    if u64::from(program.arena_pages) > limits::PAGES_MAX {
        let message = format!(
            "an arena of {} pages is larger than the {} supported",
            program.arena_pages,
            limits::PAGES_MAX
        );
        return refuse(Rule::V12, At::Table, message);
    }
    if program.piece_bytes > program.page_bytes {
        let message = format!(
            "a piece of {} is larger than a page of {}",
            Bytes(program.piece_bytes.get()),
            Bytes(program.page_bytes.get())
        );
        return refuse(Rule::V12, At::Table, message);
    }
    if program.spill_bytes.0 > limits::TOTAL_BYTES_MAX {
        let message = format!("a spill tier of {} is too large", program.spill_bytes);
        return refuse(Rule::V12, At::Table, message);
    }
    Ok(())
}

/// Runs lie in the arena (V10); windows have the runs that they name, and as many pages.
fn windows(program: &Program, atlas: &Atlas) -> Verdict {
    for (row, run) in program.runs.iter().enumerate() {
        if run.count == 0 {
            return refuse(Rule::V12, At::Table, format!("run {row} has no pages"));
        }
        if run.end() > u64::from(program.arena_pages) {
            let message = format!(
                "run {row} takes pages {} to {}, the arena has {}",
                run.first,
                run.end() - 1,
                program.arena_pages
            );
            return refuse(Rule::V10, At::Table, message);
        }
    }
    for (row, window) in program.windows.iter().enumerate() {
        match atlas.pages_of_runs(window.first_run, window.run_count) {
            None => {
                let message = format!("window {row} names runs that there are not");
                return refuse(Rule::V12, At::Table, message);
            }
            Some(0) => {
                return refuse(Rule::V12, At::Table, format!("window {row} has no pages"));
            }
            Some(pages) if pages != u64::from(window.pages) => {
                let message = format!(
                    "window {row} has {} pages, its runs have {pages}",
                    window.pages
                );
                return refuse(Rule::V12, At::Table, message);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// There is a step for each op, and their places follow one another.
fn steps(skeleton: &Skeleton, program: &Program) -> Verdict {
    if program.steps.len() != skeleton.ops.len() {
        let message = format!(
            "{} steps do not run {} ops",
            program.steps.len(),
            skeleton.ops.len()
        );
        return refuse(Rule::V12, At::Table, message);
    }
    for (index, step) in program.steps.iter().enumerate() {
        let at = At::Step(StepIndex::from_index(index));
        let first = skeleton.ops[index].first_access;
        if step.first_place != first {
            let message = format!(
                "its places begin at {}, its accesses at {first}",
                step.first_place
            );
            return refuse(Rule::V12, at, message);
        }
    }
    if program.places.len() != skeleton.accesses.len() {
        let message = format!(
            "{} accesses have {} places",
            skeleton.accesses.len(),
            program.places.len()
        );
        return refuse(Rule::V12, At::Table, message);
    }
    Ok(())
}

/// Places lie in their windows, and what has a fixed address has one place.
fn places(skeleton: &Skeleton, program: &Program) -> Verdict {
    let mut fixed: Vec<Option<Place>> = vec![None; skeleton.tensors.len()];
    for index in 0..skeleton.ops.len() {
        let op = OpIndex::from_index(index);
        let first = skeleton.ops[index].first_access as usize;
        let accesses = skeleton.accesses_of(op);
        for (access, &place) in accesses.iter().zip(&program.places[first..]) {
            let bytes = skeleton.tensor(access.tensor).bytes;
            let at = At::Step(StepIndex::from_index(index));
            inside(program, at, access.tensor, place, bytes)?;
            if !skeleton.tensor(access.tensor).fixed {
                continue;
            }
            let first = *fixed[access.tensor.index()].get_or_insert(place);
            if first != place {
                let message = format!(
                    "tensor {} may not change its address, but is at offset {} of window {} after \
                     offset {} of window {}",
                    access.tensor, place.offset, place.window, first.offset, first.window
                );
                return refuse(Rule::V12, at, message);
            }
        }
    }
    Ok(())
}

/// A place is aligned, and the bytes from it on lie in its window.
fn inside(program: &Program, at: At, tensor: TensorId, place: Place, bytes: Bytes) -> Verdict {
    let Some(window) = program.windows.get(place.window.index()) else {
        let message = format!(
            "tensor {tensor} is in window {} of {}",
            place.window,
            program.windows.len()
        );
        return refuse(Rule::V12, at, message);
    };
    // A run of the program on small pages scales offsets down by as much as pages, and keeps
    // both exact only if an offset is a whole number of 4096ths of a page.
    let align = limits::TENSOR_ALIGN.max(program.page_bytes.get() / 4096);
    if !place.offset.is_multiple_of(align) {
        let message = format!(
            "tensor {tensor} is at offset {} of window {}, not a multiple of {align}",
            place.offset, place.window
        );
        return refuse(Rule::V12, at, message);
    }
    let window_bytes = u64::from(window.pages) * program.page_bytes.get();
    if place
        .offset
        .checked_add(bytes.0)
        .is_none_or(|end| end > window_bytes)
    {
        let message = format!(
            "tensor {tensor} takes {} bytes from offset {} of window {}, which has {window_bytes}",
            bytes.0, place.offset, place.window
        );
        return refuse(Rule::V12, at, message);
    }
    Ok(())
}

/// A slot is aligned, and the bytes from it on lie in the spill tier.
fn in_tier(program: &Program, at: At, slot: u64, bytes: Bytes) -> Verdict {
    if !slot.is_multiple_of(limits::SLOT_ALIGN) {
        let message = format!("slot {slot} is not a multiple of {}", limits::SLOT_ALIGN);
        return refuse(Rule::V12, at, message);
    }
    let tier = program.spill_bytes.0;
    if slot.checked_add(bytes.0).is_none_or(|end| end > tier) {
        let message = format!(
            "slot {slot} with {} bytes leaves the spill tier of {tier}",
            bytes.0
        );
        return refuse(Rule::V12, at, message);
    }
    Ok(())
}

/// The bytes that a run of pieces has, if the tensor has such pieces.
fn run_bytes(
    skeleton: &Skeleton,
    program: &Program,
    at: At,
    tensor: TensorId,
    run: PieceRun,
) -> Verdict<Bytes> {
    let Some(row) = skeleton.tensors.get(tensor.index()) else {
        let message = format!("tensor {tensor} is none of {}", skeleton.tensors.len());
        return refuse(Rule::V12, at, message);
    };
    let pieces = program.pieces(row.bytes);
    let Some(bytes) = pieces.bytes(run) else {
        let message = format!(
            "pieces {} to {} of tensor {tensor}, which has {}",
            run.first,
            run.end(),
            pieces.count()
        );
        return refuse(Rule::V12, at, message);
    };
    Ok(bytes)
}

fn commands(skeleton: &Skeleton, program: &Program) -> Verdict {
    let outs = program.outs.iter().enumerate().map(|(row, out)| {
        let what = (out.tensor, out.pieces, out.bytes);
        (At::Out(row), what, out.source, out.slot)
    });
    let ins = program.ins.iter().enumerate().map(|(row, copy)| {
        let what = (copy.tensor, copy.pieces, copy.bytes);
        (At::In(row), what, copy.destination, copy.slot)
    });
    let mut moved = [0_u64; 2];
    for (at, (tensor, run, stated), place, slot) in outs.chain(ins) {
        let bytes = run_bytes(skeleton, program, at, tensor, run)?;
        if stated != bytes {
            let message = format!(
                "it copies {} bytes, its pieces of tensor {tensor} have {}",
                stated.0, bytes.0
            );
            return refuse(Rule::V12, at, message);
        }
        inside(program, at, tensor, place, bytes)?;
        in_tier(program, at, slot, bytes)?;
        let sum = &mut moved[usize::from(matches!(at, At::In(_)))];
        *sum = sum.saturating_add(bytes.0);
        if *sum > limits::TOTAL_BYTES_MAX {
            let message = format!("copies up to here move more than {}", Bytes(*sum));
            return refuse(Rule::V12, at, message);
        }
    }
    Ok(())
}

fn homes(skeleton: &Skeleton, program: &Program) -> Verdict {
    for (row, home) in program.homes.iter().enumerate() {
        let at = At::Home(row);
        let bytes = run_bytes(skeleton, program, at, home.tensor, home.pieces)?;
        if !skeleton.tensor(home.tensor).persistent {
            let message = format!("tensor {} is not persistent", home.tensor);
            return refuse(Rule::V12, at, message);
        }
        if let Some(place) = home.place {
            inside(program, at, home.tensor, place, bytes)?;
        }
        if let Some(slot) = home.slot {
            in_tier(program, at, slot, bytes)?;
        }
    }
    Ok(())
}

/// Each piece of each persistent tensor is in exactly one row of homes.
fn coverage(skeleton: &Skeleton, program: &Program) -> Verdict {
    let rows = program.homes.iter().enumerate();
    let sorted: BTreeSet<_> = rows
        .map(|(row, home)| (home.tensor, home.pieces.first, row))
        .collect();
    let mut sorted = sorted.into_iter().peekable();
    for (index, tensor) in skeleton.tensors.iter().enumerate() {
        let id = TensorId::from_index(index);
        let mut next = 0;
        while let Some((_, first, row)) = sorted.next_if(|&(tensor, ..)| tensor == id) {
            if u64::from(first) != next {
                let message = format!("piece {next} of tensor {id} was due, not {first}");
                return refuse(Rule::V12, At::Home(row), message);
            }
            next = program.homes[row].pieces.end();
        }
        let count = program.pieces(tensor.bytes).count();
        if tensor.persistent && next != count {
            let message = format!("tensor {id} has {count} pieces, homes are known of {next}");
            return refuse(Rule::V12, At::Table, message);
        }
    }
    Ok(())
}
