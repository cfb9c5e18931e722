//! The trace and its tables.

use vtensor::{Bytes, TensorKind};

use super::TraceError;

/// Devices of one trace.
pub const DEVICES_MAX: usize = 64;

/// A part of the training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Input data arrives.
    Load,
    /// The forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer, and what follows it.
    Optimizer,
}

impl Phase {
    /// Every phase with its name in a document.
    pub(super) const NAMES: [(Self, &'static str); 4] = [
        (Self::Load, "load"),
        (Self::Forward, "fwd"),
        (Self::Backward, "bwd"),
        (Self::Optimizer, "opt"),
    ];
}

/// Every kind that a document can name. Scratch memory is an activation there.
pub(super) const KIND_NAMES: [(TensorKind, &str); 6] = [
    (TensorKind::Parameter, "param"),
    (TensorKind::Buffer, "buffer"),
    (TensorKind::Optimizer, "optstate"),
    (TensorKind::Input, "input"),
    (TensorKind::Gradient, "grad"),
    (TensorKind::Activation, "act"),
];

/// A storage. Views of it are resolved to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The application's name for it; may be empty.
    pub name: String,
    /// Its size; may be 0.
    pub bytes: Bytes,
    /// What it is for.
    pub kind: TensorKind,
    /// Whether it is live before and after the step.
    pub persistent: bool,
    /// Whether its address may never change while it lives.
    pub fixed: bool,
}

/// The lists of ids that an op has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Reads,
    Writes,
    Allocs,
    Frees,
    Views,
}

impl List {
    pub(super) const ALL: [Self; 5] = [
        Self::Reads,
        Self::Writes,
        Self::Allocs,
        Self::Frees,
        Self::Views,
    ];

    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Allocs => "allocs",
            Self::Frees => "frees",
            Self::Views => "views",
        }
    }
}

/// A part of the table of ids.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// An op. Its ids are in tables of the [`Trace`].
#[derive(Clone, Debug)]
pub struct Op {
    /// The application's name for it; may be empty.
    pub name: String,
    /// The part of the step that it belongs to.
    pub phase: Phase,
    /// Whether it only makes views: it uses no content and takes no memory.
    pub view: bool,
    /// Its arithmetic, a multiply-add counted as two; 0 if unknown.
    pub flops: u64,
    /// The bytes that it reads and writes; 0 if unknown.
    pub moved: Bytes,
    /// Whether it may run again, if the trace says so; otherwise its name tells.
    pub replayable: Option<bool>,
    pub(super) lists: [Span; 5],
}

/// What a document says, before and after it was replayed.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) model: String,
    pub(super) batch: u64,
    pub(super) optimizer: String,
    pub(super) devices: Vec<String>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) ops: Vec<Op>,
    /// The lists of all ops.
    pub(super) ids: Vec<u32>,
    /// For each op, one duration for each device, in nanoseconds.
    pub(super) durations_ns: Vec<u64>,
}

impl Tables {
    pub(super) fn list(&self, op: usize, list: List) -> &[u32] {
        let span = self.ops[op].lists[list as usize];
        &self.ids[span.first as usize..][..span.count as usize]
    }
}

/// The op that touches the most bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestOp<'a> {
    /// The row in [`Trace::ops`].
    pub op: usize,
    /// The application's name for it.
    pub name: &'a str,
    /// The bytes of the tensors that it reads or writes, each counted once, whole.
    pub bytes: Bytes,
}

/// A recorded training step. Every trace was replayed: a tensor is used, or freed, only while it
/// is live, and exactly the persistent ones are live at both ends.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(super) tables: Tables,
    pub(super) digest: [u8; 32],
    pub(super) totals: super::totals::Totals,
}

impl Trace {
    /// The name of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.tables.model
    }

    /// How many samples the step takes.
    #[must_use]
    pub const fn batch(&self) -> u64 {
        self.tables.batch
    }

    /// The name of the optimizer.
    #[must_use]
    pub fn optimizer(&self) -> &str {
        &self.tables.optimizer
    }

    /// SHA-256 of the document, unpacked.
    #[must_use]
    pub const fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The devices for which each op has a duration.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.tables.devices
    }

    /// The tensors; the row is the id that the lists of the ops name.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tables.tensors
    }

    /// The ops, in order.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.tables.ops
    }

    /// The tensors whose content op `op` reads, each once.
    ///
    /// # Panics
    /// This and the other lists: if there is no such op.
    #[must_use]
    pub fn reads(&self, op: usize) -> &[u32] {
        self.tables.list(op, List::Reads)
    }

    /// The tensors that op `op` writes, each once. One that it does not read is overwritten whole.
    #[must_use]
    pub fn writes(&self, op: usize) -> &[u32] {
        self.tables.list(op, List::Writes)
    }

    /// The tensors that are live from op `op` on, that op included.
    #[must_use]
    pub fn allocs(&self, op: usize) -> &[u32] {
        self.tables.list(op, List::Allocs)
    }

    /// The tensors that die after op `op`.
    #[must_use]
    pub fn frees(&self, op: usize) -> &[u32] {
        self.tables.list(op, List::Frees)
    }

    /// The tensors that op `op` makes views of.
    #[must_use]
    pub fn views(&self, op: usize) -> &[u32] {
        self.tables.list(op, List::Views)
    }

    /// The duration of op `op` on each of [`devices`](Self::devices), in nanoseconds.
    #[must_use]
    pub fn durations_ns(&self, op: usize) -> &[u64] {
        let count = self.tables.devices.len();
        &self.tables.durations_ns[op * count..][..count]
    }

    /// The bytes that are live at the worst op by allocation and free, without any rounding.
    #[must_use]
    pub const fn peak_bytes(&self) -> Bytes {
        self.totals.peak
    }

    /// The first op with that peak.
    #[must_use]
    pub const fn peak_op(&self) -> usize {
        self.totals.peak_op
    }

    /// The bytes of the persistent tensors.
    #[must_use]
    pub const fn persistent_bytes(&self) -> Bytes {
        self.totals.persistent
    }

    /// The op that touches the most bytes, the first of equals. A budget below that cannot work.
    #[must_use]
    pub fn largest_op(&self) -> LargestOp<'_> {
        let op = self.totals.largest_op;
        LargestOp {
            op,
            name: &self.tables.ops[op].name,
            bytes: self.totals.largest,
        }
    }

    /// The time of all ops on a device, one after the other, in nanoseconds.
    ///
    /// # Errors
    /// If the trace has no durations for it.
    pub fn compute_ns(&self, device: &str) -> Result<u64, TraceError> {
        let row = self.device_row(device)?;
        let durations = self.tables.durations_ns.iter();
        Ok(durations.skip(row).step_by(self.tables.devices.len()).sum())
    }

    pub(super) fn device_row(&self, device: &str) -> Result<usize, TraceError> {
        let mut devices = self.tables.devices.iter();
        let row = devices.position(|name| name == device);
        row.ok_or_else(|| TraceError::UnknownDevice {
            wanted: device.into(),
            known: self.tables.devices.clone(),
        })
    }
}
