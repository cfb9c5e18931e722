//! What each step and copy of a program touches, in units, and when copies are released.

use std::collections::HashSet;

use lgm::program::Program;
use lgm::skeleton::Skeleton;
use vtensor::{Bytes, Mode, OpIndex, Place, TensorId};

/// What a unit of memory holds: a unit of a tensor in some version; 0 is nothing.
pub(super) type Tag = u32;

/// Where an event reads and writes, in units.
#[derive(Clone, Default)]
pub(super) struct Touch {
    pub(super) arena_reads: Vec<usize>,
    pub(super) arena_writes: Vec<usize>,
    pub(super) spill_reads: Vec<usize>,
    pub(super) spill_writes: Vec<usize>,
}

impl Touch {
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let meet = |a: &[usize], b: &[usize]| a.iter().any(|x| b.contains(x));
        let clash = |w: &Self, o: &Self| {
            meet(&w.arena_writes, &o.arena_reads)
                || meet(&w.arena_writes, &o.arena_writes)
                || meet(&w.spill_writes, &o.spill_reads)
                || meet(&w.spill_writes, &o.spill_writes)
        };
        clash(self, other) || clash(other, self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Step(usize),
    Out(usize),
    In(usize),
}

/// The tables of a program.
pub(super) struct Tables<'a> {
    pub(super) skeleton: &'a Skeleton,
    pub(super) program: &'a Program,
    pub(super) iterations: usize,
    pub(super) unit: u64,
    /// Each tensor's first tag inside one version, and how many there are.
    pub(super) first_tag: Vec<usize>,
    tags: usize,
    pub(super) steps: Vec<Touch>,
    pub(super) outs: Vec<Touch>,
    pub(super) ins: Vec<Touch>,
    /// The step that releases each command.
    pub(super) out_step: Vec<usize>,
    pub(super) in_step: Vec<usize>,
    /// The one queue of E4.
    pub(super) queue: Vec<Event>,
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

impl<'a> Tables<'a> {
    pub(super) fn new(
        skeleton: &'a Skeleton,
        program: &'a Program,
        iterations: usize,
    ) -> Result<Self, String> {
        let mut unit = program.page_bytes.get();
        let tensors = skeleton.tensors.iter().map(|t| t.bytes.0);
        let outs = program
            .outs
            .iter()
            .flat_map(|o| [o.source.offset, o.slot, o.bytes.0]);
        let ins = program
            .ins
            .iter()
            .flat_map(|i| [i.destination.offset, i.slot, i.bytes.0]);
        let places = program.places.iter().map(|p| p.offset);
        let homes = program.homes.iter();
        let homes = homes.flat_map(|h| [h.slot.unwrap_or(0), h.place.map_or(0, |p| p.offset)]);
        for bytes in tensors.chain(outs).chain(ins).chain(places).chain(homes) {
            unit = greatest_common_divisor(unit, bytes);
        }
        let mut tags = 1;
        let mut first_tag = Vec::new();
        for tensor in &skeleton.tensors {
            first_tag.push(tags);
            tags += usize::try_from(tensor.bytes.0 / unit).map_err(|_| "a huge tensor")?;
        }
        let mut tables = Self {
            skeleton,
            program,
            iterations,
            unit,
            first_tag,
            tags,
            steps: vec![],
            outs: vec![],
            ins: vec![],
            out_step: vec![],
            in_step: vec![],
            queue: vec![],
        };
        tables.touches()?;
        tables.releases()?;
        Ok(tables)
    }

    /// The units of the arena under a place, found page by page.
    pub(super) fn arena_units(&self, place: Place, bytes: Bytes) -> Result<Vec<usize>, String> {
        let page = self.program.page_bytes.get();
        let window = self
            .program
            .windows
            .get(place.window.index())
            .ok_or("no such window")?;
        let mut pages = Vec::new();
        for run in 0..window.run_count {
            let row = (window.first_run + run) as usize;
            let run = self.program.runs.get(row).ok_or("no such run")?;
            pages.extend(run.first..run.first + run.count);
        }
        let mut units = Vec::new();
        for at in (place.offset..place.offset + bytes.0).step_by(self.unit_step()) {
            let index = usize::try_from(at / page).map_err(|_| "too far")?;
            let page_index = *pages.get(index).ok_or("outside the window")?;
            if page_index >= self.program.arena_pages {
                return Err("outside the arena".into());
            }
            let address = u64::from(page_index) * page + at % page;
            units.push(usize::try_from(address / self.unit).map_err(|_| "too far")?);
        }
        Ok(units)
    }

    fn unit_step(&self) -> usize {
        usize::try_from(self.unit).expect("at most a page")
    }

    fn slot_units(&self, slot: u64, bytes: Bytes) -> Result<Vec<usize>, String> {
        if slot + bytes.0 > self.program.spill_bytes.0 {
            return Err("outside the spill tier".into());
        }
        let units = (slot..slot + bytes.0).step_by(self.unit_step());
        Ok(units
            .map(|at| usize::try_from(at / self.unit).expect("in the tier"))
            .collect())
    }

    fn touches(&mut self) -> Result<(), String> {
        for index in 0..self.skeleton.ops.len() {
            let mut touch = Touch::default();
            let first = self.program.steps[index].first_place as usize;
            let accesses = self.skeleton.accesses_of(OpIndex::from_index(index));
            let mut parts: Vec<(Mode, Vec<usize>)> = Vec::new();
            for (row, access) in accesses.iter().enumerate() {
                let bytes = self.skeleton.tensor(access.tensor).bytes;
                let units = self.arena_units(self.program.places[first + row], bytes)?;
                let mut sorted = units.clone();
                sorted.sort_unstable();
                sorted.dedup();
                if access.mode.writes() && sorted.len() != units.len() {
                    return Err(format!("step {index} writes one byte twice"));
                }
                for (mode, others) in &parts {
                    let writes = mode.writes() || access.mode.writes();
                    if writes && units.iter().any(|u| others.contains(u)) {
                        return Err(format!("accesses of step {index} overlap"));
                    }
                }
                parts.push((access.mode, units));
            }
            for (mode, units) in parts {
                if mode.writes() {
                    touch.arena_writes.extend(units);
                } else {
                    touch.arena_reads.extend(units);
                }
            }
            self.steps.push(touch);
        }
        for out in &self.program.outs {
            self.outs.push(Touch {
                arena_reads: self.arena_units(out.source, out.bytes)?,
                spill_writes: self.slot_units(out.slot, out.bytes)?,
                ..Touch::default()
            });
        }
        for copy in &self.program.ins {
            let arena_writes = self.arena_units(copy.destination, copy.bytes)?;
            if arena_writes.iter().collect::<HashSet<_>>().len() != arena_writes.len() {
                return Err("an in writes one byte twice".into());
            }
            self.ins.push(Touch {
                spill_reads: self.slot_units(copy.slot, copy.bytes)?,
                arena_writes,
                ..Touch::default()
            });
        }
        Ok(())
    }

    fn releases(&mut self) -> Result<(), String> {
        for (index, step) in self.program.steps.iter().enumerate() {
            while (self.out_step.len() as i64) < step.counts.out_released {
                self.queue.push(Event::Out(self.out_step.len()));
                self.out_step.push(index);
            }
            while (self.in_step.len() as i64) < step.counts.in_released {
                self.queue.push(Event::In(self.in_step.len()));
                self.in_step.push(index);
            }
        }
        let lengths = (self.program.outs.len(), self.program.ins.len());
        if (self.out_step.len(), self.in_step.len()) != lengths {
            return Err("not all commands are released, or more".into());
        }
        if self.iterations * lengths.0.max(lengths.1) > 64 {
            return Err("too many commands for the search".into());
        }
        Ok(())
    }

    /// The tag of a unit of a tensor, as step `writer` of all (counted from 1) wrote it.
    pub(super) fn tag(&self, tensor: TensorId, unit: usize, writer: usize) -> Tag {
        let tag = writer * self.tags + self.first_tag[tensor.index()] + unit;
        Tag::try_from(tag).expect("tiny programs")
    }

    /// Who wrote a tensor last before a step of all (counted from 0); 0 is HOME.
    pub(super) fn last_writer(&self, tensor: TensorId, before: usize) -> usize {
        let ops = self.skeleton.ops.len();
        let writes = |step: usize| {
            let accesses = self.skeleton.accesses_of(OpIndex::from_index(step % ops));
            accesses
                .iter()
                .any(|a| a.tensor == tensor && a.mode.writes())
        };
        (0..before)
            .rev()
            .find(|&step| writes(step))
            .map_or(0, |step| step + 1)
    }

    /// Calls back for each unit of each home, with the tag that it has after that many steps.
    pub(super) fn homes(
        &self,
        steps: usize,
        mut each: impl FnMut(bool, usize, Tag) -> Result<(), String>,
    ) -> Result<(), String> {
        for home in &self.program.homes {
            let piece = self.program.piece_bytes.get();
            let first = u64::from(home.pieces.first) * piece;
            let size = self.skeleton.tensor(home.tensor).bytes.0;
            let end = (first + u64::from(home.pieces.count) * piece).min(size);
            let bytes = Bytes(end - first);
            let skip = usize::try_from(first / self.unit).expect("tiny programs");
            let writer = self.last_writer(home.tensor, steps);
            let tag = |unit| self.tag(home.tensor, skip + unit, writer);
            if let Some(place) = home.place {
                for (unit, at) in self.arena_units(place, bytes)?.into_iter().enumerate() {
                    each(false, at, tag(unit))?;
                }
            }
            if let Some(slot) = home.slot {
                for (unit, at) in self.slot_units(slot, bytes)?.into_iter().enumerate() {
                    each(true, at, tag(unit))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn touch(&self, event: Event) -> &Touch {
        match event {
            Event::Step(row) => &self.steps[row],
            Event::Out(row) => &self.outs[row],
            Event::In(row) => &self.ins[row],
        }
    }
}
