//! Documents that are no traces, or contradict themselves: a clear error each, with its place.

mod sample;

use lgm::trace::{self, Builder, OpSpec, Phase, Tensor};
use sample::{SOUND, message, pack};
use vtensor::{Bytes, TensorKind};

#[test]
fn the_sound_document_is_read() {
    let trace = trace::read(SOUND.as_bytes()).expect("sound");
    assert_eq!(trace.peak_bytes(), Bytes(96));
    assert_eq!(trace.largest_op().name, "mm");
    assert_eq!(trace.compute_ns("b").expect("known"), 2_500);
    let skeleton = trace.skeleton("a").expect("known");
    assert_eq!(skeleton.tensors.len(), 2, "the empty tensor is gone");
    assert_eq!(
        skeleton.ops.len(),
        2,
        "an op with accesses stays, whatever it takes"
    );
}

#[test]
fn each_departure_has_its_message() {
    for (old, new, wanted) in [
        // The wrong document.
        (
            r#""header":"#,
            r#""head":"#,
            r#"key "header" is missing: a trace has header, tensors, ops"#,
        ),
        (
            r#""ops":["#,
            r#""ops":["extra","#,
            "ops[0]: invalid type: string",
        ),
        (
            r#""ops":["#,
            r#""ops":[[],"#,
            "expected an op, a JSON object",
        ),
        (
            r#"{"schema":1"#,
            r#"{"schema":2"#,
            "header.schema: schema 2 is unknown",
        ),
        (
            r#""schema":1,"#,
            "",
            r#"in header: the key "schema" is missing"#,
        ),
        (
            r#","optimizer":"sgdm""#,
            "",
            r#"the key "optimizer" is missing"#,
        ),
        (
            r#""batch":2"#,
            r#""batch":-2"#,
            "header.batch: invalid value: integer `-2`",
        ),
        (
            r#""model":"m""#,
            r#""model":7"#,
            "header.model: invalid type: integer `7`",
        ),
        // Tensors.
        (
            r#"{"id":1,"#,
            r#"{"id":7,"#,
            "tensors[1].id: id 7 where 1 is due",
        ),
        (
            r#"{"id":1,"#,
            r#"{"id":0,"#,
            "tensors[1].id: id 0 where 1 is due",
        ),
        (
            r#""bytes":32"#,
            r#""bytes":-1"#,
            "tensors[1].bytes: invalid value",
        ),
        (
            r#""bytes":32"#,
            r#""bytes":3.5"#,
            "tensors[1].bytes: invalid type",
        ),
        (
            r#""bytes":32"#,
            r#""bytes":99999999999999999"#,
            "tensors[1].bytes: a tensor of",
        ),
        (
            r#""bytes":32,"#,
            "",
            r#"tensors[1]: the key "bytes" is missing"#,
        ),
        (
            r#""kind":"param""#,
            r#""kind":"weight""#,
            "expected one of param, buffer, optstate",
        ),
        (
            r#""persistent":true"#,
            r#""persistent":1"#,
            "tensors[0].persistent: invalid type",
        ),
        // Ops.
        (
            r#""frees":[],"#,
            "",
            r#"ops[0] (mm): the key "frees" is missing"#,
        ),
        (
            r#""ph":"fwd""#,
            r#""ph":"forward""#,
            r#"ops[0].ph (mm): invalid value: string "forward""#,
        ),
        (
            r#""reads":[0]"#,
            r#""reads":[0,-1]"#,
            "ops[0].reads[1] (mm): invalid value",
        ),
        (
            r#""reads":[0]"#,
            r#""reads":[0,"x"]"#,
            "ops[0].reads[1] (mm): invalid type",
        ),
        (
            r#""reads":[0]"#,
            r#""reads":{}"#,
            "ops[0].reads (mm): invalid type: map",
        ),
        (
            r#""reads":[0]"#,
            r#""reads":null"#,
            "expected a list of tensor ids",
        ),
        (
            r#""reads":[0]"#,
            r#""reads":[99999999999]"#,
            "ops[0].reads[0] (mm): tensor 99999999999",
        ),
        (
            r#""reads":[0]"#,
            r#""reads":[],"reads":[0]"#,
            r#"key "reads" is there twice"#,
        ),
        // Durations.
        (
            r#""b":2.5"#,
            r#""b":-1"#,
            "ops[0].dur_us (mm): a duration of -1 µs",
        ),
        (r#""b":2.5"#, r#""b":1e300"#, "is not between 0 and 1800 s"),
        (
            r#""b":2.5"#,
            r#""b":1e999"#,
            "ops[0].dur_us (mm): number out of range",
        ),
        (r#""b":2.5"#, r#""b":NaN"#, "ops[0].dur_us (mm): expected"),
        (r#""b":2.5"#, r#""b":"fast""#, "invalid type: string"),
        (
            r#""b":2.5"#,
            r#""b":2.5,"b":3"#,
            r#"device "b" is there twice"#,
        ),
        (
            r#","b":0"#,
            "",
            r#"ops[1].dur_us (loss): the duration for device "b" is missing"#,
        ),
        (
            r#""a":0,"#,
            r#""a":0,"c":1,"#,
            r#"device "c" is one too many: the first op has a, b"#,
        ),
        // Contradictions.
        (
            r#""reads":[0]"#,
            r#""reads":[0,3]"#,
            "ops[0].reads[1] (mm): there is no tensor 3: ids end at 2",
        ),
        (
            r#""allocs":[1,2]"#,
            r#""allocs":[2]"#,
            "ops[0].writes[0] (mm): tensor 1 is not allocated yet",
        ),
        (
            r#""allocs":[1,2]"#,
            r#""allocs":[1,2,0]"#,
            "tensor 0 is persistent: it lives before",
        ),
        (
            r#""allocs":[]"#,
            r#""allocs":[1]"#,
            "ops[1].allocs[0] (loss): tensor 1 was allocated by ops[0]",
        ),
        (
            r#""frees":[]"#,
            r#""frees":[1]"#,
            "ops[1].reads[0] (loss): tensor 1 was freed by ops[0]",
        ),
        (
            r#""frees":[1,2]"#,
            r#""frees":[1]"#,
            "tensors[2]: allocated by ops[0].allocs (mm) and still live",
        ),
        (
            r#""frees":[1,2]"#,
            r#""frees":[1,2,0]"#,
            "tensor 0 is persistent: it outlives",
        ),
        (
            r#""frees":[]"#,
            r#""frees":[],"view":true"#,
            "ops[0].view (mm): a view reads",
        ),
        // Text.
        (
            r#""ops":["#,
            r#""ops":[,"#,
            "line 4, column 8, in ops[0]: expected value",
        ),
        (r#""b":0}}]}"#, r#""b":0}}]} x"#, "trailing characters"),
        (r#""b":0}}]}"#, r#""b":0}}"#, "EOF while parsing"),
        (
            r#""model":"m""#,
            "\"model\":\"m\u{1}\"",
            "control character",
        ),
        (
            r#""model":"m""#,
            r#""model":"\ud800""#,
            "header.model: unexpected end of hex escape",
        ),
    ] {
        assert_eq!(SOUND.matches(old).count(), 1, "{old} must be there once");
        let document = SOUND.replacen(old, new, 1);
        let plain = message(document.as_bytes());
        assert!(
            plain.contains(wanted),
            "{new}\nwanted: {wanted}\nfound:  {plain}"
        );
        assert_eq!(message(&pack(document.as_bytes())), plain);
    }
}

#[test]
fn foreign_files_are_named() {
    for (file, wanted) in [
        (&b""[..], "the file is empty"),
        (b" \n\t", "only blanks"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"[1,2]", "a JSON list"),
        (b"\"text\"", "a JSON string"),
        (b"12", "plain text"),
        (b"model: resnet\n", "plain text"),
        (b"\x7fELF\x02\x01\x01", "ELF"),
        (b"PK\x03\x04\x00\x00", "zip archive"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"\xff\xfe{\x00}\x00", "UTF-16"),
        (b"\x89VTP\r\n\x1a\n\x01", "plan file"),
        (b"\x00\x01\x02\x03", "binary"),
        (b"{}", "\"header\" is missing"),
        (b"{\"a\": [1, {\"b\": 2}]}", "\"header\" is missing"),
    ] {
        let text = message(file);
        assert!(text.contains(wanted), "wanted: {wanted}\nfound: {text}");
        if !file.is_empty() {
            let text = message(&pack(file));
            assert!(
                text.contains(wanted),
                "packed; wanted: {wanted}\nfound: {text}"
            );
        }
    }
    assert!(message(&pack(b"")).contains("gzip'ed data without content"));
}

#[test]
fn unknown_keys_and_repeated_ids_are_taken() {
    let document = SOUND
        .replace(
            r#""schema":1"#,
            r#""colour":{"deep":[[{"x":null}]]},"schema":1"#,
        )
        .replace(r#""id":1,"#, r#""dtype":"float32","id":1,"#)
        .replace(r#""reads":[1,2]"#, r#""notes":"x","reads":[1,2,1,1,2]"#)
        .replace(r#""frees":[1,2]"#, r#""frees":[1,1,2]"#);
    let trace = trace::read(document.as_bytes()).expect("still sound");
    assert_eq!(trace.reads(1), [1, 2]);
    assert_eq!(trace.frees(1), [1, 2]);
    let skeleton = trace.skeleton("a").expect("known");
    assert_eq!(
        skeleton,
        trace::read(SOUND.as_bytes())
            .expect("sound")
            .skeleton("a")
            .expect("known")
    );
}

#[test]
fn keys_come_in_any_order() {
    let json: serde_json::Value = serde_json::from_str(SOUND).expect("JSON");
    let document = format!(
        r#"{{"ops":{},"tensors":{},"header":{}}}"#,
        json["ops"], json["tensors"], json["header"]
    );
    let trace = trace::read(document.as_bytes()).expect("still sound");
    assert_eq!(trace.peak_bytes(), Bytes(96));
}

#[test]
fn a_first_read_of_a_transient_is_a_write() {
    let mut builder = Builder::new("m", 1, "none", &["a"]);
    let tensor = |persistent, bytes| Tensor {
        name: String::new(),
        bytes: Bytes(bytes),
        kind: TensorKind::Activation,
        persistent,
        fixed: false,
    };
    let kept = builder.tensor(tensor(true, 10));
    let unused = builder.tensor(tensor(false, 20));
    let used = builder.tensor(tensor(false, 30));
    let step = |name| OpSpec {
        durations_ns: &[5],
        ..OpSpec::new(name, Phase::Forward)
    };
    builder.op(&OpSpec {
        allocs: &[unused, used],
        durations_ns: &[0],
        ..step("empty")
    });
    builder.op(&OpSpec {
        reads: &[used],
        ..step("reads")
    });
    builder.op(&OpSpec {
        reads: &[used, kept],
        writes: &[kept],
        ..step("adds")
    });
    builder.op(&OpSpec {
        frees: &[used, unused],
        ..step("waits")
    });
    let mapped = builder
        .finish()
        .expect("sound")
        .mapped_skeleton("a")
        .expect("known");
    assert_eq!(mapped.tensor_rows, [0, 2]);
    assert_eq!(mapped.op_rows, [1, 2, 3]);
    let modes: Vec<_> = mapped
        .skeleton
        .accesses
        .iter()
        .map(|a| (a.tensor.0, a.mode))
        .collect();
    use vtensor::Mode::{Read, ReadWrite, Write};
    assert_eq!(modes, [(1, Write), (1, Read), (0, ReadWrite)]);
}
