//! Traffic: which parts of a unit really have to be copied when it moves.
//!
//! In: the moves of units, and how their tensors are used. Out: for each move and part whether it
//! is copied out and in. A tensor on a page that leaves may be dead there, not yet born, about to
//! be overwritten, or have a valid copy in its slot already.

use vtensor::{Mode, OpIndex};

use crate::count::to_u32;
use crate::layout::Stays;
use crate::moves::Move;
use crate::share::{Part, Units};
use crate::skeleton::Skeleton;

/// What is copied of one part in one move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) out: bool,
    pub(super) back: bool,
    /// Whether its content is kept by a copy that is in the slot already.
    pub(super) clean: bool,
}

/// For each move, and each part of its unit.
pub(super) struct Traffic {
    of: Vec<Vec<Copied>>,
}

impl Traffic {
    pub(super) fn new(stays: &Stays<'_>, units: &Units, skeleton: &Skeleton) -> Self {
        let moves = &stays.schedule.moves;
        let mut traffic = Self {
            of: moves.iter().map(|m| vec![alone(m)]).collect(),
        };
        let unit_count = units.skeleton.tensors.len();
        let uses = uses(skeleton);
        let shared = (0..unit_count).map(vtensor::TensorId::from_index);
        for unit in shared.filter(|&unit| units.parts(unit).len() > 1) {
            let mut rows: Vec<usize> = stays.rows_of(unit).to_vec();
            if rows.is_empty() {
                continue;
            }
            rows.sort_by_key(|&row| moves[row].leave);
            for &row in &rows {
                traffic.of[row].clear();
            }
            let of_unit: Vec<&Move> = rows.iter().map(|&row| &moves[row]).collect();
            for part in units.parts(unit) {
                let uses = &uses[part.tensor.index()];
                let copied = of_part(part, &of_unit, (uses, skeleton));
                for (&row, copied) in rows.iter().zip(copied) {
                    traffic.of[row].push(copied);
                }
            }
        }
        traffic
    }

    /// What is copied in a move, by the parts of its unit.
    pub(super) fn of(&self, row: usize) -> &[Copied] {
        &self.of[row]
    }
}

/// A unit of one tensor moves as the schedule says.
fn alone(m: &Move) -> Copied {
    Copied {
        out: m.out,
        back: m.read,
        clean: m.read && !m.out,
    }
}

/// What is copied of a part, in each move of its unit by the order in which they leave.
fn of_part(part: &Part, moves: &[&Move], (uses, skeleton): (&[Use], &Skeleton)) -> Vec<Copied> {
    let persistent = skeleton.tensor(part.tensor).persistent;
    let steps = to_u32(skeleton.ops.len());
    let written = |after: Option<u32>, upto: u32| {
        let writes = uses.iter().filter(|(_, mode)| mode.writes());
        let mut writes = writes.flat_map(|&(step, _)| [step, step + steps]);
        writes.any(|step| step <= upto && after.is_none_or(|after| step > after))
    };
    // What is never written is in its slot from the start.
    let mut valid = persistent && uses.iter().all(|(_, mode)| !mode.writes());
    let mut copied = Vec::new();
    let mut last = None;
    // Twice around: what holds at the end holds at the beginning, for those that persist.
    for round in 0..if persistent { 2 } else { 1 } {
        copied.clear();
        for m in moves {
            let leave = m.leave + round * steps;
            valid &= !written(last, leave);
            last = Some(leave);
            let content = content(uses, persistent, m, steps);
            let out = content.kept && !valid;
            copied.push(Copied {
                out,
                back: content.back,
                clean: content.kept && !out,
            });
            valid |= out;
        }
    }
    copied
}

/// Whether content that leaves has to be kept, and has to be back with its page.
struct Content {
    kept: bool,
    back: bool,
}

fn content(uses: &[Use], persistent: bool, m: &Move, steps: u32) -> Content {
    let behind = uses.partition_point(|&(step, _)| step <= m.leave);
    let born = persistent || behind > 0;
    let next = match (uses.get(behind), uses.first()) {
        (Some(&next), _) => Some((next, false)),
        (None, Some(&first)) if persistent => Some((first, true)),
        _ => None,
    };
    let Some(((_, mode), wraps)) = next.filter(|_| born) else {
        return Content {
            kept: false,
            back: false,
        };
    };
    // The content of a persistent tensor is never dead at the boundary, where it may be looked at:
    // it is on its page if that is there, and else in its slot.
    let there = if m.read {
        m.back <= steps
    } else {
        m.need < steps
    };
    let kept = mode.reads() || wraps;
    let back = mode.reads() || wraps && there;
    Content { kept, back }
}

/// At which step, and how.
type Use = (u32, Mode);

/// For each tensor, its uses.
fn uses(skeleton: &Skeleton) -> Vec<Vec<Use>> {
    let mut uses = vec![Vec::new(); skeleton.tensors.len()];
    for step in 0..to_u32(skeleton.ops.len()) {
        for access in skeleton.accesses_of(OpIndex(step)) {
            uses[access.tensor.index()].push((step, access.mode));
        }
    }
    uses
}
