//! Assign: which page each piece has in each of its stays.
//!
//! In: residencies on a circle cut open at one step, a number of pages, and what each claimant
//! knows. Out: the pages of each tensor at each access, what each claimant has to wait for because
//! of the pages that it got, and the pages at the iteration's boundary.
//!
//! Method: one pass over the circle. Stays that cross the cut have their pages first; these pages are
//! reserved for the end of the circle. Everything else is interval colouring: a claimant takes
//! pages that are free. Who waits for whom follows from the pages, so the result is sound whatever
//! was chosen; good choices only make the waits short.

use vtensor::{OpIndex, PieceRun, TensorId};

use super::free_pages::{Claim, FreePages, KNOWN};
use super::residency::{End, Position, Stays};
use crate::graph::Holding;

/// A piece that is not on the device.
pub(super) const AWAY: u32 = u32::MAX;

/// The result of the pass.
pub(super) struct Assignment {
    /// For each access of a paged tensor, its pages; empty for others.
    pub(super) access_pages: Vec<Vec<u32>>,
    /// For each tensor, its pages at the boundary; [`AWAY`] for pieces that are not there.
    pub(super) home_pages: Vec<Vec<u32>>,
    /// For each step, the outs that must be complete, relative to its iteration.
    pub(super) step_waits: Vec<i64>,
    /// For each in, likewise.
    pub(super) in_waits: Vec<i64>,
    /// The highest page in use, plus one.
    pub(super) pages_used: u32,
}

/// Who claims pages.
#[derive(Clone, Copy)]
enum Claimant {
    Step(u32),
    In(usize),
}

struct Pass<'a> {
    stays: &'a Stays<'a>,
    free: FreePages,
    pages: Vec<Vec<u32>>,
    reserved: Vec<Vec<u32>>,
    result: Assignment,
    /// For each page that was free at the cut, who claimed it first.
    first_claimant: Vec<Option<Claimant>>,
    outs: i64,
}

/// Assigns pages; `None` if `arena` pages do not suffice.
pub(super) fn assign(stays: &Stays<'_>, arena: u32) -> Option<Assignment> {
    let mut pass = Pass::new(stays, arena)?;
    let steps = stays.graph.steps();
    let born = births(stays);
    let overwritten = overwritten(stays);
    let outs_at = by_step(steps, stays.schedule.moves.iter().map(|m| m.leave));
    let ins_at = by_step(steps, stays.schedule.queues.ins.iter().map(|i| i.release));
    for turn in 0..steps {
        let step = (turn + stays.cut) % steps;
        for &tensor in &born[step as usize] {
            let count = stays.graph.node(tensor).pieces;
            pass.claim(tensor, PieceRun { first: 0, count }, Claimant::Step(step))?;
        }
        for &row in &overwritten[step as usize] {
            let m = stays.move_at(row);
            pass.claim(m.tensor, m.pieces, Claimant::Step(step))?;
        }
        pass.record_accesses(step);
        pass.free_behind(step, &outs_at[step as usize]);
        for &number in &ins_at[step as usize] {
            let m = stays.move_at(stays.schedule.queues.ins[number].row);
            pass.claim(m.tensor, m.pieces, Claimant::In(number))?;
        }
        if step + 1 == steps {
            pass.result.home_pages = pass.pages.clone();
        }
    }
    Some(pass.finish())
}

impl<'a> Pass<'a> {
    fn new(stays: &'a Stays<'a>, arena: u32) -> Option<Self> {
        let graph = stays.graph;
        let mut pages = vec![Vec::new(); graph.skeleton.tensors.len()];
        let mut free = FreePages::new(arena);
        let mut crossing: Vec<(Position, TensorId, u32)> = Vec::new();
        for (tensor, node) in graph.held(Holding::Paged) {
            pages[tensor.index()] = vec![AWAY; node.pieces as usize];
            for piece in 0..node.pieces {
                if let Some(claim) = stays.crossing(tensor, piece) {
                    crossing.push((claim.unwrap_or(Position::MAX), tensor, piece));
                }
            }
        }
        // What stays for good comes first, then what is claimed again last.
        crossing.sort_by_key(|&(claim, tensor, piece)| (core::cmp::Reverse(claim), tensor, piece));
        for (page, &(claim, tensor, piece)) in (0..).zip(&crossing) {
            if page >= arena {
                return None;
            }
            free.take(page);
            free.reserve(page, claim);
            pages[tensor.index()][piece as usize] = page;
        }
        let steps = graph.steps() as usize;
        let result = Assignment {
            access_pages: vec![Vec::new(); graph.skeleton.accesses.len()],
            home_pages: Vec::new(),
            step_waits: vec![KNOWN; steps],
            in_waits: vec![KNOWN; stays.schedule.queues.ins.len()],
            pages_used: u32::try_from(crossing.len()).expect("at most the arena"),
        };
        let outs = i64::try_from(stays.schedule.queues.outs.len()).expect("limits");
        let reserved = pages.clone();
        let first_claimant = vec![None; arena as usize];
        Some(Self {
            stays,
            free,
            pages,
            reserved,
            result,
            first_claimant,
            outs,
        })
    }

    /// The number of the first out of the iteration that a step belongs to, on the opened circle.
    fn base(&self, step: u32) -> i64 {
        if step < self.stays.cut { self.outs } else { 0 }
    }

    fn claim(&mut self, tensor: TensorId, pieces: PieceRun, by: Claimant) -> Option<()> {
        let (position, step, known) = match by {
            Claimant::Step(step) => {
                let known = self.stays.schedule.queues.out_needed[step as usize];
                (2 * self.stays.turn(step), step, known)
            }
            Claimant::In(number) => {
                let queued = &self.stays.schedule.queues.ins[number];
                (
                    2 * self.stays.turn(queued.release) + 1,
                    queued.release,
                    queued.after_out,
                )
            }
        };
        let known = known + self.base(step);
        // Neighbours that leave together are claimed together.
        let end = |piece| self.stays.end(tensor, piece, position).0;
        let mut groups: Vec<(End, PieceRun)> = Vec::new();
        for piece in pieces.first..pieces.first + pieces.count {
            let this = end(piece);
            match groups.last_mut() {
                Some((last, run)) if *last == this => run.count += 1,
                _ => groups.push((
                    this,
                    PieceRun {
                        first: piece,
                        count: 1,
                    },
                )),
            }
        }
        // One run for all of them, if there is one that is free for long enough.
        let until = |end: End| match end {
            End::At(until) => until,
            End::Crosses => Position::MAX,
        };
        let crosses = groups.iter().any(|(end, _)| until(*end) == Position::MAX);
        if groups.len() > 1 && !crosses {
            let longest = groups.iter().map(|(end, _)| until(*end)).max().unwrap_or(0);
            let all = Claim {
                pages: pieces.count,
                until: longest,
                known,
            };
            if let Some(chosen) = self.free.choose(all).filter(|pages| is_run(pages)) {
                self.take(tensor, pieces, &chosen, by);
                return Some(());
            }
        }
        for (end, run) in groups {
            let chosen = if until(end) == Position::MAX {
                let reserved = &self.reserved[tensor.index()];
                reserved[run.first as usize..run.end() as usize].to_vec()
            } else {
                self.free.choose(Claim {
                    pages: run.count,
                    until: until(end),
                    known,
                })?
            };
            self.take(tensor, run, &chosen, by);
        }
        Some(())
    }

    fn take(&mut self, tensor: TensorId, run: PieceRun, chosen: &[u32], by: Claimant) {
        for (&page, piece) in chosen.iter().zip(run.first..) {
            assert!(
                page != AWAY,
                "a stay that crosses the cut has a page from the start"
            );
            let label = self.free.take(page).expect("chosen pages are free");
            let wait = if label == KNOWN {
                let first = &mut self.first_claimant[page as usize];
                *first = first.or(Some(by));
                KNOWN
            } else {
                label + 1
            };
            self.wait(by, wait);
            self.pages[tensor.index()][piece as usize] = page;
            self.result.pages_used = self.result.pages_used.max(page + 1);
        }
    }

    /// Makes a claimant wait for `count` outs, counted on the opened circle.
    fn wait(&mut self, by: Claimant, count: i64) {
        if count == KNOWN {
            return;
        }
        let (step, waits) = match by {
            Claimant::Step(step) => (step, &mut self.result.step_waits[step as usize]),
            Claimant::In(number) => {
                let release = self.stays.schedule.queues.ins[number].release;
                (release, &mut self.result.in_waits[number])
            }
        };
        let base = if step < self.stays.cut { self.outs } else { 0 };
        *waits = (*waits).max(count - base);
    }

    fn record_accesses(&mut self, step: u32) {
        let skeleton = self.stays.graph.skeleton;
        let first = skeleton.ops[step as usize].first_access as usize;
        for (row, access) in skeleton.accesses_of(OpIndex(step)).iter().enumerate() {
            let pages = &self.pages[access.tensor.index()];
            assert!(
                !pages.contains(&AWAY),
                "tensor {} is away at step {step}",
                access.tensor
            );
            self.result.access_pages[first + row].clone_from(pages);
        }
    }

    /// Frees what leaves or dies once a step is complete.
    fn free_behind(&mut self, step: u32, leaving: &[usize]) {
        let base = self.base(step);
        for &row in leaving {
            let m = self.stays.move_at(row);
            let label = match self.stays.out_of[row] {
                Some(number) => base + i64::try_from(number).expect("limits"),
                None => KNOWN,
            };
            self.free(m.tensor, m.pieces, label);
        }
        for access in self.stays.graph.skeleton.accesses_of(OpIndex(step)) {
            let node = self.stays.graph.node(access.tensor);
            let dies = !node.persistent && self.stays.graph.life(access.tensor).end == step + 1;
            if dies && node.holding == Holding::Paged {
                let all = PieceRun {
                    first: 0,
                    count: node.pieces,
                };
                self.free(access.tensor, all, KNOWN);
            }
        }
    }

    fn free(&mut self, tensor: TensorId, pieces: PieceRun, label: i64) {
        for piece in pieces.first..pieces.first + pieces.count {
            let page = core::mem::replace(&mut self.pages[tensor.index()][piece as usize], AWAY);
            assert!(
                page != AWAY,
                "piece {piece} of tensor {tensor} leaves twice"
            );
            self.free.free(page, label);
        }
    }

    /// Closes the circle: pages that were free at the cut have been freed at its end by some out.
    fn finish(mut self) -> Assignment {
        debug_assert!(self.pages == self.reserved, "the circle closes");
        for page in 0..self.first_claimant.len() {
            let label = u32::try_from(page)
                .ok()
                .and_then(|page| self.free.label(page));
            if let (Some(by), Some(label)) = (self.first_claimant[page], label) {
                if label != KNOWN {
                    self.wait(by, label + 1 - self.outs);
                }
            }
        }
        self.result
    }
}

fn is_run(pages: &[u32]) -> bool {
    pages.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// For each step, the paged transients that appear at it.
fn births(stays: &Stays<'_>) -> Vec<Vec<TensorId>> {
    let mut born = vec![Vec::new(); stays.graph.steps() as usize];
    for (tensor, node) in stays.graph.held(Holding::Paged) {
        if !node.persistent {
            born[stays.graph.life(tensor).start as usize].push(tensor);
        }
    }
    born
}

/// For each step, the moves whose pieces it claims itself.
fn overwritten(stays: &Stays<'_>) -> Vec<Vec<usize>> {
    let moves = &stays.schedule.moves;
    let steps = stays.graph.steps();
    let mut all = vec![Vec::new(); steps as usize];
    for (row, m) in moves.iter().enumerate().filter(|(_, m)| !m.read) {
        all[(m.need % steps) as usize].push(row);
    }
    all
}

/// Numbers by the step that each belongs to.
fn by_step(steps: u32, of: impl Iterator<Item = u32>) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); steps as usize];
    of.enumerate()
        .for_each(|(number, step)| all[step as usize].push(number));
    all
}
