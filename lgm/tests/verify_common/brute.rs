//! An executor that tries every timing of a tiny program, by the rules of execution E1–E4 alone.
//!
//! The start and the end of every step and copy are events of their own. Copies start in the
//! order of their queue and end in any. A state of the search is: what has started, what has
//! ended, and what every unit of memory holds. It finds:
//!
//! - a write that overlaps in time with any use of the same bytes,
//! - a step that reads anything but its tensor's last version,
//! - a boundary at which HOME does not hold once all copies are complete,
//! - a deadlock.
//!
//! It shares nothing with the verifier but the data of a program.

use std::collections::HashSet;

use lgm::program::Program;
use lgm::skeleton::Skeleton;
use vtensor::{Bytes, Mode, OpIndex, Place, TensorId};

/// What came out of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No timing does harm.
    Safe {
        /// How many states there are.
        states: usize,
    },
    /// Some timing does.
    Harm(String),
    /// There are more states than the search may visit.
    Unknown,
}

/// How many engines copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engines {
    One,
    Two,
}

/// What a unit of memory holds: a unit of a tensor in some version; 0 is nothing.
type Tag = u32;

/// Where an event reads and writes, in units.
#[derive(Clone, Default)]
struct Touch {
    arena_reads: Vec<usize>,
    arena_writes: Vec<usize>,
    spill_reads: Vec<usize>,
    spill_writes: Vec<usize>,
}

impl Touch {
    fn conflicts(&self, other: &Self) -> bool {
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
enum Event {
    Step(usize),
    Out(usize),
    In(usize),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    steps_done: usize,
    step_runs: bool,
    outs_started: usize,
    ins_started: usize,
    outs_done: u64,
    ins_done: u64,
    arena: Vec<Tag>,
    spill: Vec<Tag>,
}

/// The tables of the search.
struct Search<'a> {
    skeleton: &'a Skeleton,
    program: &'a Program,
    engines: Engines,
    iterations: usize,
    unit: u64,
    /// Each tensor's first tag inside one version, and how many there are.
    first_tag: Vec<usize>,
    tags: usize,
    steps: Vec<Touch>,
    outs: Vec<Touch>,
    ins: Vec<Touch>,
    /// The step that releases each command.
    out_step: Vec<usize>,
    in_step: Vec<usize>,
    /// The one queue of E4.
    queue: Vec<Event>,
}

/// Tries all timings of that many iterations from HOME.
pub(crate) fn search(
    skeleton: &Skeleton,
    program: &Program,
    engines: Engines,
    iterations: usize,
    states_max: usize,
) -> Outcome {
    match Search::new(skeleton, program, engines, iterations) {
        Ok(search) => search.run(states_max),
        Err(harm) => Outcome::Harm(harm),
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

impl<'a> Search<'a> {
    fn new(
        skeleton: &'a Skeleton,
        program: &'a Program,
        engines: Engines,
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
        let mut search = Self {
            skeleton,
            program,
            engines,
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
        search.touches()?;
        search.releases()?;
        Ok(search)
    }

    /// The units of the arena under a place, found page by page.
    fn arena_units(&self, place: Place, bytes: Bytes) -> Result<Vec<usize>, String> {
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
    fn tag(&self, tensor: TensorId, unit: usize, writer: usize) -> Tag {
        let tag = writer * self.tags + self.first_tag[tensor.index()] + unit;
        Tag::try_from(tag).expect("tiny programs")
    }

    /// Who wrote a tensor last before a step of all (counted from 0); 0 is HOME.
    fn last_writer(&self, tensor: TensorId, before: usize) -> usize {
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

    fn first_state(&self) -> Result<State, String> {
        let units = |bytes: u64| usize::try_from(bytes / self.unit).map_err(|_| "too large");
        let page = self.program.page_bytes.get();
        let mut state = State {
            steps_done: 0,
            step_runs: false,
            outs_started: 0,
            ins_started: 0,
            outs_done: 0,
            ins_done: 0,
            arena: vec![0; units(u64::from(self.program.arena_pages) * page)?],
            spill: vec![0; units(self.program.spill_bytes.0)?],
        };
        self.homes(0, |in_spill, at, tag| {
            let memory = if in_spill {
                &mut state.spill
            } else {
                &mut state.arena
            };
            let free = memory[at] == 0;
            memory[at] = tag;
            if free {
                Ok(())
            } else {
                Err("homes overlap".into())
            }
        })?;
        Ok(state)
    }

    /// Calls back for each unit of each home, with the tag that it has after that many steps.
    fn homes(
        &self,
        steps: usize,
        mut each: impl FnMut(bool, usize, Tag) -> Result<(), String>,
    ) -> Result<(), String> {
        for home in &self.program.homes {
            let page = self.program.page_bytes.get();
            let first = u64::from(home.pieces.first) * page;
            let size = self.skeleton.tensor(home.tensor).bytes.0;
            let end = (first + u64::from(home.pieces.count) * page).min(size);
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

    fn run(&self, states_max: usize) -> Outcome {
        let first = match self.first_state() {
            Ok(state) => state,
            Err(harm) => return Outcome::Harm(harm),
        };
        let mut seen = HashSet::new();
        let mut open = vec![first.clone()];
        seen.insert(first);
        while let Some(state) = open.pop() {
            let mut next = Vec::new();
            if let Err(harm) = self.successors(&state, &mut next) {
                return Outcome::Harm(harm);
            }
            for state in next {
                if seen.insert(state.clone()) {
                    if seen.len() > states_max {
                        return Outcome::Unknown;
                    }
                    open.push(state);
                }
            }
        }
        Outcome::Safe { states: seen.len() }
    }

    fn successors(&self, state: &State, next: &mut Vec<State>) -> Result<(), String> {
        self.starts(state, next)?;
        self.ends(state, next)?;
        if !next.is_empty() {
            return Ok(());
        }
        let all = self.iterations * self.skeleton.ops.len();
        let outs = self.iterations * self.program.outs.len();
        let ins = self.iterations * self.program.ins.len();
        if (state.steps_done, state.outs_started, state.ins_started) != (all, outs, ins) {
            return Err(format!("deadlock after {} steps", state.steps_done));
        }
        self.homes(all, |in_spill, at, tag| {
            let memory = if in_spill { &state.spill } else { &state.arena };
            if memory[at] == tag {
                Ok(())
            } else {
                Err("HOME does not hold at the end".into())
            }
        })
    }

    fn starts(&self, state: &State, next: &mut Vec<State>) -> Result<(), String> {
        let (ops, outs, ins) = (
            self.skeleton.ops.len(),
            self.program.outs.len(),
            self.program.ins.len(),
        );
        let met = |done: u64, base: usize, count: i64| {
            i64::from(done.trailing_ones()) >= count.saturating_add(base as i64)
        };
        if !state.step_runs && state.steps_done < self.iterations * ops {
            let (iteration, step) = (state.steps_done / ops, state.steps_done % ops);
            let counts = &self.program.steps[step].counts;
            if met(state.outs_done, iteration * outs, counts.out_needed)
                && met(state.ins_done, iteration * ins, counts.in_needed)
            {
                self.check_reads(state, step)?;
                self.check_conflicts(state, Event::Step(step))?;
                let mut state = state.clone();
                state.step_runs = true;
                next.push(state);
            }
        }
        let complete = |iteration: usize, step: usize| state.steps_done > iteration * ops + step;
        let turn = self.turn(state);
        if outs > 0 && state.outs_started < self.iterations * outs {
            let (iteration, row) = (state.outs_started / outs, state.outs_started % outs);
            let mine = turn.is_none_or(|turn| turn == Event::Out(row));
            if mine && complete(iteration, self.out_step[row]) {
                self.check_conflicts(state, Event::Out(row))?;
                let mut state = state.clone();
                state.outs_started += 1;
                next.push(state);
            }
        }
        if ins > 0 && state.ins_started < self.iterations * ins {
            let (iteration, row) = (state.ins_started / ins, state.ins_started % ins);
            let mine = turn.is_none_or(|turn| turn == Event::In(row));
            let after_out = self.program.ins[row].after_out;
            if mine
                && complete(iteration, self.in_step[row])
                && met(state.outs_done, iteration * outs, after_out)
            {
                self.check_conflicts(state, Event::In(row))?;
                let mut state = state.clone();
                state.ins_started += 1;
                next.push(state);
            }
        }
        Ok(())
    }

    /// Whose turn it is in the one queue, where there is one.
    fn turn(&self, state: &State) -> Option<Event> {
        if self.engines == Engines::Two || self.queue.is_empty() {
            return None;
        }
        Some(self.queue[(state.outs_started + state.ins_started) % self.queue.len()])
    }

    fn check_reads(&self, state: &State, step: usize) -> Result<(), String> {
        let first = self.program.steps[step].first_place as usize;
        let accesses = self.skeleton.accesses_of(OpIndex::from_index(step));
        for (row, access) in accesses.iter().enumerate() {
            if !access.mode.reads() {
                continue;
            }
            let bytes = self.skeleton.tensor(access.tensor).bytes;
            let writer = self.last_writer(access.tensor, state.steps_done);
            let units = self.arena_units(self.program.places[first + row], bytes)?;
            for (unit, at) in units.into_iter().enumerate() {
                if state.arena[at] != self.tag(access.tensor, unit, writer) {
                    return Err(format!(
                        "step {step} reads a wrong tensor {}",
                        access.tensor
                    ));
                }
            }
        }
        Ok(())
    }

    fn touch(&self, event: Event) -> &Touch {
        match event {
            Event::Step(row) => &self.steps[row],
            Event::Out(row) => &self.outs[row],
            Event::In(row) => &self.ins[row],
        }
    }

    /// The copies under way, by absolute number and row.
    fn running(started: usize, done: u64, rows: usize) -> impl Iterator<Item = (usize, usize)> {
        let rows = rows.max(1);
        (0..started)
            .filter(move |&n| done & (1 << n) == 0)
            .map(move |n| (n, n % rows))
    }

    fn check_conflicts(&self, state: &State, event: Event) -> Result<(), String> {
        let (outs, ins) = (self.program.outs.len(), self.program.ins.len());
        let outs = Self::running(state.outs_started, state.outs_done, outs);
        let ins = Self::running(state.ins_started, state.ins_done, ins);
        let step = state
            .step_runs
            .then(|| state.steps_done % self.skeleton.ops.len());
        let others = outs
            .map(|(_, row)| Event::Out(row))
            .chain(ins.map(|(_, row)| Event::In(row)))
            .chain(step.map(Event::Step));
        for other in others {
            if self.touch(event).conflicts(self.touch(other)) {
                let name = |event| match event {
                    Event::Step(row) => format!("step {row}"),
                    Event::Out(row) => format!("out {row}"),
                    Event::In(row) => format!("in {row}"),
                };
                return Err(format!("{} during {}", name(event), name(other)));
            }
        }
        Ok(())
    }

    fn ends(&self, state: &State, next: &mut Vec<State>) -> Result<(), String> {
        let ops = self.skeleton.ops.len();
        if state.step_runs {
            let mut after = state.clone();
            let step = state.steps_done % ops;
            let first = self.program.steps[step].first_place as usize;
            let accesses = self.skeleton.accesses_of(OpIndex::from_index(step));
            for (row, access) in accesses.iter().enumerate() {
                let bytes = self.skeleton.tensor(access.tensor).bytes;
                let units = self.arena_units(self.program.places[first + row], bytes)?;
                for (unit, at) in units.into_iter().enumerate() {
                    if access.mode.writes() {
                        after.arena[at] = self.tag(access.tensor, unit, state.steps_done + 1);
                    }
                }
            }
            after.step_runs = false;
            after.steps_done += 1;
            next.push(after);
        }
        let outs = self.program.outs.len();
        for (number, row) in Self::running(state.outs_started, state.outs_done, outs) {
            let mut after = state.clone();
            let touch = &self.outs[row];
            for (&from, &to) in touch.arena_reads.iter().zip(&touch.spill_writes) {
                after.spill[to] = after.arena[from];
            }
            after.outs_done |= 1 << number;
            next.push(after);
        }
        let ins = self.program.ins.len();
        for (number, row) in Self::running(state.ins_started, state.ins_done, ins) {
            let mut after = state.clone();
            let touch = &self.ins[row];
            for (&from, &to) in touch.spill_reads.iter().zip(&touch.arena_writes) {
                after.arena[to] = after.spill[from];
            }
            after.ins_done |= 1 << number;
            next.push(after);
        }
        Ok(())
    }
}
