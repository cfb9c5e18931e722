//! The order that waits make, on paper: every two commands that must not run at once are ordered.
//!
//! A naive check, which shares nothing with `waits` but its result: streams are lists, waits are
//! edges, and who comes before whom is a set of bits. Commands conflict if they touch the same
//! bytes of arena or spill tier, and one of them writes.

use lgm::plan::Plan;
use vtensor::OpIndex;

use super::{planned, programs};
use crate::cuda::waits::{Awaited, Waits};
use crate::places::{Places, Site};
use crate::scale::Scale;
use crate::table::Table;

/// Iterations that are looked at; the host is two ahead at most, so a fourth shows all there is.
pub(super) const ITERATIONS: u64 = 4;

/// A plan has the same order at any addresses.
struct Nowhere;

impl Places for Nowhere {
    fn address(&self, _: Site) -> std::ptr::NonNull<u8> {
        std::ptr::NonNull::dangling()
    }
}

/// Bytes that a command touches: of the arena (0) or the spill tier (1).
#[derive(Clone, Copy)]
pub(super) struct Touch {
    space: u8,
    start: u64,
    end: u64,
    writes: bool,
}

impl Touch {
    /// Whether both touch the same bytes, and one writes them.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let overlap = self.start < other.end && other.start < self.end;
        self.space == other.space && overlap && (self.writes || other.writes)
    }
}

/// A wait of a stream.
pub(super) struct Wait {
    /// What comes first.
    first: usize,
    /// What is next on the stream; nothing may be.
    next: Option<usize>,
    /// Which record it is for.
    pub(super) record: usize,
}

/// An event that is recorded.
pub(super) struct Record {
    pub(super) iteration: u64,
    /// For which stream's end of an iteration, which the host waits for; `None` for what streams
    /// wait for.
    pub(super) end_of: Option<usize>,
}

/// Who did what when, in the order of enqueuing.
#[derive(Default)]
pub(super) struct Order {
    pub(super) touches: Vec<Vec<Touch>>,
    /// Commands that come before each, by its stream or the host.
    before: Vec<Vec<usize>>,
    /// Each wait in the order of enqueuing.
    pub(super) waits: Vec<Wait>,
    /// Each record in the order of enqueuing.
    pub(super) records: Vec<Record>,
    conflicts: Vec<(usize, usize)>,
    /// Events: which command and which record each stands for.
    recorded: Vec<Vec<Option<(usize, usize)>>>,
    /// The last command of each stream.
    pub(super) last: [Option<usize>; 3],
    /// What the next command of each stream waits for, by number.
    waiting: [Vec<usize>; 3],
    /// The last commands of the streams at the end of each iteration.
    pub(super) ends: Vec<[Option<usize>; 3]>,
}

/// What comes before each command, as sets of bits.
pub(super) struct Earlier(Vec<Vec<u64>>);

impl Earlier {
    /// Whether a command is one of others, or comes before one.
    pub(super) fn known(&self, first: usize, by: &[usize]) -> bool {
        let mut by = by.iter();
        by.any(|&second| first == second || self.comes_before(first, second))
    }

    fn comes_before(&self, first: usize, second: usize) -> bool {
        self.0[second][first / 64] & (1 << (first % 64)) != 0
    }
}

const COMPUTE: usize = 0;
const OUT: usize = 1;
const IN: usize = 2;

impl Order {
    /// The order of a plan's first iterations.
    pub(super) fn of(plan: &Plan, duplex: bool) -> Self {
        let scale = Scale::of(&plan.program, plan.program.page_bytes).unwrap();
        let table = Table::new(plan, scale, &Nowhere);
        let waits = Waits::new(&table, duplex);
        let mut order = Self::default();
        for iteration in 1..=ITERATIONS {
            let events = vec![None; waits.events as usize];
            order.recorded.push(events);
            order.iteration(plan, &waits, iteration, duplex);
            for stream in 0..if duplex { 3 } else { 2 } {
                order.records.push(Record {
                    iteration,
                    end_of: Some(stream),
                });
            }
            order.ends.push(order.last);
        }
        order.find_conflicts();
        order
    }

    fn iteration(&mut self, plan: &Plan, waits: &Waits, iteration: u64, duplex: bool) {
        let ins_stream = if duplex { IN } else { OUT };
        let mut done = [0, 0];
        for (index, step) in plan.program.steps.iter().enumerate() {
            let of_step = waits.steps[index];
            for awaited in [of_step.ins, of_step.outs].into_iter().flatten() {
                self.wait(COMPUTE, awaited, iteration);
            }
            let node = self.push(COMPUTE, iteration, touches_of_step(plan, index));
            let (outs, ins) = (step.counts.out_released, step.counts.in_released);
            if let Some(end) = of_step.end {
                self.record(iteration, end, node);
                let end = Awaited {
                    event: end,
                    back: 0,
                };
                if of_step.outs_wait {
                    self.wait(OUT, end, iteration);
                }
                for out in done[0]..outs {
                    let out = usize::try_from(out).unwrap();
                    let node = self.push(OUT, iteration, touches_of_out(plan, out));
                    if let Some(event) = waits.outs[out].done {
                        self.record(iteration, event, node);
                    }
                }
                if of_step.ins_wait {
                    self.wait(ins_stream, end, iteration);
                }
                for r#in in done[1]..ins {
                    let r#in = usize::try_from(r#in).unwrap();
                    if let Some(awaited) = waits.ins[r#in].after {
                        self.wait(ins_stream, awaited, iteration);
                    }
                    let node = self.push(ins_stream, iteration, touches_of_in(plan, r#in));
                    if let Some(event) = waits.ins[r#in].done {
                        self.record(iteration, event, node);
                    }
                }
            }
            done = [outs, ins];
        }
    }

    fn record(&mut self, iteration: u64, event: u32, node: usize) {
        let set = usize::try_from(iteration - 1).unwrap();
        self.recorded[set][event as usize] = Some((node, self.records.len()));
        self.records.push(Record {
            iteration,
            end_of: None,
        });
    }

    fn wait(&mut self, stream: usize, awaited: Awaited, iteration: u64) {
        let recorded = iteration - u64::from(awaited.back);
        if recorded == 0 {
            return;
        }
        let set = usize::try_from(recorded - 1).unwrap();
        let found = self.recorded[set][awaited.event as usize];
        let (first, record) = found.expect("a wait is for what was recorded before");
        self.waiting[stream].push(self.waits.len());
        self.waits.push(Wait {
            first,
            next: None,
            record,
        });
    }

    fn push(&mut self, stream: usize, iteration: u64, touches: Vec<Touch>) -> usize {
        let node = self.touches.len();
        let mut before: Vec<usize> = self.last[stream].into_iter().collect();
        // The host has seen the end of the last iteration but one.
        if iteration > 2 {
            let seen = self.ends[usize::try_from(iteration - 3).unwrap()];
            before.extend(seen.into_iter().flatten());
        }
        for wait in std::mem::take(&mut self.waiting[stream]) {
            self.waits[wait].next = Some(node);
        }
        self.touches.push(touches);
        self.before.push(before);
        self.last[stream] = Some(node);
        node
    }

    fn find_conflicts(&mut self) {
        for second in 0..self.touches.len() {
            for first in 0..second {
                let touched = |a| self.touches[second].iter().any(|b| b.conflicts(a));
                if self.touches[first].iter().any(touched) {
                    self.conflicts.push((first, second));
                }
            }
        }
    }

    /// What comes before what, without some of the waits.
    pub(super) fn earlier(&self, without: impl Fn(usize, &Wait) -> bool) -> Earlier {
        let words = self.touches.len().div_ceil(64);
        let mut earlier = vec![vec![0_u64; words]; self.touches.len()];
        for node in 0..self.touches.len() {
            let waits = self.waits.iter().enumerate();
            let waits = waits
                .filter(|(index, wait)| wait.next == Some(node) && !without(*index, wait))
                .map(|(_, wait)| wait.first);
            let firsts: Vec<usize> = self.before[node].iter().copied().chain(waits).collect();
            for first in firsts {
                assert!(first < node, "enqueuing is an order of all waits");
                let of_first = earlier[first].clone();
                for (word, other) in earlier[node].iter_mut().zip(of_first) {
                    *word |= other;
                }
                earlier[node][first / 64] |= 1 << (first % 64);
            }
        }
        Earlier(earlier)
    }

    /// Commands that conflict and are not ordered, without some of the waits.
    pub(super) fn races(&self, without: impl Fn(usize, &Wait) -> bool) -> Vec<(usize, usize)> {
        let earlier = self.earlier(without);
        let conflicts = self.conflicts.iter().copied();
        conflicts
            .filter(|(first, second)| !earlier.comes_before(*first, *second))
            .collect()
    }
}

pub(super) fn arena(
    plan: &Plan,
    place: vtensor::Place,
    bytes: vtensor::Bytes,
    writes: bool,
) -> impl Iterator<Item = Touch> {
    plan.program
        .arena_ranges(place, bytes)
        .map(move |range| Touch {
            space: 0,
            start: range.start,
            end: range.end,
            writes,
        })
}

fn touches_of_step(plan: &Plan, index: usize) -> Vec<Touch> {
    let step = &plan.program.steps[index];
    let accesses = plan.skeleton.accesses_of(OpIndex::from_index(index));
    let places = &plan.program.places[step.first_place as usize..];
    let touched = accesses.iter().zip(places).flat_map(|(access, place)| {
        let bytes = plan.skeleton.tensor(access.tensor).bytes;
        arena(plan, *place, bytes, access.mode.writes())
    });
    touched.collect()
}

fn slot(start: u64, bytes: vtensor::Bytes, writes: bool) -> Touch {
    Touch {
        space: 1,
        start,
        end: start + bytes.0,
        writes,
    }
}

fn touches_of_out(plan: &Plan, index: usize) -> Vec<Touch> {
    let out = &plan.program.outs[index];
    let source = arena(plan, out.source, out.bytes, false);
    source.chain([slot(out.slot, out.bytes, true)]).collect()
}

fn touches_of_in(plan: &Plan, index: usize) -> Vec<Touch> {
    let r#in = &plan.program.ins[index];
    let target = arena(plan, r#in.destination, r#in.bytes, true);
    target.chain([slot(r#in.slot, r#in.bytes, false)]).collect()
}

#[test]
fn what_conflicts_is_ordered() {
    let mut tried = programs();
    for seed in 0..12 {
        for percent in [70, 50] {
            tried.push(("planned", planned(seed, percent)));
        }
    }
    for (name, plan) in tried {
        for duplex in [true, false] {
            let order = Order::of(&plan, duplex);
            assert!(!order.conflicts.is_empty(), "{name}");
            assert_eq!(order.races(|_, _| false), [], "{name}, duplex {duplex}");
        }
    }
}
