//! From a trace to its access skeleton, for the durations of one device.
//!
//! Kept: every op that uses a tensor or takes time, every persistent tensor, and every other tensor
//! that is used. Dropped: views and other ops that do neither; tensors of zero bytes and their
//! accesses; transients that no op uses.
//!
//! The content of a transient is undefined before its first access, so that access becomes
//! [`Mode::Write`] whatever the trace says: there is nothing to keep for it. (Recorders see such
//! reads where an op fills a tensor behind their back.)

use vtensor::{Mode, OpIndex, TensorId};

use super::TraceError;
use super::model::Trace;
use super::replayable;
use crate::skeleton::{Access, Op, Skeleton, Tensor};

/// A skeleton, and which rows of the trace its rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedSkeleton {
    /// The skeleton.
    pub skeleton: Skeleton,
    /// The row in [`Trace::tensors`] of each tensor.
    pub tensor_rows: Vec<u32>,
    /// The row in [`Trace::ops`] of each op.
    pub op_rows: Vec<u32>,
}

impl Trace {
    /// The access skeleton with the durations of a device.
    ///
    /// # Errors
    /// If the trace has no durations for the device (the message lists those that it has), or no
    /// op that matters.
    pub fn skeleton(&self, device: &str) -> Result<Skeleton, TraceError> {
        self.mapped_skeleton(device).map(|mapped| mapped.skeleton)
    }

    /// As [`skeleton`](Self::skeleton), with the rows of the trace that each row comes from.
    ///
    /// # Errors
    /// As [`skeleton`](Self::skeleton).
    pub fn mapped_skeleton(&self, device: &str) -> Result<MappedSkeleton, TraceError> {
        let device = self.device_row(device)?;
        let mut mapped = MappedSkeleton {
            skeleton: Skeleton::default(),
            tensor_rows: Vec::new(),
            op_rows: Vec::new(),
        };
        let new_ids = self.copy_tensors(&mut mapped);
        let mut first_use = vec![true; self.tensors().len()];
        for (row, op) in self.ops().iter().enumerate() {
            let accesses = &mut mapped.skeleton.accesses;
            let first = accesses.len();
            self.merge_accesses(row, |row, mode| {
                let transient = !self.tensors()[row].persistent;
                let undefined = transient && std::mem::take(&mut first_use[row]);
                accesses.push(Access {
                    tensor: new_ids[row].expect("an accessed tensor has bytes"),
                    mode: if undefined { Mode::Write } else { mode },
                });
            });
            let count = accesses.len() - first;
            let duration_ns = self.durations_ns(row)[device];
            if count == 0 && duration_ns == 0 {
                continue;
            }
            mapped.op_rows.push(OpIndex::from_index(row).0);
            mapped.skeleton.ops.push(Op {
                name: op.name.clone(),
                duration_ns,
                first_access: u32::try_from(first).expect("at most 2^24 accesses"),
                access_count: u32::try_from(count).expect("at most 2^24 accesses"),
                replayable: op
                    .replayable
                    .unwrap_or_else(|| replayable::by_name(&op.name)),
            });
        }
        if mapped.skeleton.ops.is_empty() {
            return Err(TraceError::NoOps);
        }
        if let Err(broken) = mapped.skeleton.check() {
            panic!("a replayed trace gives a sound skeleton: {broken}");
        }
        Ok(mapped)
    }

    /// Copies the tensors that the skeleton keeps and returns their new ids by their old rows.
    fn copy_tensors(&self, mapped: &mut MappedSkeleton) -> Vec<Option<TensorId>> {
        let mut used = vec![false; self.tensors().len()];
        for op in 0..self.ops().len() {
            for &id in self.reads(op).iter().chain(self.writes(op)) {
                used[id as usize] = true;
            }
        }
        let rows = self.tensors().iter().zip(&used).enumerate();
        rows.map(|(row, (tensor, &used))| {
            if tensor.bytes.0 == 0 || !(used || tensor.persistent) {
                return None;
            }
            mapped.tensor_rows.push(TensorId::from_index(row).0);
            mapped.skeleton.tensors.push(Tensor {
                name: tensor.name.clone(),
                bytes: tensor.bytes,
                kind: tensor.kind,
                persistent: tensor.persistent,
                fixed: tensor.fixed,
            });
            Some(TensorId::from_index(mapped.skeleton.tensors.len() - 1))
        })
        .collect()
    }

    /// Visits the tensors of an op that have bytes, each once: what is read, then what is only
    /// written.
    fn merge_accesses(&self, op: usize, mut visit: impl FnMut(usize, Mode)) {
        let (reads, writes) = (self.reads(op), self.writes(op));
        let mut read = reads.to_vec();
        read.sort_unstable();
        let mut written = writes.to_vec();
        written.sort_unstable();
        let has_bytes = |id: u32| self.tensors()[id as usize].bytes.0 > 0;
        for &id in reads.iter().filter(|&&id| has_bytes(id)) {
            let mode = match written.binary_search(&id) {
                Ok(_) => Mode::ReadWrite,
                Err(_) => Mode::Read,
            };
            visit(id as usize, mode);
        }
        for &id in writes.iter().filter(|&&id| has_bytes(id)) {
            if read.binary_search(&id).is_err() {
                visit(id as usize, Mode::Write);
            }
        }
    }
}
