//! One step: what its op checks and writes.
//!
//! First it overwrites what it overwrites whole, then it checks and renews what it reads and
//! writes, then it checks what it only reads: so two tensors of one op that overlapped would be
//! seen, in this op or at the next read.

use std::fmt;

use jetson_runtime::{Frozen, RuntimeError, pattern};
use lgm::skeleton::Skeleton;
use vtensor::{Mode, OpIndex, TensorId};

use super::versions::{Row, Versions};
use super::witness::{Seen, Witness};

/// The first wrong bytes that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The training step, counted from 1.
    pub step: u64,
    /// The step that read them; `None` for the check of persistent tensors at the end.
    pub op: Option<OpIndex>,
    /// The tensor.
    pub tensor: TensorId,
    /// How many of its bytes were wrong.
    pub wrong: u64,
    /// How many it has, as executed.
    pub of: u64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}, ", self.step)?;
        match self.op {
            Some(op) => write!(f, "op {op}")?,
            None => f.write_str("at its end")?,
        }
        write!(
            f,
            ": {} of {} bytes of tensor {} are not its last writer's",
            self.wrong, self.of, self.tensor
        )
    }
}

/// What the ops know and find.
#[derive(Debug)]
pub(super) struct Ops<'a> {
    pub(super) skeleton: &'a Skeleton,
    pub(super) versions: Versions,
    pub(super) witness: Witness,
    /// Wrong bytes so far.
    pub(super) mismatches: u64,
    pub(super) first: Option<Mismatch>,
    /// The training step, counted from 1.
    pub(super) step: u64,
}

impl Ops<'_> {
    /// Executes step `op`, which begins here and is left open.
    pub(super) fn execute(&mut self, frozen: &mut Frozen, op: OpIndex) -> Result<(), RuntimeError> {
        let mut step = frozen.step_begin(op)?;
        self.witness.op(op);
        let first_row = self.skeleton.ops[op.index()].first_access as usize;
        for mode in [Mode::Write, Mode::ReadWrite, Mode::Read] {
            for access in 0..step.len() {
                if step.mode(access) != mode {
                    continue;
                }
                let Row { found, holds, left } = self.versions.row(first_row + access);
                let mut wrong = 0;
                if holds {
                    let bytes = step.slice(access);
                    let version = self.versions.version(found);
                    wrong = pattern::check(bytes, found.tensor.0, version, 0);
                    let of = bytes.len() as u64;
                    self.found(wrong, of, Some(op), found.tensor);
                }
                if mode.writes() {
                    let version = self.versions.version(left);
                    pattern::fill(step.slice_mut(access), left.tensor.0, version, 0);
                }
                let seen = Seen {
                    read_version: found.writes,
                    left_version: left.writes,
                    wrong,
                };
                self.witness.access(&step, access, first_row + access, seen);
            }
        }
        Ok(())
    }

    /// Counts wrong bytes.
    pub(super) fn found(&mut self, wrong: u64, of: u64, op: Option<OpIndex>, tensor: TensorId) {
        self.mismatches += wrong;
        if wrong > 0 && self.first.is_none() {
            self.first = Some(Mismatch {
                step: self.step,
                op,
                tensor,
                wrong,
                of,
            });
        }
    }
}
