//! A transcript: a score, with durations, as a trace that can be planned and saved.
//!
//! Guarantees: op k of the score is op k of the trace and of its skeleton. A persistent tensor that
//! is not scratch is not overwritten by its first access in the iteration, whatever the
//! application says: that way its content is kept until then, for the application may read it, or
//! begin another kind of iteration, in between.

use std::collections::{BTreeMap, BTreeSet};

use lgm::trace::{self, Builder, OpSpec, Trace, TraceError};
use vtensor::{Bytes, Mode};

use super::program::unknown_writes;
use super::putback::PUT_BACK_MAX;
use super::registry::Registry;
use super::score::{Event, OpEvent, Score, Spec};
use super::tensor::Key;

/// The name under which the trace has its durations.
pub(super) const DEVICE: &str = "host";

/// A score as a trace.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) trace: Trace,
    /// What each tensor of the trace is here.
    pub(super) keys: Vec<Key>,
}

/// Lists of an op while the trace is made.
#[derive(Default)]
struct Lists {
    reads: Vec<u32>,
    writes: Vec<u32>,
    allocs: Vec<u32>,
    frees: Vec<u32>,
}

struct Writer<'a> {
    registry: &'a Registry,
    left_out: &'a dyn Fn(Key) -> bool,
    builder: Builder,
    keys: Vec<Key>,
    /// The row of each tensor that is known to the trace.
    rows: BTreeMap<Key, u32>,
    /// What creations stand for, by number.
    specs: Vec<&'a Spec>,
}

impl Transcript {
    /// Writes a score down, but for tensors that are `left_out`. `durations_ns` has one entry for
    /// each op. Ops in `once` may not run again whatever they say; nor may one that writes more of
    /// tensors that are left out than can be put back.
    pub(super) fn new(
        score: &Score,
        registry: &Registry,
        durations_ns: &[u64],
        left_out: &dyn Fn(Key) -> bool,
        once: &BTreeSet<usize>,
    ) -> Result<Self, TraceError> {
        let mut writer = Writer {
            registry,
            left_out,
            builder: Builder::new("recorded", 0, "", &[DEVICE]),
            keys: Vec::new(),
            rows: BTreeMap::new(),
            specs: Vec::new(),
        };
        for key in score.persistent().into_iter().filter(|key| !left_out(*key)) {
            let spec = registry.spec(key).expect("a score's tensors are alive");
            writer.add(key, spec, true);
        }
        let mut lists = writer.lists(score);
        let ops = score.ops().zip(&mut lists).zip(durations_ns);
        for (number, ((op, lists), &duration_ns)) in ops.enumerate() {
            let merged = op.merged();
            let twice = unknown_writes(&merged, left_out);
            let twice: u64 = twice
                .filter_map(|(key, _)| Some(registry.spec(key)?.bytes))
                .sum();
            let replayable = op.replayable && !once.contains(&number) && twice <= PUT_BACK_MAX;
            writer.builder.op(&OpSpec {
                reads: &lists.reads,
                writes: &lists.writes,
                allocs: &lists.allocs,
                frees: &lists.frees,
                replayable: Some(replayable),
                durations_ns: &[duration_ns.max(1)],
                ..OpSpec::new(&op.name, op.phase)
            });
        }
        Ok(Self {
            trace: writer.builder.finish()?,
            keys: writer.keys,
        })
    }
}

impl<'a> Writer<'a> {
    /// What an op does to tensors that are not left out.
    fn merged(&self, op: &OpEvent) -> impl Iterator<Item = (Key, Mode)> {
        let merged = op.merged().into_iter();
        merged.filter(|(key, _)| !(self.left_out)(*key))
    }

    fn add(&mut self, key: Key, spec: &Spec, persistent: bool) -> u32 {
        let row = self.builder.tensor(trace::Tensor {
            name: spec.name.to_string(),
            bytes: Bytes(spec.taken()),
            kind: spec.kind,
            persistent,
            fixed: spec.fixed,
        });
        self.keys.push(key);
        self.rows.insert(key, row);
        row
    }

    /// The lists of all ops. A tensor is allocated by the next op after its creation, and freed by
    /// the last one before its destruction; one that lives between two ops only is left out.
    fn lists(&mut self, score: &'a Score) -> Vec<Lists> {
        let mut lists: Vec<Lists> = Vec::new();
        let mut waiting: Vec<(Key, &Spec)> = Vec::new();
        let mut alive: Vec<Key> = Vec::new();
        for event in &score.events {
            match event {
                Event::Create(spec) => {
                    let number = u32::try_from(self.specs.len()).expect("handles are u32");
                    self.specs.push(spec);
                    waiting.push((Key::transient(number), spec));
                }
                Event::Destroy(key) => {
                    waiting.retain(|(other, _)| other != key);
                    if alive.contains(key) {
                        alive.retain(|other| other != key);
                        let last = lists.last_mut().expect("it was allocated by an op");
                        last.frees.push(self.rows[key]);
                    }
                }
                Event::Op(op) => {
                    let mut list = Lists::default();
                    for (key, spec) in waiting.drain(..) {
                        list.allocs.push(self.add(key, spec, false));
                        alive.push(key);
                    }
                    self.accesses(op, &mut list);
                    lists.push(list);
                }
            }
        }
        if let Some(last) = lists.last_mut() {
            last.frees.extend(alive.iter().map(|key| self.rows[key]));
        }
        self.keep(score, &mut lists);
        lists
    }

    fn accesses(&self, op: &OpEvent, list: &mut Lists) {
        for (key, mode) in self.merged(op) {
            let row = self.rows[&key];
            if mode.reads() {
                list.reads.push(row);
            }
            if mode.writes() {
                list.writes.push(row);
            }
        }
    }

    /// Keeps what is persistent until its first access of the next iteration.
    fn keep(&self, score: &Score, lists: &mut [Lists]) {
        let mut seen = BTreeSet::new();
        for (op, list) in score.ops().zip(lists) {
            for (key, mode) in self.merged(op) {
                let first = !key.is_transient() && seen.insert(key);
                let kept = || self.registry.spec(key).is_some_and(|spec| !spec.scratch);
                if first && mode == Mode::Write && kept() {
                    list.reads.push(self.rows[&key]);
                }
            }
        }
    }
}
