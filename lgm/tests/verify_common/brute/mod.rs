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

mod tables;

use std::collections::HashSet;

use lgm::program::Program;
use lgm::skeleton::Skeleton;
use vtensor::OpIndex;

use tables::{Event, Tables, Tag};

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

/// A search for harm.
struct Search<'a> {
    tables: Tables<'a>,
    engines: Engines,
}

/// Tries all timings of that many iterations from HOME.
pub(crate) fn search(
    skeleton: &Skeleton,
    program: &Program,
    engines: Engines,
    iterations: usize,
    states_max: usize,
) -> Outcome {
    match Tables::new(skeleton, program, iterations) {
        Ok(tables) => Search { tables, engines }.run(states_max),
        Err(harm) => Outcome::Harm(harm),
    }
}

impl Search<'_> {
    fn first_state(&self) -> Result<State, String> {
        let units = |bytes: u64| usize::try_from(bytes / self.tables.unit).map_err(|_| "too large");
        let page = self.tables.program.page_bytes.get();
        let mut state = State {
            steps_done: 0,
            step_runs: false,
            outs_started: 0,
            ins_started: 0,
            outs_done: 0,
            ins_done: 0,
            arena: vec![0; units(u64::from(self.tables.program.arena_pages) * page)?],
            spill: vec![0; units(self.tables.program.spill_bytes.0)?],
        };
        self.tables.homes(0, |in_spill, at, tag| {
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
        let all = self.tables.iterations * self.tables.skeleton.ops.len();
        let outs = self.tables.iterations * self.tables.program.outs.len();
        let ins = self.tables.iterations * self.tables.program.ins.len();
        if (state.steps_done, state.outs_started, state.ins_started) != (all, outs, ins) {
            return Err(format!("deadlock after {} steps", state.steps_done));
        }
        self.tables.homes(all, |in_spill, at, tag| {
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
            self.tables.skeleton.ops.len(),
            self.tables.program.outs.len(),
            self.tables.program.ins.len(),
        );
        let met = |done: u64, base: usize, count: i64| {
            i64::from(done.trailing_ones()) >= count.saturating_add(base as i64)
        };
        if !state.step_runs && state.steps_done < self.tables.iterations * ops {
            let (iteration, step) = (state.steps_done / ops, state.steps_done % ops);
            let counts = &self.tables.program.steps[step].counts;
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
        if outs > 0 && state.outs_started < self.tables.iterations * outs {
            let (iteration, row) = (state.outs_started / outs, state.outs_started % outs);
            let mine = turn.is_none_or(|turn| turn == Event::Out(row));
            if mine && complete(iteration, self.tables.out_step[row]) {
                self.check_conflicts(state, Event::Out(row))?;
                let mut state = state.clone();
                state.outs_started += 1;
                next.push(state);
            }
        }
        if ins > 0 && state.ins_started < self.tables.iterations * ins {
            let (iteration, row) = (state.ins_started / ins, state.ins_started % ins);
            let mine = turn.is_none_or(|turn| turn == Event::In(row));
            let after_out = self.tables.program.ins[row].after_out;
            if mine
                && complete(iteration, self.tables.in_step[row])
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
        if self.engines == Engines::Two || self.tables.queue.is_empty() {
            return None;
        }
        Some(self.tables.queue[(state.outs_started + state.ins_started) % self.tables.queue.len()])
    }

    fn check_reads(&self, state: &State, step: usize) -> Result<(), String> {
        let first = self.tables.program.steps[step].first_place as usize;
        let accesses = self.tables.skeleton.accesses_of(OpIndex::from_index(step));
        for (row, access) in accesses.iter().enumerate() {
            if !access.mode.reads() {
                continue;
            }
            let bytes = self.tables.skeleton.tensor(access.tensor).bytes;
            let writer = self.tables.last_writer(access.tensor, state.steps_done);
            let units = self
                .tables
                .arena_units(self.tables.program.places[first + row], bytes)?;
            for (unit, at) in units.into_iter().enumerate() {
                if state.arena[at] != self.tables.tag(access.tensor, unit, writer) {
                    return Err(format!(
                        "step {step} reads a wrong tensor {}",
                        access.tensor
                    ));
                }
            }
        }
        Ok(())
    }

    /// The copies under way, by absolute number and row.
    fn running(started: usize, done: u64, rows: usize) -> impl Iterator<Item = (usize, usize)> {
        let rows = rows.max(1);
        (0..started)
            .filter(move |&n| done & (1 << n) == 0)
            .map(move |n| (n, n % rows))
    }

    fn check_conflicts(&self, state: &State, event: Event) -> Result<(), String> {
        let (outs, ins) = (
            self.tables.program.outs.len(),
            self.tables.program.ins.len(),
        );
        let outs = Self::running(state.outs_started, state.outs_done, outs);
        let ins = Self::running(state.ins_started, state.ins_done, ins);
        let step = state
            .step_runs
            .then(|| state.steps_done % self.tables.skeleton.ops.len());
        let others = outs
            .map(|(_, row)| Event::Out(row))
            .chain(ins.map(|(_, row)| Event::In(row)))
            .chain(step.map(Event::Step));
        for other in others {
            if self.tables.touch(event).conflicts(self.tables.touch(other)) {
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
        let ops = self.tables.skeleton.ops.len();
        if state.step_runs {
            let mut after = state.clone();
            let step = state.steps_done % ops;
            let first = self.tables.program.steps[step].first_place as usize;
            let accesses = self.tables.skeleton.accesses_of(OpIndex::from_index(step));
            for (row, access) in accesses.iter().enumerate() {
                let bytes = self.tables.skeleton.tensor(access.tensor).bytes;
                let units = self
                    .tables
                    .arena_units(self.tables.program.places[first + row], bytes)?;
                for (unit, at) in units.into_iter().enumerate() {
                    if access.mode.writes() {
                        after.arena[at] =
                            self.tables.tag(access.tensor, unit, state.steps_done + 1);
                    }
                }
            }
            after.step_runs = false;
            after.steps_done += 1;
            next.push(after);
        }
        let outs = self.tables.program.outs.len();
        for (number, row) in Self::running(state.outs_started, state.outs_done, outs) {
            let mut after = state.clone();
            let touch = &self.tables.outs[row];
            for (&from, &to) in touch.arena_reads.iter().zip(&touch.spill_writes) {
                after.spill[to] = after.arena[from];
            }
            after.outs_done |= 1 << number;
            next.push(after);
        }
        let ins = self.tables.program.ins.len();
        for (number, row) in Self::running(state.ins_started, state.ins_done, ins) {
            let mut after = state.clone();
            let touch = &self.tables.ins[row];
            for (&from, &to) in touch.spill_reads.iter().zip(&touch.arena_writes) {
                after.arena[to] = after.spill[from];
            }
            after.ins_done |= 1 << number;
            next.push(after);
        }
        Ok(())
    }
}
