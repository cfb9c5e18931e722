//! The cost model: how long an iteration takes, by exactly the executor's rules (E1–E4).
//!
//! In: durations of steps and copies, and what waits for what. Out: the steady iteration time and
//! when each step starts. The model is a simulation, not an estimate: given true durations it gives
//! the time that the rules give. It runs whole iterations until two take the same time.
//!
//! *Not here*: places, pages, choices. It scores; it does not judge whether a program is sound.

use core::ops::Range;

use crate::count::to_i64;
use crate::moves::Move;
use crate::profile::Link;
use crate::program::Program;
use crate::queues::Queues;
use crate::skeleton::Skeleton;
use vtensor::{Bytes, StepCounts};

/// Iterations that are simulated at most.
const ROUNDS_MAX: usize = 16;

/// A copy in, as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadIn {
    /// How long it takes, in nanoseconds.
    pub ns: u64,
    /// Outs that must be complete before it starts, relative to its iteration.
    pub after_out: i64,
}

/// What a program asks of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How long each step computes, in nanoseconds.
    pub steps_ns: Vec<u64>,
    /// What each step waits for and releases.
    pub counts: Vec<StepCounts>,
    /// How long each out takes, in nanoseconds.
    pub outs_ns: Vec<u64>,
    /// The ins.
    pub ins: Vec<LoadIn>,
    /// Whether outs and ins have an engine each.
    pub duplex: bool,
}

/// When things happen in a steady iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// How long an iteration takes, in nanoseconds.
    pub iteration_ns: u64,
    /// When each step starts, in nanoseconds from the start of its iteration.
    pub starts_ns: Vec<u64>,
    /// Whether the last two simulated iterations took the same time.
    pub steady: bool,
}

/// How long a copy of `bytes` takes at `bps` bytes per second, in nanoseconds.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn copy_ns(bytes: Bytes, bps: f64, latency_ns: u64) -> u64 {
    // Saturating by the cast's definition: a link this slow is still a number.
    latency_ns.saturating_add((bytes.0 as f64 / bps * 1e9).ceil() as u64)
}

impl Load {
    /// The load of a program whose steps are the ops of a skeleton.
    #[must_use]
    pub fn of_program(skeleton: &Skeleton, program: &Program, link: &Link) -> Self {
        let steps_ns = skeleton.ops.iter().map(|op| op.duration_ns);
        let outs = program.outs.iter();
        let ins = program.ins.iter().map(|queued| LoadIn {
            ns: copy_ns(queued.bytes, link.in_bps, link.copy_latency_ns),
            after_out: queued.after_out,
        });
        Self {
            steps_ns: steps_ns.collect(),
            counts: program.steps.iter().map(|step| step.counts).collect(),
            outs_ns: outs
                .map(|out| copy_ns(out.bytes, link.out_bps, link.copy_latency_ns))
                .collect(),
            ins: ins.collect(),
            duplex: link.duplex,
        }
    }

    /// The load of queues that have no places yet.
    #[must_use]
    pub fn of_queues(skeleton: &Skeleton, moves: &[Move], queues: &Queues, link: &Link) -> Self {
        let steps = skeleton.ops.len();
        let mut counts: Vec<StepCounts> = (0..steps)
            .map(|step| StepCounts {
                out_needed: queues.out_needed[step],
                in_needed: queues.in_needed[step],
                ..StepCounts::default()
            })
            .collect();
        for out in &queues.outs {
            counts[out.release as usize].out_released += 1;
        }
        for queued in &queues.ins {
            counts[queued.release as usize].in_released += 1;
        }
        for step in 1..steps {
            counts[step].out_released += counts[step - 1].out_released;
            counts[step].in_released += counts[step - 1].in_released;
        }
        let latency = link.copy_latency_ns;
        let out_ns = |row: usize| copy_ns(moves[row].bytes, link.out_bps, latency);
        let in_ns = |row: usize| copy_ns(moves[row].bytes, link.in_bps, latency);
        Self {
            steps_ns: skeleton.ops.iter().map(|op| op.duration_ns).collect(),
            counts,
            outs_ns: queues.outs.iter().map(|out| out_ns(out.row)).collect(),
            ins: queues
                .ins
                .iter()
                .map(|i| LoadIn {
                    ns: in_ns(i.row),
                    after_out: i.after_out,
                })
                .collect(),
            duplex: link.duplex,
        }
    }

    /// The time of all steps, one after the other, in nanoseconds.
    #[must_use]
    pub fn compute_ns(&self) -> u64 {
        self.steps_ns.iter().sum()
    }

    /// Simulates iterations until two take the same time, at most sixteen.
    #[must_use]
    pub fn simulate(&self) -> Timeline {
        self.run().0
    }

    /// The same; also when copies are complete, and when the last iteration ends.
    fn run(&self) -> (Timeline, Done, u64) {
        let mut done = Done {
            outs: vec![0; 2 * self.outs_ns.len()],
            ins: vec![0; 2 * self.ins.len()],
            out_end: 0,
            in_end: 0,
        };
        let mut timeline = Timeline::default();
        let (mut end, mut before) = (0, None);
        for _ in 0..ROUNDS_MAX {
            let start = end;
            end = self.iterate(start, &mut done, &mut timeline.starts_ns);
            let took = end - start;
            timeline.iteration_ns = took;
            timeline.steady = before == Some(took);
            if timeline.steady {
                break;
            }
            before = Some(took);
        }
        (timeline, done, end)
    }

    /// Where a steady iteration waits, and for which copies.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let (timeline, done, end) = self.run();
        let start = end - timeline.iteration_ns;
        let mut ready = 0;
        let mut waits = Vec::new();
        for (step, &starts) in timeline.starts_ns.iter().enumerate() {
            if starts > ready {
                let counts = self.counts[step];
                let (outs, ins) = (self.outs_ns.len(), self.ins.len());
                let by_out = done_at(&done.outs, outs, counts.out_needed) == start + starts;
                let mut wait = Wait {
                    step,
                    ns: starts - ready,
                    outs: 0..0,
                    ins: 0..0,
                };
                if by_out {
                    wait.outs = self.busy_outs(&done, counts.out_needed);
                } else {
                    wait.ins = busy(&done.ins, ins, counts.in_needed, |row| self.ins[row].ns);
                    let first = self.ins.get(wait.ins.start % ins.max(1));
                    wait.outs = first.map_or(0..0, |first| {
                        // It may have waited for outs itself, of its own iteration or the last.
                        let later = if wait.ins.start < ins { outs } else { 0 };
                        self.busy_outs(&done, first.after_out - to_i64(later))
                    });
                }
                waits.push(wait);
            }
            ready = starts + self.steps_ns[step];
        }
        waits
    }

    fn busy_outs(&self, done: &Done, count: i64) -> Range<usize> {
        busy(&done.outs, self.outs_ns.len(), count, |row| {
            self.outs_ns[row]
        })
    }

    /// One iteration from `start` on; returns when it ends.
    fn iterate(&self, start: u64, done: &mut Done, starts: &mut Vec<u64>) -> u64 {
        let (outs, ins) = (self.outs_ns.len(), self.ins.len());
        done.outs.copy_within(outs.., 0);
        done.ins.copy_within(ins.., 0);
        starts.clear();
        let (mut next_out, mut next_in) = (0, 0);
        let mut now = start;
        for (step, counts) in self.counts.iter().enumerate() {
            now = now
                .max(done_at(&done.outs, outs, counts.out_needed))
                .max(done_at(&done.ins, ins, counts.in_needed));
            starts.push(now - start);
            now += self.steps_ns[step];
            while to_i64(next_out) < counts.out_released {
                done.out_end = done.out_end.max(now) + self.outs_ns[next_out];
                done.outs[outs + next_out] = done.out_end;
                if !self.duplex {
                    done.in_end = done.out_end;
                }
                next_out += 1;
            }
            while to_i64(next_in) < counts.in_released {
                let load = self.ins[next_in];
                let ready = now.max(done_at(&done.outs, outs, load.after_out));
                done.in_end = done.in_end.max(ready) + load.ns;
                done.ins[ins + next_in] = done.in_end;
                if !self.duplex {
                    done.out_end = done.in_end;
                }
                next_in += 1;
            }
        }
        now
    }
}

/// A wait of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The step that waits.
    pub step: usize,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// The outs that run without a pause until what the step waits for is there, counted from the
    /// first of the iteration before.
    pub outs: Range<usize>,
    /// The ins, in the same way.
    pub ins: Range<usize>,
}

/// The copies that ran without a pause until `count` were complete.
fn busy(
    done: &[u64],
    per_iteration: usize,
    count: i64,
    took: impl Fn(usize) -> u64,
) -> Range<usize> {
    let Some(end) = usize::try_from(to_i64(per_iteration) + count)
        .ok()
        .filter(|&end| end > 0 && end <= done.len())
    else {
        return 0..0;
    };
    let mut first = end - 1;
    while first > 0 && done[first] - took(first % per_iteration) <= done[first - 1] {
        first -= 1;
    }
    first..end
}

/// When copies are complete: those of the iteration before, then those of this one.
struct Done {
    outs: Vec<u64>,
    ins: Vec<u64>,
    out_end: u64,
    in_end: u64,
}

/// When `count` copies are complete, counted from this iteration's base.
fn done_at(done: &[u64], per_iteration: usize, count: i64) -> u64 {
    let last = to_i64(per_iteration) + count - 1;
    usize::try_from(last)
        .ok()
        .and_then(|last| done.get(last))
        .copied()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(needed: [i64; 2], released: [i64; 2]) -> StepCounts {
        StepCounts {
            out_needed: needed[0],
            in_needed: needed[1],
            out_released: released[0],
            in_released: released[1],
        }
    }

    /// Three steps of 10; an out of 15 after the first, an in of 5 that needs its room.
    fn load(duplex: bool) -> Load {
        Load {
            steps_ns: vec![10, 10, 10],
            counts: vec![
                counts([0, 0], [1, 1]),
                counts([0, 0], [1, 1]),
                counts([0, 1], [1, 1]),
            ],
            outs_ns: vec![15],
            ins: vec![LoadIn {
                ns: 5,
                after_out: 1,
            }],
            duplex,
        }
    }

    #[test]
    fn a_step_waits_for_an_in_that_waits_for_an_out() {
        // Out 10..25, in 25..30, so the last step starts at 30 instead of 20.
        let timeline = load(true).simulate();
        assert_eq!(timeline.starts_ns, [0, 10, 30]);
        assert_eq!((timeline.iteration_ns, timeline.steady), (40, true));
    }

    #[test]
    fn a_wait_names_the_copies_that_it_is_for() {
        let wait = Wait {
            step: 2,
            ns: 10,
            // Counted from the iteration before, which has one of each.
            outs: 1..2,
            ins: 1..2,
        };
        assert_eq!(load(true).waits(), [wait]);
        let mut quick = load(true);
        quick.outs_ns = vec![4];
        assert_eq!(quick.waits(), []);
    }

    #[test]
    fn copies_that_overlap_compute_cost_nothing() {
        let mut load = load(true);
        load.outs_ns = vec![4];
        assert_eq!(load.simulate().iteration_ns, 30);
    }

    #[test]
    fn one_engine_serves_both_queues_in_turn() {
        let mut load = load(false);
        load.ins[0].after_out = 0;
        // Out 10..25, in 25..30, although the in needs no out.
        assert_eq!(load.simulate().starts_ns, [0, 10, 30]);
        load.duplex = true;
        assert_eq!(load.simulate().starts_ns, [0, 10, 20]);
    }

    #[test]
    fn an_iteration_waits_for_the_one_before() {
        let mut load = load(true);
        // The out of the last iteration frees what the first step takes, 35 after its release.
        load.outs_ns = vec![35];
        load.ins.clear();
        load.counts = vec![
            counts([0, 0], [1, 0]),
            counts([0, 0], [1, 0]),
            counts([0, 0], [1, 0]),
        ];
        let timeline = load.simulate();
        assert_eq!((timeline.iteration_ns, timeline.starts_ns[0]), (45, 15));
    }

    #[test]
    fn copy_times_round_up() {
        assert_eq!(copy_ns(Bytes(3), 2e9, 10), 12);
        assert_eq!(copy_ns(Bytes(0), 1e9, 7), 7);
    }
}
