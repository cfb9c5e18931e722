//! `lru`: when there is no room for an op, the least recently used idle tensor leaves as a whole;
//! it returns when an op needs it. No prefetch.
//!
//! Source: the tensor cache of SuperNeurons (Wang et al., PPoPP 2018); IBM Large Model Support.

use vtensor::{OpIndex, PieceRun, TensorId};

use super::Task;
use crate::graph::{Gap, Holding};
use crate::moves::Move;
use crate::queues::Overfull;
use crate::schedule::Schedule;

/// Iterations until the evictions repeat, at most; after that those of the last two are united.
const ROUNDS_MAX: u32 = 8;

/// The step, on the line of its gap, before which a tensor is evicted.
type Evictions = Vec<Option<u32>>;

pub(super) fn schedule(task: Task<'_>) -> Result<Schedule, Overfull> {
    let mut cache = Cache::new(task);
    let mut last = cache.iterate(0)?;
    for round in 1..ROUNDS_MAX {
        let next = cache.iterate(round)?;
        let repeats = next == last;
        if round + 1 == ROUNDS_MAX && !repeats {
            for (next, last) in last.iter_mut().zip(next) {
                *next = match (*next, last) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            break;
        }
        last = next;
        if repeats {
            break;
        }
    }
    Schedule::new(
        task.graph,
        task.pages,
        moves(task, &last),
        task.capacity,
        task.link,
    )
}

struct Cache<'a> {
    task: Task<'a>,
    resident: Vec<bool>,
    last_use: Vec<i64>,
    held: i64,
}

impl<'a> Cache<'a> {
    fn new(task: Task<'a>) -> Self {
        let tensors = task.graph.skeleton.tensors.len();
        Self {
            task,
            resident: vec![false; tensors],
            last_use: vec![-1; tensors],
            held: 0,
        }
    }

    /// Runs an iteration; returns for each gap the step before which its tensor is evicted in it.
    fn iterate(&mut self, round: u32) -> Result<Evictions, Overfull> {
        let graph = self.task.graph;
        let steps = graph.steps();
        let mut evicted = vec![None; graph.gaps().len()];
        for step in 0..steps {
            let now = i64::from(round) * i64::from(steps) + i64::from(step);
            let accesses = graph.skeleton.accesses_of(OpIndex(step));
            let paged = |t: &TensorId| graph.node(*t).holding == Holding::Paged;
            let used: Vec<TensorId> = accesses.iter().map(|a| a.tensor).filter(paged).collect();
            for tensor in &used {
                self.last_use[tensor.index()] = now;
            }
            for &tensor in &used {
                if !self.resident[tensor.index()] {
                    self.make_room(i64::from(graph.node(tensor).pieces), now, &mut evicted)?;
                    self.resident[tensor.index()] = true;
                    self.held += i64::from(graph.node(tensor).pieces);
                }
            }
            for tensor in used {
                let dies = !graph.node(tensor).persistent && graph.life(tensor).end == step + 1;
                if dies {
                    self.leave(tensor);
                }
            }
        }
        Ok(evicted)
    }

    fn leave(&mut self, tensor: TensorId) {
        self.resident[tensor.index()] = false;
        self.held -= i64::from(self.task.graph.node(tensor).pieces);
    }

    fn make_room(&mut self, pages: i64, now: i64, evicted: &mut Evictions) -> Result<(), Overfull> {
        let graph = self.task.graph;
        while self.held + pages > self.task.capacity {
            let idle = graph
                .held(Holding::Paged)
                .map(|(tensor, _)| tensor)
                .filter(|t| self.resident[t.index()] && self.last_use[t.index()] < now);
            let step = u32::try_from(now % i64::from(graph.steps())).expect("a step");
            let Some(victim) = idle.min_by_key(|t| (self.last_use[t.index()], *t)) else {
                return Err(Overfull { step });
            };
            self.leave(victim);
            let row = graph
                .gaps_of(victim)
                .find(|&row| graph.gaps()[row].idle().contains(step, graph.steps()));
            if let Some(row) = row {
                let gap = &graph.gaps()[row];
                evicted[row] = Some(if step <= gap.after {
                    step + graph.steps()
                } else {
                    step
                });
            }
        }
        Ok(())
    }
}

fn moves(task: Task<'_>, evicted: &Evictions) -> Vec<Move> {
    let graph = task.graph;
    let mut all = Vec::new();
    for (tensor, node) in graph.held(Holding::Paged) {
        let rows = graph.gaps_of(tensor);
        let moved: Vec<u32> = rows
            .clone()
            .map(|row| {
                if evicted[row].is_some() {
                    node.pieces
                } else {
                    0
                }
            })
            .collect();
        let clean = crate::moves::clean_pieces(graph, tensor, &moved);
        for (row, clean) in rows.zip(clean) {
            let Some(before) = evicted[row] else { continue };
            let gap: &Gap = &graph.gaps()[row];
            let steps = graph.steps();
            let shift = if before > steps { steps } else { 0 };
            all.push(Move {
                tensor,
                pieces: PieceRun {
                    first: 0,
                    count: node.pieces,
                },
                bytes: graph.skeleton.tensor(tensor).bytes,
                leave: before - 1 - shift,
                back: gap.before - shift,
                need: gap.before - shift,
                out: clean == 0 && !gap.dead,
                read: gap.read_next,
            });
        }
    }
    all
}
