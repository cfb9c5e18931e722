//! Random valid programs: an iteration of random accesses, paged on demand by random decisions.
//!
//! Deliberately naive, and unlike any planner. Where something must move, a random page is chosen,
//! copies are released at random steps among those that are allowed, and waits name everything
//! that touched the same bytes before. Sizes are multiples of half a page, so that pages are
//! shared. What cannot be continued is given up.

mod assemble;

use std::collections::BTreeSet;

use fastrand::Rng;
use lgm::program::Program;
use lgm::skeleton::Skeleton;
use vtensor::Mode;

use super::build::{PAGE, R, RW, W};

const HALF: u64 = PAGE / 2;

/// Half pages: `unit / 2` is the page.
type Unit = usize;

/// A piece, by tensor and number.
type Piece = (usize, usize);

/// A copy in the making. Releases and waits become counts once all copies are known.
struct Copy {
    piece: Piece,
    unit: Unit,
    slot: usize,
    release: usize,
    after: BTreeSet<usize>,
}

#[derive(Clone, Default)]
struct Whereabouts {
    unit: Option<Unit>,
    /// For each of its two slots the out that filled it, or none if it is so from HOME on.
    slots: [Option<Option<usize>>; 2],
    /// The last out to each of its slots, whether its copy is still valid or not.
    filled: [Option<usize>; 2],
    /// The first step after which its last version may be copied.
    ready: usize,
}

struct Tensor {
    halves: usize,
    persistent: bool,
    pieces: Vec<Whereabouts>,
    homes: Vec<(Option<Unit>, bool)>,
}

struct Simulation<'a> {
    rng: &'a mut Rng,
    pages: usize,
    tensors: Vec<Tensor>,
    ops: Vec<Vec<(usize, Mode)>>,
    owners: Vec<Option<Piece>>,
    last_access: Vec<usize>,
    readers: Vec<BTreeSet<usize>>,
    outs: Vec<Copy>,
    ins: Vec<Copy>,
    needs: Vec<(BTreeSet<usize>, BTreeSet<usize>)>,
    places: Vec<Vec<Vec<Unit>>>,
}

/// A program, unless the random decisions led nowhere.
pub(crate) fn program(rng: &mut Rng) -> Option<(Skeleton, Program)> {
    let pages = rng.usize(2..=4);
    let steps = rng.usize(3..=8);
    let mut simulation = Simulation {
        pages,
        tensors: Vec::new(),
        ops: vec![Vec::new(); steps],
        owners: vec![None; 2 * pages],
        last_access: vec![0; 2 * pages],
        readers: vec![BTreeSet::new(); 2 * pages],
        outs: Vec::new(),
        ins: Vec::new(),
        needs: vec![<_>::default(); steps],
        places: Vec::new(),
        rng,
    };
    simulation.skeleton();
    simulation.settle()?;
    for step in 0..steps {
        simulation.step(step)?;
    }
    simulation.go_home()?;
    simulation.build()
}

impl Simulation<'_> {
    fn skeleton(&mut self) {
        for tensor in 0..self.rng.usize(2..=5) {
            let halves: usize = *self.rng.choice(&[1, 2, 2, 2, 3, 4]).expect("some");
            let persistent = self.rng.bool();
            let count = halves.div_ceil(2);
            self.tensors.push(Tensor {
                halves,
                persistent,
                pieces: vec![Whereabouts::default(); count],
                homes: vec![(None, false); count],
            });
            let mut first = !persistent;
            let last = self.ops.len() - 1;
            let sure = self.rng.usize(..=last);
            for step in 0..=last {
                if step != sure && self.rng.u8(..5) < 3 {
                    continue;
                }
                let mode = *self.rng.choice(&[R, R, RW, W]).expect("some");
                self.ops[step].push((tensor, if first { W } else { mode }));
                first = false;
            }
        }
    }

    /// How many half pages a piece takes.
    fn size(&self, (tensor, piece): Piece) -> usize {
        (self.tensors[tensor].halves - 2 * piece).min(2)
    }

    /// The mode of the next access after a step, over the boundary if the tensor lives so long.
    /// What the application may read without saying so counts as read.
    fn next_mode(&self, tensor: usize, after: Option<usize>) -> Option<Mode> {
        let accesses = |steps: &[Vec<(usize, Mode)>]| {
            let mut all = steps.iter().flatten();
            all.find(|(t, _)| *t == tensor).map(|&(_, mode)| mode)
        };
        let later = accesses(&self.ops[after.map_or(0, |step| step + 1)..]);
        match (later, self.tensors[tensor].persistent) {
            (None, true) => accesses(&self.ops).or(Some(R)),
            (later, _) => later,
        }
    }

    /// Chooses HOME.
    fn settle(&mut self) -> Option<()> {
        for tensor in 0..self.tensors.len() {
            if !self.tensors[tensor].persistent {
                continue;
            }
            for piece in 0..self.tensors[tensor].pieces.len() {
                let dead = self.next_mode(tensor, None) == Some(W) && self.rng.bool();
                let (on_device, in_slot) = match self.rng.u8(..4) {
                    _ if dead => (false, false),
                    0 => (false, true),
                    1 => (true, true),
                    _ => (true, false),
                };
                if on_device {
                    let unit = self.free_unit((tensor, piece))?;
                    self.put((tensor, piece), unit);
                    self.tensors[tensor].homes[piece].0 = Some(unit);
                }
                if in_slot {
                    self.tensors[tensor].pieces[piece].slots[0] = Some(None);
                    self.tensors[tensor].homes[piece].1 = true;
                }
            }
        }
        Some(())
    }

    fn free_unit(&mut self, piece: Piece) -> Option<Unit> {
        let units = self.units_for(piece);
        let size = self.size(piece);
        units
            .into_iter()
            .find(|&unit| self.owners[unit..unit + size].iter().all(Option::is_none))
    }

    /// Where a piece may be put at all, in random order.
    fn units_for(&mut self, piece: Piece) -> Vec<Unit> {
        let mut units: Vec<Unit> = (0..2 * self.pages).step_by(2).collect();
        if self.tensors[piece.0].halves == 1 {
            units.extend((1..2 * self.pages).step_by(2));
        }
        self.rng.shuffle(&mut units);
        units
    }

    fn put(&mut self, piece: Piece, unit: Unit) {
        let size = self.size(piece);
        self.owners[unit..unit + size].fill(Some(piece));
        self.tensors[piece.0].pieces[piece.1].unit = Some(unit);
    }

    fn take(&mut self, piece: Piece) {
        if let Some(unit) = self.tensors[piece.0].pieces[piece.1].unit.take() {
            let size = self.size(piece);
            self.owners[unit..unit + size].fill(None);
        }
    }

    fn step(&mut self, step: usize) -> Option<()> {
        let accesses = self.ops[step].clone();
        for &(tensor, mode) in &accesses {
            if mode == W && self.rng.u8(..3) == 0 {
                for piece in 0..self.tensors[tensor].pieces.len() {
                    self.take((tensor, piece));
                }
            }
        }
        let mut places = Vec::new();
        for &(tensor, mode) in &accesses {
            for piece in 0..self.tensors[tensor].pieces.len() {
                if self.tensors[tensor].pieces[piece].unit.is_none() {
                    self.bring((tensor, piece), mode, step)?;
                }
            }
            let pieces = self.tensors[tensor].pieces.iter();
            places.push(pieces.map(|piece| piece.unit).collect::<Option<Vec<_>>>()?);
        }
        for &(tensor, mode) in &accesses {
            for piece in 0..self.tensors[tensor].pieces.len() {
                self.touch((tensor, piece), mode, step)?;
            }
        }
        self.places.push(places);
        for tensor in 0..self.tensors.len() {
            for piece in 0..self.tensors[tensor].pieces.len() {
                if self.next_mode(tensor, Some(step)).is_none() {
                    self.take((tensor, piece));
                } else if self.rng.u8(..8) == 0 {
                    self.clean((tensor, piece), step);
                }
            }
        }
        Some(())
    }

    fn touch(&mut self, piece: Piece, mode: Mode, step: usize) -> Option<()> {
        let unit = self.tensors[piece.0].pieces[piece.1].unit?;
        for unit in unit..unit + self.size(piece) {
            self.last_access[unit] = step;
            if mode.writes() {
                self.needs[step]
                    .0
                    .extend(self.readers[unit].iter().copied());
            }
        }
        if mode.writes() {
            let whereabouts = &mut self.tensors[piece.0].pieces[piece.1];
            whereabouts.slots = [None; 2];
            whereabouts.ready = step;
        }
        Some(())
    }

    /// Makes a piece present for a step.
    fn bring(&mut self, piece: Piece, mode: Mode, step: usize) -> Option<()> {
        let size = self.size(piece);
        let unit = self.units_for(piece).into_iter().find(|&unit| {
            let owners = self.owners[unit..unit + size].iter().flatten();
            owners.copied().all(|owner| self.may_leave(owner, step))
        })?;
        for unit in unit..unit + size {
            if let Some(owner) = self.owners[unit] {
                self.leave(owner, step)?;
            }
        }
        if mode.reads() {
            self.copy_in(piece, unit, step)?;
        }
        self.put(piece, unit);
        Some(())
    }

    fn needs_out(&self, (tensor, piece): Piece, before: Option<usize>) -> bool {
        let next = self.next_mode(tensor, before);
        let whereabouts = &self.tensors[tensor].pieces[piece];
        next.is_some_and(Mode::reads) && whereabouts.slots.iter().all(Option::is_none)
    }

    fn may_leave(&self, piece: Piece, step: usize) -> bool {
        let busy = self.ops[step].iter().any(|&(tensor, _)| tensor == piece.0);
        !busy && (step > 0 || !self.needs_out(piece, None))
    }

    fn leave(&mut self, piece: Piece, step: usize) -> Option<()> {
        if self.needs_out(piece, step.checked_sub(1)) {
            self.copy_out(piece, step.checked_sub(1)?, None)?;
        }
        self.take(piece);
        Some(())
    }

    /// Copies a piece out without letting it go.
    fn clean(&mut self, piece: Piece, step: usize) {
        let whereabouts = &self.tensors[piece.0].pieces[piece.1];
        if whereabouts.unit.is_some() && whereabouts.slots.iter().all(Option::is_none) {
            self.copy_out(piece, step, None);
        }
    }

    /// Adds an out that is released at step `last` or before.
    fn copy_out(&mut self, piece: Piece, last: usize, slot: Option<usize>) -> Option<()> {
        let slot = slot.unwrap_or_else(|| self.rng.usize(..2));
        let whereabouts = &self.tensors[piece.0].pieces[piece.1];
        let (unit, ready) = (whereabouts.unit?, whereabouts.ready);
        let release = self.rng.usize(ready..=last);
        let id = self.outs.len();
        let filled = &mut self.tensors[piece.0].pieces[piece.1].filled[slot];
        self.needs[release].0.extend(filled.replace(id));
        for unit in unit..unit + self.size(piece) {
            self.readers[unit].insert(id);
        }
        self.outs.push(Copy {
            piece,
            unit,
            slot,
            release,
            after: BTreeSet::new(),
        });
        self.tensors[piece.0].pieces[piece.1].slots[slot] = Some(Some(id));
        Some(())
    }

    /// Adds an in that is released before a step, which waits for it.
    fn copy_in(&mut self, piece: Piece, unit: Unit, step: usize) -> Option<()> {
        let last = step.checked_sub(1)?;
        let slots = self.tensors[piece.0].pieces[piece.1].slots;
        let valid: Vec<usize> = (0..2).filter(|&slot| slots[slot].is_some()).collect();
        let slot = *self.rng.choice(&valid)?;
        let mut after: BTreeSet<usize> = slots[slot].flatten().into_iter().collect();
        let mut first = 0;
        for unit in unit..unit + self.size(piece) {
            after.extend(&self.readers[unit]);
            first = first.max(self.last_access[unit]);
        }
        for &out in &after {
            first = first.max(self.outs[out].release);
        }
        let release = self.rng.usize(first..=last);
        if step < self.ops.len() {
            self.needs[step].1.insert(self.ins.len());
        }
        self.ins.push(Copy {
            piece,
            unit,
            slot,
            release,
            after,
        });
        self.tensors[piece.0].pieces[piece.1].ready = step;
        Some(())
    }

    /// Restores HOME after the last step.
    fn go_home(&mut self) -> Option<()> {
        let steps = self.ops.len();
        let mut moved = Vec::new();
        for tensor in 0..self.tensors.len() {
            for piece in 0..self.tensors[tensor].pieces.len() {
                let (unit, in_slot) = self.tensors[tensor].homes[piece];
                let whereabouts = &self.tensors[tensor].pieces[piece];
                let away = unit.is_some() && whereabouts.unit != unit;
                let no_copy = whereabouts.slots.iter().all(Option::is_none);
                if (in_slot && whereabouts.slots[0].is_none()) || (away && no_copy) {
                    self.copy_out((tensor, piece), steps - 1, Some(0))?;
                }
                if let (true, Some(unit)) = (away, unit) {
                    moved.push(((tensor, piece), unit));
                }
            }
        }
        for (piece, unit) in moved {
            self.last_access.fill(steps - 1);
            self.copy_in(piece, unit, steps)?;
        }
        Some(())
    }
}
