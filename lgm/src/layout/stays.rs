//! Stays: each time that a piece is on the device, from its claim until its pages are given back.
//!
//! In: the graph, a schedule, and the step before which the circle of steps is cut open. Out: all
//! stays in the order of their claims, and for each access the stays of its pieces. A stay that
//! crosses the cut is two: a *head*, there when the circle begins, and a *tail*, which goes on
//! until the end and must have the head's page.
//!
//! Positions count twice the steps from the cut: `2k` is the `k`-th step, `2k + 1` is what follows
//! its completion: pages are given back, then copies in are released.

use std::rc::Rc;

use vtensor::{OpIndex, PieceRun, StepRange, TensorId};

use crate::count::{to_i64, to_u32};
use crate::graph::{Graph, Holding, Node};
use crate::moves::Move;
use crate::schedule::Schedule;

/// A position on the opened circle.
pub(crate) type Position = u32;
/// A row in the table of stays.
pub(crate) type StayId = u32;
/// A piece that is not on the device.
pub(crate) const AWAY: StayId = StayId::MAX;
/// The label of pages that need no wait.
pub(crate) const KNOWN: i64 = i64::MIN;

/// Who claims pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// Nobody: the piece is there when the circle begins.
    Head,
    /// A step.
    Step(u32),
    /// A copy in, by its number.
    In(usize),
}

/// Which pieces have one page in all their stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Those whose address may never change.
    Fixed,
    /// All, as if no address might change.
    All,
}

impl Keep {
    /// Whether the pieces of a tensor do.
    fn is_for(self, node: &Node) -> bool {
        node.fixed || self == Self::All
    }
}

/// One piece, from its claim on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub(crate) by: Claimant,
    pub(crate) claim: Position,
    /// From when on it would have its page already, if others leave it that: see `fixed`.
    pub(crate) wish: Position,
    /// When its page is given back; the end of positions if that is behind the cut.
    pub(crate) until: Position,
    /// The out that has to be complete before the page is used again, counted on the opened circle.
    pub(crate) label: i64,
    /// How many outs its claimant knows to be complete, counted on the opened circle.
    pub(crate) known: i64,
    /// For a tail, its head.
    pub(crate) head: Option<StayId>,
    /// Whether all stays of its piece must have the same page.
    pub(crate) kept: bool,
}

/// Stays that are claimed together: consecutive pieces of one tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) first: StayId,
    pub(crate) count: u32,
}

/// All stays.
#[derive(Clone)]
pub(crate) struct Stays<'a> {
    pub(crate) graph: &'a Graph<'a>,
    pub(crate) schedule: Rc<Schedule>,
    cut: u32,
    keep: Keep,
    by_tensor: Vec<Vec<usize>>,
    /// For each move, its number among the outs.
    out_of: Vec<Option<usize>>,
    /// In the order of their claims.
    pub(crate) all: Vec<Stay>,
    /// Heads are in none; the others in the order of their claims.
    pub(crate) groups: Vec<Group>,
    /// For each access of a paged tensor, the stays of its pieces; empty for others.
    pub(crate) accesses: Vec<Vec<StayId>>,
    /// For each tensor, the stays of its pieces at the boundary.
    pub(crate) home: Vec<Vec<StayId>>,
    /// For each piece that keeps its page, all its stays, in the order of claims.
    pub(crate) kept: Vec<Vec<StayId>>,
    /// For each tensor, where its pieces begin in `kept`.
    first_kept: Vec<Option<usize>>,
}

impl<'a> Stays<'a> {
    pub(crate) fn new(
        graph: &'a Graph<'a>,
        schedule: &Rc<Schedule>,
        (cut, keep): (u32, Keep),
    ) -> Self {
        let mut by_tensor = vec![Vec::new(); graph.skeleton.tensors.len()];
        for (row, m) in schedule.moves.iter().enumerate() {
            by_tensor[m.tensor.index()].push(row);
        }
        let mut out_of = vec![None; schedule.moves.len()];
        let outs = schedule.queues.outs.iter().enumerate();
        outs.for_each(|(number, out)| out_of[out.row] = Some(number));
        let mut stays = Self {
            graph,
            schedule: Rc::clone(schedule),
            cut,
            keep,
            by_tensor,
            out_of,
            all: Vec::new(),
            groups: Vec::new(),
            accesses: vec![Vec::new(); graph.skeleton.accesses.len()],
            home: Vec::new(),
            kept: Vec::new(),
            first_kept: vec![None; graph.skeleton.tensors.len()],
        };
        let paged = graph.held(Holding::Paged);
        for (tensor, node) in paged.filter(|(_, node)| keep.is_for(node)) {
            stays.first_kept[tensor.index()] = Some(stays.kept.len());
            let pieces = stays.kept.len() + node.pieces as usize;
            stays.kept.resize(pieces, Vec::new());
        }
        let mut now = stays.heads();
        stays.go_round(&mut now);
        stays
    }

    /// Positions of the opened circle: a step has two.
    pub(crate) fn positions(&self) -> Position {
        2 * self.graph.steps()
    }

    /// The end of the positions at which chains are compared: there is nothing to compare where no
    /// piece keeps its page.
    pub(crate) fn compared(&self) -> Position {
        if self.kept.is_empty() {
            return 0;
        }
        self.positions()
    }

    /// The rows of a tensor's moves.
    pub(crate) fn rows_of(&self, tensor: TensorId) -> &[usize] {
        &self.by_tensor[tensor.index()]
    }

    /// The moves of a tensor.
    fn moves_of(&self, tensor: TensorId) -> impl Iterator<Item = &Move> {
        self.by_tensor[tensor.index()]
            .iter()
            .map(|&row| &self.schedule.moves[row])
    }

    /// How many outs must be complete so that a move's own is, seen from an iteration `later` ones
    /// behind that of the leave.
    pub(crate) fn own_out(&self, row: usize, later: u32) -> i64 {
        match self.out_of[row] {
            Some(number) => to_i64(number) + 1 - i64::from(later) * self.outs(),
            None => KNOWN,
        }
    }

    /// How many outs an iteration has.
    pub(crate) fn outs(&self) -> i64 {
        to_i64(self.schedule.queues.outs.len())
    }

    /// The number of the first out of the iteration that a step belongs to, on the opened circle.
    pub(crate) fn base(&self, step: u32) -> i64 {
        if step < self.cut { self.outs() } else { 0 }
    }

    /// How many steps from the cut a step is.
    fn turn(&self, step: u32) -> u32 {
        let steps = self.graph.steps();
        (step % steps + steps - self.cut) % steps
    }

    fn leave_position(&self, m: &Move) -> Position {
        2 * self.turn(m.leave) + 1
    }

    /// When and with what label a piece gives its page back that has it at a position; `None` if
    /// that is behind the cut.
    fn end(&self, tensor: TensorId, piece: u32, at: Position) -> Option<(Position, i64)> {
        let node = self.graph.node(tensor);
        let last = self.graph.life(tensor).end - 1;
        let death = (!node.persistent).then(|| (2 * self.turn(last) + 1, KNOWN));
        let leaves = self.by_tensor[tensor.index()].iter().filter_map(|&row| {
            let m = &self.schedule.moves[row];
            let label = match self.out_of[row] {
                Some(number) => to_i64(number) + self.base(m.leave),
                None => KNOWN,
            };
            m.pieces
                .contains(piece)
                .then(|| (self.leave_position(m), label))
        });
        leaves.chain(death).filter(|&(until, _)| until > at).min()
    }

    /// The stays of all pieces that are there when the circle begins.
    fn heads(&mut self) -> Vec<Vec<StayId>> {
        let graph = self.graph;
        let mut now = vec![Vec::new(); graph.skeleton.tensors.len()];
        for (tensor, node) in graph.held(Holding::Paged) {
            now[tensor.index()] = vec![AWAY; node.pieces as usize];
            let life = graph.life(tensor);
            if !node.persistent && (life.start >= self.cut || life.end <= self.cut) {
                continue;
            }
            for piece in 0..node.pieces {
                let absent = self.moves_of(tensor).any(|m| {
                    m.pieces.contains(piece) && absent_before(m).contains(self.cut, graph.steps())
                });
                if absent {
                    continue;
                }
                // What never leaves has no end before the cut and gets no tail.
                let end = self.end(tensor, piece, 0);
                let (until, label) = end.unwrap_or((Position::MAX, KNOWN));
                now[tensor.index()][piece as usize] = to_u32(self.all.len());
                let by = Claimant::Head;
                self.push(
                    (tensor, piece),
                    Stay {
                        by,
                        claim: 0,
                        wish: 0,
                        until,
                        label,
                        known: KNOWN,
                        head: None,
                        kept: self.keep.is_for(node),
                    },
                );
            }
        }
        now
    }

    fn go_round(&mut self, now: &mut [Vec<StayId>]) {
        let heads: Vec<Vec<StayId>> = now.to_vec();
        let graph = self.graph;
        let steps = graph.steps();
        let claims = self.claims_of_steps();
        let leaving = by_step(steps, self.schedule.moves.iter().map(|m| m.leave));
        let arriving = by_step(steps, self.schedule.queues.ins.iter().map(|i| i.release));
        for turn in 0..steps {
            let step = (turn + self.cut) % steps;
            for &(tensor, pieces) in &claims[step as usize] {
                self.claim(tensor, pieces, Claimant::Step(step), now, &heads);
            }
            self.record_accesses(step, now);
            for &row in &leaving[step as usize] {
                let m = &self.schedule.moves[row];
                let first = m.pieces.first as usize;
                now[m.tensor.index()][first..][..m.pieces.count as usize].fill(AWAY);
            }
            for &number in &arriving[step as usize] {
                let m = self.schedule.moves[self.schedule.queues.ins[number].row];
                self.claim(m.tensor, m.pieces, Claimant::In(number), now, &heads);
            }
            if step + 1 == steps {
                self.home = now.to_vec();
            }
        }
    }

    fn claim(
        &mut self,
        tensor: TensorId,
        pieces: PieceRun,
        by: Claimant,
        now: &mut [Vec<StayId>],
        heads: &[Vec<StayId>],
    ) {
        let (claim, step, known) = match by {
            Claimant::Head => unreachable!("heads are not claimed"),
            Claimant::Step(step) => (
                2 * self.turn(step),
                step,
                self.schedule.queues.out_needed[step as usize],
            ),
            Claimant::In(number) => {
                let queued = &self.schedule.queues.ins[number];
                (
                    2 * self.turn(queued.release) + 1,
                    queued.release,
                    queued.after_out,
                )
            }
        };
        let known = known + self.base(step);
        let first = to_u32(self.all.len());
        for piece in pieces.first..pieces.first + pieces.count {
            let end = self.end(tensor, piece, claim);
            let head = end.is_none().then(|| heads[tensor.index()][piece as usize]);
            assert!(head != Some(AWAY), "a stay that crosses the cut has a head");
            let (until, label) = end.unwrap_or((Position::MAX, KNOWN));
            now[tensor.index()][piece as usize] = to_u32(self.all.len());
            let stay = Stay {
                by,
                claim,
                wish: claim,
                until,
                label,
                known,
                head,
                kept: self.keep.is_for(self.graph.node(tensor)),
            };
            self.push((tensor, piece), stay);
        }
        self.groups.push(Group {
            first,
            count: pieces.count,
        });
    }

    fn push(&mut self, (tensor, piece): (TensorId, u32), stay: Stay) {
        if let Some(first) = self.first_kept[tensor.index()] {
            self.kept[first + piece as usize].push(to_u32(self.all.len()));
        }
        self.all.push(stay);
    }

    fn record_accesses(&mut self, step: u32, now: &[Vec<StayId>]) {
        let first = self.graph.skeleton.ops[step as usize].first_access as usize;
        let accesses = self.graph.skeleton.accesses_of(OpIndex(step));
        for (row, access) in accesses.iter().enumerate() {
            let stays = &now[access.tensor.index()];
            assert!(
                !stays.contains(&AWAY),
                "tensor {} is away at step {step}",
                access.tensor
            );
            self.accesses[first + row].clone_from(stays);
        }
    }

    /// For each step, what it claims itself: transients that appear, and pieces that it overwrites.
    fn claims_of_steps(&self) -> Vec<Vec<(TensorId, PieceRun)>> {
        let steps = self.graph.steps();
        let mut claims = vec![Vec::new(); steps as usize];
        for (tensor, node) in self
            .graph
            .held(Holding::Paged)
            .filter(|(_, n)| !n.persistent)
        {
            let all = PieceRun {
                first: 0,
                count: node.pieces,
            };
            claims[self.graph.life(tensor).start as usize].push((tensor, all));
        }
        for m in self.schedule.moves.iter().filter(|m| !m.read) {
            claims[(m.need % steps) as usize].push((m.tensor, m.pieces));
        }
        claims
    }
}

/// The steps before which a move's pieces are away, and not yet claimed again.
pub(crate) fn absent_before(m: &Move) -> StepRange {
    let end = if m.read { m.back } else { m.need + 1 };
    StepRange {
        start: m.leave + 1,
        end,
    }
}

/// Numbers by the step that each belongs to.
fn by_step(steps: u32, of: impl Iterator<Item = u32>) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); steps as usize];
    of.enumerate()
        .for_each(|(number, step)| all[step as usize].push(number));
    all
}
