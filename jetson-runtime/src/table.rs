//! The immutable tables that the step path and the engines read: a program in executed sizes, with
//! addresses in place of places.
//!
//! In: a verified plan, its scale, its mapped windows. Guarantees: everything that the step path
//! needs is one array access away; nothing in it changes after the freeze.

use std::ptr::NonNull;

use lgm::plan::Plan;
use lgm::program::{Program, Step};
use lgm::skeleton::Access;
use vtensor::{
    Bytes, In, Mode, OpIndex, Out, PieceRun, Place, StepCounts, StepIndex, StepKind, TensorId,
};

use crate::copier::Transfer;
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::places::{Places, Site};
use crate::scale::{Scale, to_usize};

/// A step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepRow {
    pub(crate) op: OpIndex,
    pub(crate) kind: StepKind,
    pub(crate) first_access: u32,
    pub(crate) access_count: u32,
    pub(crate) first_fill: u32,
    pub(crate) fill_count: u32,
    pub(crate) counts: StepCounts,
}

/// An access: where an op finds a tensor, in every iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessRow {
    pub(crate) tensor: TensorId,
    pub(crate) mode: Mode,
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: a row is an address range; who may touch it when is the verified plan's matter.
unsafe impl Send for AccessRow {}
// SAFETY: a shared row is only read.
unsafe impl Sync for AccessRow {}

/// A copy that is made as a step begins: scratch of an op that runs again begins with what the
/// tensor holds now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) to: NonNull<u8>,
    pub(crate) from: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: as for accesses.
unsafe impl Send for Fill {}
// SAFETY: as for accesses.
unsafe impl Sync for Fill {}

/// A copy, and what it waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) transfer: Transfer,
    /// Its number in its queue.
    pub(crate) index: u32,
    /// The step that releases it.
    pub(crate) released_by: StepIndex,
    /// The outs that must be complete before an in starts; relative, and 0 for an out.
    pub(crate) after_out: i64,
}

/// The tables.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) steps: Vec<StepRow>,
    pub(crate) accesses: Vec<AccessRow>,
    pub(crate) fills: Vec<Fill>,
    pub(crate) outs: Vec<Command>,
    pub(crate) ins: Vec<Command>,
}

impl Table {
    /// Refuses steps that this runtime cannot run.
    pub(crate) fn check_kinds(program: &Program) -> Result<(), RuntimeError> {
        let known = |step: &Step| matches!(step.kind, StepKind::App(_) | StepKind::Replay(_));
        match program.steps.iter().position(|step| !known(step)) {
            Some(step) => Err(RuntimeError::StepKind(StepIndex::from_index(step))),
            None => Ok(()),
        }
    }

    /// The tables of a plan.
    pub(crate) fn new(plan: &Plan, scale: Scale, places: &dyn Places) -> Self {
        let lowering = Lowering {
            plan,
            scale,
            places,
        };
        let (steps, accesses, fills) = lowering.steps();
        let (outs, ins) = lowering.commands();
        let table = Self {
            steps,
            accesses,
            fills,
            outs,
            ins,
        };
        table.check();
        table
    }

    /// What the executor counts on, checked again where it is used (V1, and E's base).
    fn check(&self) {
        let last = self
            .steps
            .last()
            .expect("an iteration has at least one op")
            .counts;
        let (outs, ins) = (self.outs.len() as i64, self.ins.len() as i64);
        assert_eq!(
            last.out_released, outs,
            "the last step has released every out"
        );
        assert_eq!(last.in_released, ins, "the last step has released every in");
        for StepRow { counts, .. } in &self.steps {
            assert!(
                (-outs..=outs).contains(&counts.out_needed),
                "waits reach back one iteration"
            );
            assert!(
                (-ins..=ins).contains(&counts.in_needed),
                "waits reach back one iteration"
            );
        }
        for command in &self.ins {
            assert!(
                (-outs..=outs).contains(&command.after_out),
                "waits reach back one iteration"
            );
        }
    }

    /// Commands of an iteration, by direction.
    pub(crate) const fn counts(&self) -> [u64; 2] {
        [self.outs.len() as u64, self.ins.len() as u64]
    }

    /// The accesses of a step.
    #[inline]
    pub(crate) fn accesses_of(&self, row: &StepRow) -> &[AccessRow] {
        let first = row.first_access as usize;
        &self.accesses[first..first + row.access_count as usize]
    }

    /// The copies that are made as a step begins.
    #[inline]
    pub(crate) fn fills_of(&self, row: &StepRow) -> &[Fill] {
        let first = row.first_fill as usize;
        &self.fills[first..first + row.fill_count as usize]
    }

    /// The commands of a single engine, in the order of rule E4: release step, outs before ins,
    /// index.
    pub(crate) fn single_queue(&self) -> Vec<Command> {
        let mut queue: Vec<Command> = self.outs.iter().chain(&self.ins).copied().collect();
        queue.sort_unstable_by_key(|c| (c.released_by, c.transfer.direction.index(), c.index));
        queue
    }
}

/// The step that releases each of `count` commands: the first whose released count covers it.
fn release_steps(
    program: &Program,
    count: usize,
    released: impl Fn(&StepCounts) -> i64,
) -> Vec<StepIndex> {
    let mut steps = Vec::with_capacity(count);
    for (index, step) in program.steps.iter().enumerate() {
        let covered = usize::try_from(released(&step.counts)).expect("counts start at 0");
        assert!(covered >= steps.len(), "released counts never go back");
        steps.resize(covered, StepIndex::from_index(index));
    }
    assert_eq!(steps.len(), count, "every command is released");
    steps
}

struct Lowering<'a> {
    plan: &'a Plan,
    scale: Scale,
    places: &'a dyn Places,
}

impl Lowering<'_> {
    fn pointer(&self, tensor: TensorId, offset: u64, place: Place, bytes: usize) -> NonNull<u8> {
        self.places.address(Site {
            tensor,
            offset: self.scale.offset(offset),
            place: self.scale.place(place),
            bytes,
        })
    }

    fn steps(&self) -> (Vec<StepRow>, Vec<AccessRow>, Vec<Fill>) {
        let Plan {
            skeleton, program, ..
        } = self.plan;
        let mut steps = Vec::with_capacity(program.steps.len());
        let mut rows = Vec::with_capacity(program.places.len());
        let mut fills = Vec::new();
        for (index, step) in program.steps.iter().enumerate() {
            let op = OpIndex::from_index(index);
            let accesses = skeleton.accesses_of(op);
            let first_place = step.first_place as usize;
            let first_access = u32::try_from(rows.len()).expect("tables hold at most 2^32 rows");
            for (access, place) in accesses.iter().zip(&program.places[first_place..]) {
                let bytes = to_usize(self.scale.bytes(skeleton.tensor(access.tensor).bytes.0));
                rows.push(AccessRow {
                    tensor: access.tensor,
                    mode: access.mode,
                    pointer: self.pointer(access.tensor, 0, *place, bytes),
                    bytes,
                });
            }
            let access_count = u32::try_from(accesses.len()).expect("so does each op");
            assert_eq!(
                first_access as usize + accesses.len(),
                rows.len(),
                "accesses have places"
            );
            let first_fill = fills.len();
            fills.extend(self.fills(step.kind, accesses, &rows[first_access as usize..]));
            let count = |rows| u32::try_from(rows).expect("an op has fewer fills than accesses");
            steps.push(StepRow {
                op,
                kind: step.kind,
                first_access,
                access_count,
                first_fill: count(first_fill),
                fill_count: count(fills.len() - first_fill),
                counts: step.counts,
            });
        }
        (steps, rows, fills)
    }

    /// What the scratch of a step begins with; `rows` are the step's accesses.
    fn fills(&self, kind: StepKind, accesses: &[Access], rows: &[AccessRow]) -> Vec<Fill> {
        let (StepKind::Replay(op), Some(replays)) = (kind, &self.plan.replays) else {
            return Vec::new();
        };
        let fill = |(to, from): (usize, usize)| Fill {
            to: rows[to].pointer,
            from: rows[from].pointer,
            bytes: rows[to].bytes,
        };
        replays.fills(op, accesses).map(fill).collect()
    }

    fn commands(&self) -> (Vec<Command>, Vec<Command>) {
        let program = &self.plan.program;
        let out_steps = release_steps(program, program.outs.len(), |c| c.out_released);
        let in_steps = release_steps(program, program.ins.len(), |c| c.in_released);
        let outs = program.outs.iter().map(PlannedCopy::from).zip(out_steps);
        let ins = program.ins.iter().map(PlannedCopy::from).zip(in_steps);
        let command = |(index, (copy, step))| self.command(index, copy, step);
        (
            outs.enumerate().map(command).collect(),
            ins.enumerate().map(command).collect(),
        )
    }

    fn command(&self, index: usize, copy: PlannedCopy, released_by: StepIndex) -> Command {
        let bytes = to_usize(self.scale.bytes(copy.bytes.0));
        let tensor = self.plan.skeleton.tensor(copy.tensor).bytes;
        let first = self.plan.program.pieces(tensor).offset(copy.pieces);
        let transfer = Transfer {
            direction: copy.direction,
            tensor: copy.tensor,
            pieces: copy.pieces,
            device: self.pointer(copy.tensor, first.0, copy.place, bytes),
            slot: self.scale.offset(copy.slot),
            bytes,
            planned_bytes: copy.bytes.0,
        };
        Command {
            transfer,
            index: u32::try_from(index).expect("tables hold at most 2^32 rows"),
            released_by,
            after_out: copy.after_out,
        }
    }
}

/// What outs and ins have in common.
#[derive(Clone, Copy)]
struct PlannedCopy {
    direction: Direction,
    tensor: TensorId,
    pieces: PieceRun,
    bytes: Bytes,
    place: Place,
    slot: u64,
    after_out: i64,
}

impl From<&Out> for PlannedCopy {
    fn from(out: &Out) -> Self {
        Self {
            direction: Direction::Out,
            tensor: out.tensor,
            pieces: out.pieces,
            bytes: out.bytes,
            place: out.source,
            slot: out.slot,
            after_out: 0,
        }
    }
}

impl From<&In> for PlannedCopy {
    fn from(r#in: &In) -> Self {
        Self {
            direction: Direction::In,
            tensor: r#in.tensor,
            pieces: r#in.pieces,
            bytes: r#in.bytes,
            place: r#in.destination,
            slot: r#in.slot,
            after_out: r#in.after_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::tests::plans;
    use crate::window_map::WindowMap;
    use crate::window_map::{MapLimits, MapNeeds};

    #[test]
    fn one_engine_takes_commands_by_release_step_and_outs_first() {
        let plan = plans::shared_page(plans::page());
        let program = &plan.program;
        let scale = Scale::of(program, program.page_bytes).unwrap();
        let arena = Arena::new(u64::from(program.arena_pages) * scale.page().get()).unwrap();
        let needs = MapNeeds::check(program, scale, &MapLimits::default(), 0).unwrap();
        let map = WindowMap::new(program, scale, &arena, needs, true).unwrap();
        let queue = Table::new(&plan, scale, &map).single_queue();
        let order: Vec<_> = queue
            .iter()
            .map(|c| (c.released_by.0, c.transfer.direction, c.index))
            .collect();
        let [out, r#in] = [Direction::Out, Direction::In];
        assert_eq!(
            order,
            [
                (0, out, 0),
                (0, out, 1),
                (0, r#in, 0),
                (1, out, 2),
                (1, r#in, 1),
                (1, r#in, 2)
            ]
        );
    }
}
