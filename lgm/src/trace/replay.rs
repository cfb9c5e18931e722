//! The rules of allocation and use: a trace is replayed once, op by op, before anyone counts on it.
//!
//! For each op: what it allocates is live from then on; what it reads, writes or views must be
//! live; what it frees dies after it. Ids that a list repeats are merged here.

use vtensor::{Bytes, limits};

use super::TraceError;
use super::model::{List, Tables};
use super::totals::Totals;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Unborn,
    Persistent,
    BornAt(u32),
    FreedAt(u32),
}

/// Merges repeated ids in place and checks the rules.
pub(super) fn check(tables: &mut Tables) -> Result<Totals, TraceError> {
    if tables.ops.is_empty() {
        return Err(fault("ops".into(), "a step has at least one op".into()));
    }
    let mut replay = Replay::begin(tables)?;
    for op in 0..tables.ops.len() {
        merge_lists(tables, op, &mut replay.stamps);
        replay.op(tables, op)?;
    }
    replay.end(tables)?;
    Ok(replay.totals)
}

/// Keeps the first of equal ids of each list of an op. An id that no tensor has stays for the
/// check that names it. `stamps` holds the number of the last list in which a tensor was seen.
fn merge_lists(tables: &mut Tables, op: usize, stamps: &mut [usize]) {
    for list in List::ALL {
        let span = &mut tables.ops[op].lists[list as usize];
        let first = span.first as usize;
        let stamp = op * List::ALL.len() + list as usize + 1;
        let mut kept = first;
        for row in first..first + span.count as usize {
            let id = tables.ids[row];
            match stamps.get_mut(id as usize) {
                Some(seen) if *seen == stamp => continue,
                Some(seen) => *seen = stamp,
                None => {}
            }
            tables.ids[kept] = id;
            kept += 1;
        }
        span.count = u32::try_from(kept - first).expect("a list does not grow");
    }
}

struct Replay {
    lives: Vec<Life>,
    stamps: Vec<usize>,
    touched: Vec<usize>,
    live: u64,
    totals: Totals,
}

impl Replay {
    fn begin(tables: &Tables) -> Result<Self, TraceError> {
        let count = tables.tensors.len();
        let mut replay = Self {
            lives: vec![Life::Unborn; count],
            stamps: vec![0; count],
            touched: vec![0; count],
            live: 0,
            totals: Totals::default(),
        };
        for (id, tensor) in tables.tensors.iter().enumerate() {
            if tensor.persistent {
                replay.lives[id] = Life::Persistent;
                replay
                    .grow(tensor.bytes)
                    .map_err(|message| fault(format!("tensors[{id}]"), message))?;
            }
        }
        replay.totals.persistent = Bytes(replay.live);
        replay.totals.peak = Bytes(replay.live);
        Ok(replay)
    }

    fn grow(&mut self, bytes: Bytes) -> Result<(), String> {
        // A tensor has at most 2^43 bytes and the sum stays below 2^50: no overflow.
        self.live += bytes.0;
        if self.live > limits::TOTAL_BYTES_MAX {
            return Err(format!(
                "{} live at once are more than the {} that are accepted",
                Bytes(self.live),
                Bytes(limits::TOTAL_BYTES_MAX)
            ));
        }
        Ok(())
    }

    fn op(&mut self, tables: &Tables, op: usize) -> Result<(), TraceError> {
        let used = [List::Reads, List::Writes, List::Allocs];
        if tables.ops[op].view && used.iter().any(|&list| !tables.list(op, list).is_empty()) {
            let message = "a view reads, writes and allocates nothing".into();
            return Err(fault(op_place(tables, op, "view"), message));
        }
        self.list(tables, op, List::Allocs, Self::alloc)?;
        if self.live > self.totals.peak.0 {
            self.totals.peak = Bytes(self.live);
            self.totals.peak_op = op;
        }
        for list in [List::Reads, List::Writes, List::Views] {
            self.list(tables, op, list, |replay, _, id, _| replay.alive(id))?;
        }
        self.touch(tables, op);
        self.list(tables, op, List::Frees, Self::free)
    }

    fn list(
        &mut self,
        tables: &Tables,
        op: usize,
        list: List,
        rule: impl Fn(&mut Self, &Tables, usize, u32) -> Result<(), String>,
    ) -> Result<(), TraceError> {
        let row = u32::try_from(op).expect("ops are counted in u32");
        for (index, &id) in tables.list(op, list).iter().enumerate() {
            let result = if (id as usize) < tables.tensors.len() {
                rule(self, tables, id as usize, row)
            } else {
                Err(match tables.tensors.len() {
                    0 => format!("there is no tensor {id}: the trace has no tensors"),
                    count => format!("there is no tensor {id}: ids end at {}", count - 1),
                })
            };
            result.map_err(|message| {
                fault(
                    op_place(tables, op, &format!("{}[{index}]", list.key())),
                    message,
                )
            })?;
        }
        Ok(())
    }

    fn alloc(&mut self, tables: &Tables, id: usize, op: u32) -> Result<(), String> {
        match self.lives[id] {
            Life::Unborn => {}
            Life::Persistent => {
                return Err(format!(
                    "tensor {id} is persistent: it lives before the first op"
                ));
            }
            Life::BornAt(at) => return Err(format!("tensor {id} was allocated by ops[{at}]")),
            Life::FreedAt(at) => {
                return Err(format!(
                    "tensor {id} was freed by ops[{at}]: a second storage needs an id of its own"
                ));
            }
        }
        self.lives[id] = Life::BornAt(op);
        self.grow(tables.tensors[id].bytes)
    }

    fn alive(&self, id: usize) -> Result<(), String> {
        match self.lives[id] {
            Life::Persistent | Life::BornAt(_) => Ok(()),
            Life::Unborn => Err(format!("tensor {id} is not allocated yet")),
            Life::FreedAt(at) => Err(format!("tensor {id} was freed by ops[{at}]")),
        }
    }

    fn free(&mut self, tables: &Tables, id: usize, op: u32) -> Result<(), String> {
        self.alive(id)?;
        if self.lives[id] == Life::Persistent {
            return Err(format!("tensor {id} is persistent: it outlives the step"));
        }
        self.lives[id] = Life::FreedAt(op);
        self.live -= tables.tensors[id].bytes.0;
        Ok(())
    }

    fn touch(&mut self, tables: &Tables, op: usize) {
        let mut bytes = 0;
        for list in [List::Reads, List::Writes] {
            for &id in tables.list(op, list) {
                let seen = &mut self.touched[id as usize];
                if *seen != op + 1 {
                    *seen = op + 1;
                    bytes += tables.tensors[id as usize].bytes.0;
                }
            }
        }
        if bytes > self.totals.largest.0 {
            self.totals.largest = Bytes(bytes);
            self.totals.largest_op = op;
        }
    }

    fn end(&self, tables: &Tables) -> Result<(), TraceError> {
        let alive = |life: &Life| matches!(life, Life::BornAt(_));
        let Some(id) = self.lives.iter().position(alive) else {
            return Ok(());
        };
        let Life::BornAt(op) = self.lives[id] else {
            unreachable!("it was just found so");
        };
        Err(fault(
            format!("tensors[{id}]"),
            format!(
                "allocated by {} and still live at the end: it is freed by an op, or persistent",
                op_place(tables, op as usize, "allocs")
            ),
        ))
    }
}

fn op_place(tables: &Tables, op: usize, key: &str) -> String {
    match tables.ops[op].name.as_str() {
        "" => format!("ops[{op}].{key}"),
        name => format!("ops[{op}].{key} ({name})"),
    }
}

fn fault(place: String, message: String) -> TraceError {
    TraceError::Replay { place, message }
}
