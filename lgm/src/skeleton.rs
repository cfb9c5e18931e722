//! The access skeleton: what an iteration does to memory, without what it computes.
//!
//! It is what planner, verifier and runtime agree on. In: built from a trace or a recording, or
//! read from a plan file. A skeleton from outside is checked by [`Skeleton::check`].

use serde::{Deserialize, Serialize};
use vtensor::limits;
use vtensor::{Bytes, Mode, OpIndex, TensorId, TensorKind};

use crate::bounded;

/// A tensor of the iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// The application's name for it; may be empty.
    pub name: String,
    /// Its size; not 0.
    pub bytes: Bytes,
    /// What it is for.
    pub kind: TensorKind,
    /// Whether it outlives the iteration. A persistent tensor holds content before the first op
    /// and after the last; any other lives from its first to its last access.
    pub persistent: bool,
    /// Whether its address may never change. Any other may be elsewhere at each of its accesses.
    pub fixed: bool,
}

/// One access of one op. An op names each tensor at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Which tensor.
    pub tensor: TensorId,
    /// How.
    pub mode: Mode,
}

/// An op of the application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// The application's name for it; may be empty.
    pub name: String,
    /// How long it computes, in nanoseconds.
    pub duration_ns: u64,
    /// Where its accesses begin in [`Skeleton::accesses`].
    pub first_access: u32,
    /// How many accesses it has.
    pub access_count: u32,
    /// Whether it may run again: what it overwrites is a function of what it reads, and what it
    /// changes is a function of that and of its content before. What it changes beside, such as
    /// running statistics, has no influence on what else it writes.
    pub replayable: bool,
}

/// What an iteration does to memory. Transients appear at their first access, whose mode is
/// [`Mode::Write`], and are gone after their last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skeleton {
    /// The tensors that are accessed, and all persistent ones.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::TENSORS_MAX }>")]
    pub tensors: Vec<Tensor>,
    /// The ops, in order.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::OPS_MAX }>")]
    pub ops: Vec<Op>,
    /// The accesses of all ops, in order of the ops.
    #[serde(deserialize_with = "bounded::list::<_, _, { limits::ACCESSES_MAX }>")]
    pub accesses: Vec<Access>,
}

impl Skeleton {
    /// The accesses of an op.
    #[must_use]
    pub fn accesses_of(&self, op: OpIndex) -> &[Access] {
        let op = &self.ops[op.index()];
        let first = op.first_access as usize;
        &self.accesses[first..first + op.access_count as usize]
    }

    /// A tensor.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// For each access, the version of its tensor before and behind it: how often the iteration has
    /// written it by then.
    #[must_use]
    pub fn versions(&self) -> Vec<(u32, u32)> {
        let mut last = vec![0_u32; self.tensors.len()];
        let accesses = self.accesses.iter();
        let versions = accesses.map(|access| {
            let last = &mut last[access.tensor.index()];
            let before = *last;
            *last += u32::from(access.mode.writes());
            (before, *last)
        });
        versions.collect()
    }

    /// The time of all ops, one after the other, in nanoseconds.
    #[must_use]
    pub fn compute_ns(&self) -> u64 {
        self.ops.iter().map(|op| op.duration_ns).sum()
    }

    /// Bytes that are live at each op when nothing moves, without rounding.
    #[must_use]
    pub fn live_bytes(&self) -> Vec<u64> {
        let ops = self.ops.len();
        let mut life: Vec<Option<(usize, usize)>> = vec![None; self.tensors.len()];
        for op in 0..ops {
            for access in self.accesses_of(OpIndex::from_index(op)) {
                let life = &mut life[access.tensor.index()];
                life.get_or_insert((op, op)).1 = op + 1;
            }
        }
        // Limits: sums stay below 2^64, so wrapping differences add up to what they should.
        let mut change = vec![0_u64; ops + 1];
        for (tensor, life) in self.tensors.iter().zip(life) {
            let (first, end) = life.filter(|_| !tensor.persistent).unwrap_or((0, ops));
            change[first] = change[first].wrapping_add(tensor.bytes.0);
            change[end] = change[end].wrapping_sub(tensor.bytes.0);
        }
        let mut live = 0_u64;
        let change = change[..ops].iter();
        change
            .map(|&change| {
                live = live.wrapping_add(change);
                live
            })
            .collect()
    }

    /// Checks everything that the other methods and their callers count on.
    ///
    /// # Errors
    /// A sentence that names the first thing that does not hold.
    pub fn check(&self) -> Result<(), String> {
        if self.tensors.len() > limits::TENSORS_MAX || self.ops.len() > limits::OPS_MAX {
            return Err(format!(
                "{} tensors and {} ops are more than the {} and {} that are supported",
                self.tensors.len(),
                self.ops.len(),
                limits::TENSORS_MAX,
                limits::OPS_MAX
            ));
        }
        if self.ops.is_empty() {
            return Err("an iteration has at least one op".into());
        }
        if self.accesses.len() > limits::ACCESSES_MAX {
            return Err(format!("{} accesses are too many", self.accesses.len()));
        }
        let mut persistent = 0_u64;
        for (id, tensor) in self.tensors.iter().enumerate() {
            if tensor.bytes.0 == 0 || tensor.bytes.0 > limits::TENSOR_BYTES_MAX {
                return Err(format!("tensor {id} has {} bytes", tensor.bytes.0));
            }
            if tensor.name.len() > limits::NAME_BYTES_MAX {
                return Err(format!(
                    "tensor {id} has a name of {} bytes",
                    tensor.name.len()
                ));
            }
            if tensor.persistent {
                persistent = persistent.saturating_add(tensor.bytes.0);
            }
        }
        if persistent > limits::TOTAL_BYTES_MAX {
            return Err(format!(
                "persistent tensors of {persistent} bytes are too many"
            ));
        }
        self.check_accesses()
    }

    fn check_accesses(&self) -> Result<(), String> {
        let mut seen_at: Vec<Option<usize>> = vec![None; self.tensors.len()];
        let mut next = 0_u64;
        let mut compute_ns = 0_u64;
        for (index, op) in self.ops.iter().enumerate() {
            if u64::from(op.first_access) != next {
                return Err(format!(
                    "the accesses of op {index} do not follow those before"
                ));
            }
            next += u64::from(op.access_count);
            if next > self.accesses.len() as u64 {
                return Err(format!("op {index} has accesses past the end of the table"));
            }
            if op.duration_ns > limits::OP_NS_MAX || op.name.len() > limits::NAME_BYTES_MAX {
                return Err(format!(
                    "op {index} has a duration or a name beyond the limits"
                ));
            }
            compute_ns += op.duration_ns;
            for access in self.accesses_of(OpIndex::from_index(index)) {
                let Some(seen) = seen_at.get_mut(access.tensor.index()) else {
                    return Err(format!("op {index} uses tensor {}, of none", access.tensor));
                };
                if *seen == Some(index) {
                    return Err(format!("op {index} names tensor {} twice", access.tensor));
                }
                let transient = !self.tensor(access.tensor).persistent;
                if transient && seen.is_none() && access.mode != Mode::Write {
                    return Err(format!(
                        "op {index} reads tensor {} before it is written",
                        access.tensor
                    ));
                }
                *seen = Some(index);
            }
        }
        if next != self.accesses.len() as u64 {
            return Err("the table of accesses is longer than the ops say".into());
        }
        let unused =
            |(id, seen): (usize, &Option<usize>)| seen.is_none() && !self.tensors[id].persistent;
        if let Some(id) = seen_at.iter().enumerate().position(unused) {
            return Err(format!("tensor {id} is neither persistent nor used"));
        }
        debug_assert!(compute_ns <= limits::OP_NS_MAX * limits::OPS_MAX as u64);
        Ok(())
    }
}
