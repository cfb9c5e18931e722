//! A trace made in memory: by a recorder, or by a generator.

use sha2::{Digest, Sha256};
use vtensor::{Bytes, TensorId, limits};

use super::model::{DEVICES_MAX, List, Op, Phase, Span, Tables, Tensor, Trace};
use super::object::check_name;
use super::{TraceError, replay};

/// An op to be added.
#[derive(Clone, Copy, Debug)]
pub struct OpSpec<'a> {
    /// The application's name for it.
    pub name: &'a str,
    /// The part of the step that it belongs to.
    pub phase: Phase,
    /// Tensors whose content it reads.
    pub reads: &'a [u32],
    /// Tensors that it writes; overwritten whole if it does not also read them.
    pub writes: &'a [u32],
    /// Tensors that are live from this op on.
    pub allocs: &'a [u32],
    /// Tensors that die after it.
    pub frees: &'a [u32],
    /// Tensors that it makes views of; then it reads, writes and allocates nothing.
    pub views: &'a [u32],
    /// Its arithmetic; 0 if unknown.
    pub flops: u64,
    /// The bytes that it reads and writes; 0 if unknown.
    pub moved: Bytes,
    /// Whether it may run again; `None`: its name tells.
    pub replayable: Option<bool>,
    /// Its duration on each device, in nanoseconds.
    pub durations_ns: &'a [u64],
}

impl OpSpec<'_> {
    /// An op that does nothing.
    #[must_use]
    pub const fn new(name: &str, phase: Phase) -> OpSpec<'_> {
        OpSpec {
            name,
            phase,
            reads: &[],
            writes: &[],
            allocs: &[],
            frees: &[],
            views: &[],
            flops: 0,
            moved: Bytes(0),
            replayable: None,
            durations_ns: &[],
        }
    }
}

/// A trace under construction.
#[derive(Clone, Debug)]
pub struct Builder {
    tables: Tables,
}

impl Builder {
    /// Begins a trace with durations for `devices`.
    ///
    /// # Panics
    /// If there are more than [`DEVICES_MAX`] devices.
    #[must_use]
    pub fn new(model: &str, batch: u64, optimizer: &str, devices: &[&str]) -> Self {
        assert!(devices.len() <= DEVICES_MAX, "too many devices");
        Self {
            tables: Tables {
                model: model.into(),
                batch,
                optimizer: optimizer.into(),
                devices: devices.iter().map(|&name| name.into()).collect(),
                ..Tables::default()
            },
        }
    }

    /// Adds a tensor and returns its id.
    pub fn tensor(&mut self, tensor: Tensor) -> u32 {
        self.tables.tensors.push(tensor);
        TensorId::from_index(self.tables.tensors.len() - 1).0
    }

    /// Adds an op after those before.
    ///
    /// # Panics
    /// If `op` does not have one duration for each device, or all lists together exceed 2^32 ids.
    pub fn op(&mut self, op: &OpSpec<'_>) {
        let tables = &mut self.tables;
        let durations = op.durations_ns;
        assert_eq!(
            durations.len(),
            tables.devices.len(),
            "one duration for each device"
        );
        let row = |ids: usize| u32::try_from(ids).expect("documented: at most 2^32 ids");
        let mut lists = [Span::default(); 5];
        for (list, ids) in [
            (List::Reads, op.reads),
            (List::Writes, op.writes),
            (List::Allocs, op.allocs),
            (List::Frees, op.frees),
            (List::Views, op.views),
        ] {
            lists[list as usize] = Span {
                first: row(tables.ids.len()),
                count: row(ids.len()),
            };
            tables.ids.extend_from_slice(ids);
        }
        tables.durations_ns.extend_from_slice(durations);
        tables.ops.push(Op {
            name: op.name.into(),
            phase: op.phase,
            view: !op.views.is_empty(),
            flops: op.flops,
            moved: op.moved,
            replayable: op.replayable,
            lists,
        });
    }

    /// Replays the trace and hands it out. Its digest is that of the document that
    /// [`Trace::write_json`] writes.
    ///
    /// # Errors
    /// If the trace contradicts itself or exceeds [`limits`].
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        check_limits(&self.tables)?;
        let totals = replay::check(&mut self.tables)?;
        let mut trace = Trace {
            tables: self.tables,
            digest: [0; 32],
            totals,
        };
        let mut hash = Sha256::new();
        trace
            .write_json(HashWriter(&mut hash))
            .map_err(TraceError::Io)?;
        trace.digest = hash.finalize().into();
        Ok(trace)
    }
}

struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the reader checks while it reads.
fn check_limits(tables: &Tables) -> Result<(), TraceError> {
    let refuse = |place: String, message: String| Err(TraceError::Replay { place, message });
    for (place, found, max) in [
        ("tensors", tables.tensors.len(), limits::TENSORS_MAX),
        ("ops", tables.ops.len(), limits::OPS_MAX),
        ("ops", tables.ids.len(), limits::ACCESSES_MAX),
    ] {
        if found > max {
            return refuse(
                place.into(),
                format!("{found} are more than the {max} accepted"),
            );
        }
    }
    for (id, tensor) in tables.tensors.iter().enumerate() {
        if tensor.bytes.0 > limits::TENSOR_BYTES_MAX {
            return refuse(
                format!("tensors[{id}]"),
                format!("{} are too many", tensor.bytes),
            );
        }
    }
    let names = tables.tensors.iter().map(|tensor| &tensor.name);
    let names = names
        .chain(tables.ops.iter().map(|op| &op.name))
        .chain(&tables.devices);
    for name in names.chain([&tables.model, &tables.optimizer]) {
        if let Err(message) = check_name(name) {
            return refuse("the trace".into(), message);
        }
    }
    match tables
        .durations_ns
        .iter()
        .position(|&ns| ns > limits::OP_NS_MAX)
    {
        None => Ok(()),
        Some(row) => refuse(
            format!("ops[{}].dur_us", row / tables.devices.len()),
            format!("{} ns are too long", tables.durations_ns[row]),
        ),
    }
}
