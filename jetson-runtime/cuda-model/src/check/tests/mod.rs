//! The checker against a naive model, on small programs of random calls.

mod naive;

use std::ops::Range;

use self::naive::{Naive, Node};
use super::{Clock, Line, Mode, Order};
use crate::space::AllocationId;

/// Streams and events of a program; the host is one more line.
const STREAMS: usize = 3;
const EVENTS: usize = 3;
const ALLOCATIONS: u32 = 2;
const BYTES: u64 = 12;

/// One call of a random program.
#[derive(Clone, Debug)]
enum Call {
    Touch {
        line: usize,
        allocation: u32,
        range: Range<u64>,
        mode: Mode,
    },
    Record(usize, usize),
    Wait(usize, usize),
    Sync(usize),
    SyncEvent(usize),
}

fn pick(random: &mut oorandom::Rand64, below: usize) -> usize {
    usize::try_from(random.rand_range(0..below as u64)).unwrap()
}

fn random_call(random: &mut oorandom::Rand64) -> Call {
    let line = pick(random, STREAMS) + 1;
    let event = pick(random, EVENTS);
    match pick(random, 10) {
        0 | 1 => Call::Record(event, line),
        2 | 3 => Call::Wait(line, event),
        4 => Call::Sync(line),
        5 => Call::SyncEvent(event),
        _ => {
            let start = random.rand_range(0..BYTES);
            Call::Touch {
                line: pick(random, STREAMS + 1),
                allocation: u32::try_from(pick(random, ALLOCATIONS as usize)).unwrap(),
                range: start..random.rand_range(start + 1..BYTES + 1),
                mode: [Mode::Read, Mode::Write, Mode::Atomic][pick(random, 3)],
            }
        }
    }
}

/// The checker and the naive model, fed with the same calls.
struct Both {
    order: Order,
    lines: Vec<Line>,
    events: Vec<Option<Clock>>,
    naive: Naive,
}

impl Both {
    fn new() -> Self {
        let mut order = Order::new();
        let streams = (0..STREAMS).map(|_| order.add_line());
        let lines = std::iter::once(Line::HOST).chain(streams).collect();
        Self {
            order,
            lines,
            events: vec![None; EVENTS],
            naive: Naive::new(STREAMS + 1, EVENTS),
        }
    }

    /// Makes a call of both; whether it is a race. Panics where they disagree.
    fn call(&mut self, call: &Call, raced: bool) -> bool {
        match call.clone() {
            Call::Record(event, line) => {
                let at = self.lines[line];
                self.order.wait_for_line(at, Line::HOST);
                self.events[event] = Some(self.order.clock(at).clone());
                self.naive.record(event, line);
            }
            Call::Wait(line, event) => {
                if let Some(clock) = &self.events[event] {
                    self.order.wait(self.lines[line], clock);
                }
                self.naive.wait(line, event);
            }
            Call::Sync(line) => {
                self.order.wait_for_line(Line::HOST, self.lines[line]);
                self.naive.sync(line);
            }
            Call::SyncEvent(event) => {
                if let Some(clock) = &self.events[event] {
                    self.order.wait(Line::HOST, clock);
                }
                self.naive.wait(0, event);
            }
            Call::Touch {
                line,
                allocation,
                range,
                mode,
            } => return self.touch(line, allocation, range, mode, raced),
        }
        false
    }

    fn touch(
        &mut self,
        line: usize,
        allocation: u32,
        range: Range<u64>,
        mode: Mode,
        raced: bool,
    ) -> bool {
        let mark = self.order.work(self.lines[line], "work");
        let id = AllocationId(allocation);
        let found = self.order.touch(mark, id, range.clone(), mode);
        let node = Node {
            line,
            number: mark.number,
            allocation,
            range,
            mode,
        };
        let races = self.naive.touch(node);
        for conflict in &found {
            let real = races.iter().any(|node| {
                self.lines[node.line] == conflict.earlier.line
                    && node.number == conflict.earlier.number
                    && node.mode == conflict.mode
            });
            assert!(real, "{conflict:?} is no conflict: {races:?}");
        }
        if !raced {
            assert_eq!(found.is_empty(), races.is_empty(), "missed {races:?}");
        }
        let pending = self.order.pending(id).is_some();
        assert_eq!(pending, self.naive.pending(allocation), "pending");
        !races.is_empty()
    }
}

#[test]
fn the_first_race_is_found_and_no_other_is_invented() {
    let (mut clean, mut racing) = (0, 0);
    for seed in 0..4000 {
        let mut random = oorandom::Rand64::new(seed);
        let mut both = Both::new();
        let mut raced = false;
        let mut calls = Vec::new();
        for _ in 0..40 {
            let call = random_call(&mut random);
            calls.push(call.clone());
            let both = std::panic::AssertUnwindSafe(&mut both);
            let step = std::panic::catch_unwind(move || {
                let both = both;
                both.0.call(&call, raced)
            });
            raced |= step.unwrap_or_else(|_| panic!("seed {seed}: {calls:#?}"));
        }
        *(if raced { &mut racing } else { &mut clean }) += 1;
    }
    assert!(
        clean > 50 && racing > 1000,
        "{clean} clean, {racing} racing"
    );
}

#[test]
fn all_short_programs_of_two_streams_agree() {
    let mut menu = vec![
        Call::Record(0, 1),
        Call::Wait(2, 0),
        Call::Sync(1),
        Call::SyncEvent(0),
    ];
    for (line, mode) in [
        (1, Mode::Write),
        (2, Mode::Read),
        (2, Mode::Atomic),
        (0, Mode::Write),
    ] {
        menu.push(Call::Touch {
            line,
            allocation: 0,
            range: 0..2,
            mode,
        });
    }
    // Every program of five calls.
    for program in 0..menu.len().pow(5) {
        let mut both = Both::new();
        let mut raced = false;
        let mut rest = program;
        for _ in 0..5 {
            raced |= both.call(&menu[rest % menu.len()], raced);
            rest /= menu.len();
        }
    }
}
