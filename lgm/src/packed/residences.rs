//! Residences: each time that a whole tensor is on the device, from its claim until it leaves.
//!
//! In: the graph and a schedule whose moves are of whole tensors. Out: all residences, with who
//! claims each and which out ends it.
//!
//! Positions go around the circle of an iteration and count twice its steps: `2k` is step `k`,
//! `2k + 1` is what follows its completion: room is given back, then copies in are released. So a
//! residence is `claim .. until` on the circle, and may wrap.

use vtensor::{StepRange, TensorId};

use crate::count::to_u32;
use crate::graph::{Graph, Holding};
use crate::schedule::Schedule;

/// A position on the circle.
pub(super) type Position = u32;

/// Who claims the room of a residence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimant {
    /// Nobody: it never ends.
    Always,
    /// A step.
    Step(u32),
    /// A copy in, by its number.
    In(usize),
}

/// One stay of a whole tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Residence {
    pub(super) tensor: TensorId,
    pub(super) by: Claimant,
    pub(super) claim: Position,
    /// When its room is given back; at or before `claim` if that is in the next iteration.
    pub(super) until: Position,
    /// The out that has to be complete before the room is used again, by its number.
    pub(super) out: Option<usize>,
}

/// All residences.
pub(super) struct Residences {
    pub(super) all: Vec<Residence>,
    /// For each tensor, where its residences are in the table.
    of_tensor: Vec<core::ops::Range<usize>>,
    /// Positions of an iteration.
    circle: Position,
    /// For each move, the residence that it ends and the one that it begins.
    ends: Vec<usize>,
    begins: Vec<usize>,
}

impl Residences {
    pub(super) fn new(graph: &Graph<'_>, schedule: &Schedule) -> Self {
        let steps = graph.steps();
        let mut moves_of = vec![Vec::new(); graph.skeleton.tensors.len()];
        for (row, m) in schedule.moves.iter().enumerate() {
            moves_of[m.tensor.index()].push(row);
        }
        let mut residences = Self {
            all: Vec::new(),
            of_tensor: Vec::with_capacity(moves_of.len()),
            circle: 2 * steps,
            ends: vec![0; schedule.moves.len()],
            begins: vec![0; schedule.moves.len()],
        };
        let numbers = Numbers::new(schedule);
        for (row, mut moves) in moves_of.into_iter().enumerate() {
            let first = residences.all.len();
            moves.sort_unstable_by_key(|&row| schedule.moves[row].leave);
            let tensor = TensorId::from_index(row);
            if graph.node(tensor).holding != Holding::Parked {
                residences.add(graph, schedule, &numbers, tensor, &moves);
            }
            residences.of_tensor.push(first..residences.all.len());
        }
        residences
    }

    /// Adds the residences of a tensor: one more than it has moves, or as many if it persists.
    fn add(
        &mut self,
        graph: &Graph<'_>,
        schedule: &Schedule,
        numbers: &Numbers,
        tensor: TensorId,
        moves: &[usize],
    ) {
        let life = graph.life(tensor);
        let persistent = graph.node(tensor).persistent;
        let first = self.all.len();
        if persistent && moves.is_empty() {
            let by = Claimant::Always;
            self.push(tensor, by, (0, self.circle), None);
            return;
        }
        if !persistent {
            let by = Claimant::Step(life.start);
            let death = 2 * (life.end - 1) + 1;
            self.push(tensor, by, (2 * life.start, death), None);
        }
        for &row in moves {
            let m = &schedule.moves[row];
            let (by, claim) = match numbers.in_of[row] {
                Some(number) => {
                    let release = m.release() % graph.steps();
                    (Claimant::In(number), 2 * release + 1)
                }
                None => {
                    let step = m.need % graph.steps();
                    (Claimant::Step(step), 2 * step)
                }
            };
            self.begins[row] = self.all.len();
            let death = 2 * (life.end - 1) + 1;
            self.push(tensor, by, (claim, death), None);
        }
        // Each move ends the residence before it; that of the first may be the last one's.
        let count = self.all.len() - first;
        for (at, &row) in moves.iter().enumerate() {
            let ended = match persistent {
                true => first + (at + count - 1) % count,
                false => first + at,
            };
            self.ends[row] = ended;
            self.all[ended].until = 2 * schedule.moves[row].leave + 1;
            self.all[ended].out = numbers.out_of[row];
        }
    }

    fn push(
        &mut self,
        tensor: TensorId,
        by: Claimant,
        (claim, until): (Position, Position),
        out: Option<usize>,
    ) {
        self.all.push(Residence {
            tensor,
            by,
            claim,
            until,
            out,
        });
    }

    /// The residence that a move ends.
    pub(super) fn ended_by(&self, row: usize) -> usize {
        self.ends[row]
    }

    /// The residence that a move begins.
    pub(super) fn begun_by(&self, row: usize) -> usize {
        self.begins[row]
    }

    /// The residence of a tensor at a step that uses it.
    pub(super) fn at_step(&self, tensor: TensorId, step: u32) -> usize {
        let mut of_tensor = self.of_tensor[tensor.index()].clone();
        let at = of_tensor.find(|&row| self.covers(row, 2 * step));
        at.expect("what is used is on the device")
    }

    /// The residence of a persistent tensor at the boundary, if it has one.
    pub(super) fn at_boundary(&self, tensor: TensorId) -> Option<usize> {
        let mut of_tensor = self.of_tensor[tensor.index()].clone();
        of_tensor.find(|&row| {
            let residence = &self.all[row];
            residence.by == Claimant::Always || residence.until <= residence.claim
        })
    }

    fn covers(&self, row: usize, at: Position) -> bool {
        let Residence { claim, until, .. } = self.all[row];
        match until <= claim {
            true => at >= claim || at < until,
            false => (claim..until).contains(&at),
        }
    }

    /// The parts of a residence on a straight line, given that its room is given back `later`
    /// positions behind its end.
    pub(super) fn lives(&self, row: usize, later: Position) -> [StepRange; 2] {
        let Residence { claim, until, .. } = self.all[row];
        let end = match until <= claim {
            true => until + self.circle,
            false => until,
        };
        let whole = StepRange {
            start: claim,
            end: end.saturating_add(later).min(claim + self.circle),
        };
        whole.unwrapped(self.circle)
    }
}

/// The numbers of moves in both queues.
struct Numbers {
    out_of: Vec<Option<usize>>,
    in_of: Vec<Option<usize>>,
}

impl Numbers {
    fn new(schedule: &Schedule) -> Self {
        let mut numbers = Self {
            out_of: vec![None; schedule.moves.len()],
            in_of: vec![None; schedule.moves.len()],
        };
        for (number, out) in schedule.queues.outs.iter().enumerate() {
            numbers.out_of[out.row] = Some(number);
        }
        for (number, queued) in schedule.queues.ins.iter().enumerate() {
            numbers.in_of[queued.row] = Some(number);
        }
        numbers
    }
}

/// When the outs of a schedule are complete, as positions: the first step that starts behind each,
/// in the iteration that releases it or later, if nothing is known of places.
pub(super) fn out_ends(graph: &Graph<'_>, schedule: &Schedule, outs_ns: &[u64]) -> Vec<Position> {
    let timeline = &schedule.timeline;
    let steps = graph.steps();
    let took = timeline.iteration_ns.max(1);
    let mut ends = vec![0; outs_ns.len()];
    let mut free_ns = 0_u64;
    // Twice: what the first iteration leaves to do, the second finds.
    for round in 0..2 {
        let base = round * took;
        for (number, out) in schedule.queues.outs.iter().enumerate() {
            let step = out.release as usize;
            let released = timeline.starts_ns[step] + graph.skeleton.ops[step].duration_ns;
            free_ns = free_ns.max(base + released) + outs_ns[number];
            let (later, within) = ((free_ns - base) / took, (free_ns - base) % took);
            let next = timeline.starts_ns.partition_point(|&start| start < within);
            let whole = u64::from(steps) * later + u64::from(to_u32(next));
            ends[number] = u32::try_from(2 * whole).unwrap_or(Position::MAX / 4);
        }
    }
    ends
}
