//! Every bundled trace is read; its sums are those that its recorder wrote; it gives a sound
//! skeleton for each device; and it survives being written and read again.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use lgm::trace::{self, Trace, TraceError};
use vtensor::Mode;

fn corpus() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces");
    let entries = fs::read_dir(folder).expect("the repository has its traces");
    let paths = entries.map(|entry| entry.expect("readable folder").path());
    let mut traces: Vec<_> = paths
        .filter(|p| p.extension().is_some_and(|e| e == "gz"))
        .collect();
    traces.sort();
    assert_eq!(traces.len(), 14, "{traces:?}");
    traces
}

fn read(path: &PathBuf) -> Trace {
    let file = File::open(path).expect("readable file");
    trace::read(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn unpack(path: &PathBuf) -> Vec<u8> {
    let mut document = Vec::new();
    let mut unpacked = GzDecoder::new(File::open(path).expect("readable file"));
    unpacked
        .read_to_end(&mut document)
        .expect("sound gzip data");
    document
}

/// The tables of two traces, as text.
fn same_tables(a: &Trace, b: &Trace) {
    let text = |trace: &Trace| {
        let mut document = Vec::new();
        trace
            .write_json(&mut document)
            .expect("memory takes every byte");
        document
    };
    assert!(text(a) == text(b));
    assert_eq!(a.tensors(), b.tensors());
    assert_eq!(a.devices(), b.devices());
    assert_eq!(a.peak_bytes(), b.peak_bytes());
    for op in 0..a.ops().len() {
        assert_eq!(a.durations_ns(op), b.durations_ns(op), "op {op}");
    }
}

#[test]
fn sums_are_the_recorders() {
    for path in corpus() {
        let trace = read(&path);
        let document: serde_json::Value =
            serde_json::from_slice(&unpack(&path)).expect("a JSON document");
        let header = &document["header"];
        let summary = &header["summary"];
        assert_eq!(trace.model(), header["model"], "{}", path.display());
        assert_eq!(trace.optimizer(), header["optimizer"]);
        assert_eq!(trace.batch(), header["batch"]);
        assert_eq!(trace.ops().len(), summary["ops"]);
        assert_eq!(trace.tensors().len(), summary["tensors"]);
        assert_eq!(trace.persistent_bytes().0, summary["persistent_bytes"]);
        assert_eq!(trace.peak_bytes().0, summary["peak_bytes"]);
        assert_eq!(trace.peak_op(), summary["peak_op"]);
        let largest = trace.largest_op();
        assert_eq!(largest.bytes.0, summary["max_op_ws_bytes"]);
        assert_eq!(largest.op, summary["max_op_ws_op"]);
        assert_eq!(largest.name, summary["max_op_ws_name"]);
        let views = trace.ops().iter().filter(|op| op.view).count();
        assert_eq!(views, summary["view_ops"]);
        for device in trace.devices() {
            let ns = trace.compute_ns(device).expect("its own device");
            let ms = summary["dur_ms"][device].as_f64().expect("a number");
            assert!(
                (ns as f64 / 1e6 - ms).abs() < 0.01,
                "{device}: {ns} ns, {ms} ms"
            );
        }
    }
}

#[test]
fn skeletons_hold_for_every_device() {
    for path in corpus() {
        let trace = read(&path);
        assert_eq!(trace.devices(), ["orin_nano_8g", "agx_orin", "rtx3060"]);
        for device in trace.devices() {
            let mapped = trace.mapped_skeleton(device).expect("its own device");
            let skeleton = &mapped.skeleton;
            skeleton.check().expect("a sound skeleton");
            assert_eq!(
                Ok(skeleton.compute_ns()),
                trace.compute_ns(device).map_err(drop)
            );
            assert_eq!(skeleton.tensors.len(), mapped.tensor_rows.len());
            for (tensor, &row) in skeleton.tensors.iter().zip(&mapped.tensor_rows) {
                let recorded = &trace.tensors()[row as usize];
                assert_eq!(tensor.bytes, recorded.bytes);
                assert_eq!(tensor.kind, recorded.kind);
            }
            for (op, &row) in mapped.op_rows.iter().enumerate() {
                let recorded = row as usize;
                assert_eq!(skeleton.ops[op].name, trace.ops()[recorded].name);
                let count = skeleton.ops[op].access_count as usize;
                assert!(count <= trace.reads(recorded).len() + trace.writes(recorded).len());
            }
            let kept: u64 = skeleton
                .tensors
                .iter()
                .filter(|t| t.persistent)
                .map(|t| t.bytes.0)
                .sum();
            assert_eq!(kept, trace.persistent_bytes().0);
            assert!(
                skeleton
                    .accesses
                    .iter()
                    .any(|access| access.mode == Mode::ReadWrite)
            );
        }
    }
}

#[test]
fn an_unknown_device_is_told_the_known_ones() {
    let trace = read(&corpus()[0]);
    let error = trace.skeleton("rtx4090").expect_err("no such device");
    assert!(matches!(error, TraceError::UnknownDevice { .. }));
    let text = error.to_string();
    assert!(
        text.contains("rtx4090") && text.contains("orin_nano_8g, agx_orin, rtx3060"),
        "{text}"
    );
}

#[test]
fn packed_and_plain_are_the_same_trace() {
    use sha2::{Digest, Sha256};
    let path = corpus()
        .into_iter()
        .find(|p| p.ends_with("vgg16_b32_sgdm.json.gz"));
    let path = path.expect("one of the traces");
    let document = unpack(&path);
    let packed = read(&path);
    let plain = trace::read(&document[..]).expect("the same document");
    assert_eq!(packed.digest(), <[u8; 32]>::from(Sha256::digest(&document)));
    assert_eq!(packed.digest(), plain.digest());
    same_tables(&packed, &plain);
}

#[test]
fn written_traces_are_read_back() {
    for path in corpus() {
        let trace = read(&path);
        let mut document = Vec::new();
        trace
            .write_json(&mut document)
            .expect("memory takes every byte");
        let again = trace::read(&document[..]).expect("what was written can be read");
        same_tables(&trace, &again);
    }
}
