//! From tables to JSON: the document that the reader reads, in a fixed order of keys.
//!
//! Durations are written in microseconds so that the reader gets the same nanoseconds back.

use std::io;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::document::SCHEMA;
use super::model::{KIND_NAMES, Op, Phase, Tensor, Trace};

impl Trace {
    /// Writes the trace as one JSON document, unpacked. Wrap `output` to buffer or pack it.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn write_json(&self, output: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(output, &Document(self)).map_err(io::Error::from)
    }
}

struct Document<'a>(&'a Trace);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        let trace = self.0;
        let mut map = json.serialize_map(Some(3))?;
        map.serialize_entry("header", &Header(trace))?;
        let tensors = trace.tensors().iter().enumerate();
        map.serialize_entry("tensors", &Each(|| tensors.clone().map(TensorRow)))?;
        let ops = trace.ops().iter().enumerate();
        map.serialize_entry(
            "ops",
            &Each(|| ops.clone().map(|(row, op)| OpRow(trace, row, op))),
        )?;
        map.end()
    }
}

/// A list whose elements are made while it is written.
struct Each<F>(F);

impl<I: IntoIterator<Item: Serialize>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        json.collect_seq((self.0)())
    }
}

struct Header<'a>(&'a Trace);

impl Serialize for Header<'_> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        let trace = self.0;
        let mut map = json.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("model", trace.model())?;
        map.serialize_entry("batch", &trace.batch())?;
        map.serialize_entry("optimizer", trace.optimizer())?;
        map.serialize_entry("summary", &Summary(trace))?;
        map.end()
    }
}

struct Summary<'a>(&'a Trace);

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        let trace = self.0;
        let views = trace.ops().iter().filter(|op| op.view).count();
        let largest = trace.largest_op();
        let mut map = json.serialize_map(None)?;
        map.serialize_entry("ops", &trace.ops().len())?;
        map.serialize_entry("view_ops", &views)?;
        map.serialize_entry("tensors", &trace.tensors().len())?;
        map.serialize_entry("persistent_bytes", &trace.persistent_bytes())?;
        map.serialize_entry("peak_bytes", &trace.peak_bytes())?;
        map.serialize_entry("peak_op", &trace.peak_op())?;
        map.serialize_entry("end_live_bytes", &trace.persistent_bytes())?;
        map.serialize_entry("max_op_ws_bytes", &largest.bytes)?;
        map.serialize_entry("max_op_ws_op", &largest.op)?;
        map.serialize_entry("max_op_ws_name", largest.name)?;
        map.end()
    }
}

struct TensorRow<'a>((usize, &'a Tensor));

impl Serialize for TensorRow<'_> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        let (id, tensor) = self.0;
        let mut kinds = KIND_NAMES.iter();
        let kind = kinds.find(|(kind, _)| *kind == tensor.kind);
        let mut map = json.serialize_map(None)?;
        map.serialize_entry("id", &id)?;
        map.serialize_entry("bytes", &tensor.bytes)?;
        map.serialize_entry("kind", kind.map_or("act", |(_, name)| name))?;
        if tensor.persistent {
            map.serialize_entry("persistent", &true)?;
        }
        if tensor.fixed {
            map.serialize_entry("fixed", &true)?;
        }
        if !tensor.name.is_empty() {
            map.serialize_entry("name", &tensor.name)?;
        }
        map.end()
    }
}

struct OpRow<'a>(&'a Trace, usize, &'a Op);

impl Serialize for OpRow<'_> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        let Self(trace, row, op) = *self;
        let mut phases = Phase::NAMES.iter();
        let phase = phases.find(|(phase, _)| *phase == op.phase);
        let (_, phase) = phase.expect("every phase has a name");
        let mut map = json.serialize_map(None)?;
        map.serialize_entry("name", &op.name)?;
        map.serialize_entry("ph", phase)?;
        if op.view {
            map.serialize_entry("view", &true)?;
        }
        map.serialize_entry("reads", trace.reads(row))?;
        map.serialize_entry("writes", trace.writes(row))?;
        if !trace.views(row).is_empty() {
            map.serialize_entry("views", trace.views(row))?;
        }
        map.serialize_entry("allocs", trace.allocs(row))?;
        map.serialize_entry("frees", trace.frees(row))?;
        map.serialize_entry("flops", &op.flops)?;
        map.serialize_entry("bytes", &op.moved)?;
        if let Some(replayable) = op.replayable {
            map.serialize_entry("replayable", &replayable)?;
        }
        map.serialize_entry("dur_us", &Durations(trace, row))?;
        map.end()
    }
}

struct Durations<'a>(&'a Trace, usize);

impl Serialize for Durations<'_> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        let durations = self.0.durations_ns(self.1).iter();
        // A limit keeps them below 2^41: exact as a float, and nearest again after the division.
        json.collect_map(
            self.0
                .devices()
                .iter()
                .zip(durations.map(|&ns| ns as f64 / 1e3)),
        )
    }
}
