//! Plan files: round trips, and a clear error for everything that is not a whole plan.

use lgm::plan::{Origin, Plan};
use lgm::plan_file::{self, PlanFileError, decode, encode};
use lgm::profile::Profiles;
use lgm::program::{Home, Program, Step};
use lgm::skeleton::{Access, Op, Skeleton, Tensor};
use sha2::{Digest, Sha256};
use vtensor::{
    Bytes, In, Mode, OpIndex, Out, PageBytes, PageRun, PieceRun, Place, StepCounts, StepKind,
    TensorId, TensorKind, Window, WindowId, limits,
};

/// A plan with a row in every table. What it says need not be right: that is not checked here.
fn plan() -> Plan {
    let place = Place {
        window: WindowId(0),
        offset: 512,
    };
    let pieces = PieceRun { first: 0, count: 2 };
    let tensor = TensorId(0);
    let home = Home {
        tensor,
        pieces,
        place: Some(place),
        slot: None,
    };
    let step = Step {
        kind: StepKind::App(OpIndex(0)),
        counts: StepCounts {
            out_needed: -1,
            in_released: 1,
            ..StepCounts::default()
        },
        first_place: 0,
    };
    Plan {
        origin: Origin {
            planner: "0.1.0".into(),
            trace_digest: [7; 32],
            model: "résumé".into(),
            policy: "vtensor".into(),
            budget: Bytes(1 << 20),
            peak: Bytes(2 << 20),
            largest_op: Bytes(9000),
            seed: u64::MAX,
            evaluations_max: 100,
        },
        profile: Profiles::builtin()
            .get("agx_orin")
            .expect("built in")
            .clone(),
        replays: None,
        skeleton: Skeleton {
            tensors: vec![Tensor {
                name: "w".into(),
                bytes: Bytes(5000),
                kind: TensorKind::Parameter,
                persistent: true,
                fixed: false,
            }],
            ops: vec![Op {
                name: "add_".into(),
                duration_ns: 1_000,
                first_access: 0,
                access_count: 1,
                replayable: false,
            }],
            accesses: vec![Access {
                tensor,
                mode: Mode::ReadWrite,
            }],
        },
        program: Program {
            page_bytes: PageBytes::MIN,
            piece_bytes: PageBytes::MIN,
            arena_pages: 256,
            spill_bytes: Bytes(8192),
            steps: vec![step],
            places: vec![place],
            outs: vec![Out {
                tensor,
                pieces,
                bytes: Bytes(5000),
                source: place,
                slot: 4096,
            }],
            ins: vec![In {
                tensor,
                pieces,
                bytes: Bytes(5000),
                destination: place,
                slot: 4096,
                after_out: 1,
            }],
            windows: vec![Window {
                first_run: 0,
                run_count: 1,
                pages: 2,
            }],
            runs: vec![PageRun { first: 3, count: 2 }],
            homes: vec![home],
        },
    }
}

/// Writes the length and digest that belong to the payload.
fn seal(file: &mut [u8]) {
    let length = (file.len() - 52) as u64;
    file[12..20].copy_from_slice(&length.to_le_bytes());
    let digest = Sha256::new()
        .chain_update(&file[8..20])
        .chain_update(&file[52..])
        .finalize();
    file[20..52].copy_from_slice(&digest);
}

fn message(file: &[u8]) -> String {
    decode(file).expect_err("must be refused").to_string()
}

#[test]
fn a_plan_comes_back_as_it_was() {
    let plan = plan();
    let file = encode(&plan);
    assert_eq!(decode(&file).expect("sound"), plan);
    assert_eq!(plan_file::read(&file[..]).expect("sound"), plan);
    assert_eq!(encode(&plan), file, "equal plans give equal files");
    assert!(file.len() < 400, "{}", file.len());
}

#[test]
fn every_truncation_is_named() {
    let file = encode(&plan());
    for end in 1..file.len() {
        let error = decode(&file[..end]).expect_err("cut off");
        assert!(
            matches!(error, PlanFileError::Truncated { found, .. } if found == end as u64),
            "{end}: {error}"
        );
    }
    let last = message(&file[..file.len() - 1]);
    let wanted = format!("it has {} of {} bytes", file.len() - 1, file.len());
    assert!(last.contains(&wanted), "{last}");
    let longer = [&file[..], b"xyz"].concat();
    assert!(message(&longer).contains("3 bytes after its end"));
}

#[test]
fn every_flipped_bit_is_an_error() {
    let file = encode(&plan());
    for position in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[position] ^= 1 << bit;
            let error = decode(&damaged).expect_err("damaged");
            if position >= 20 {
                assert!(
                    matches!(error, PlanFileError::Digest),
                    "{position}: {error}"
                );
            }
        }
    }
}

#[test]
fn foreign_files_are_named() {
    let mut newer = encode(&plan());
    newer[8] = 5;
    for (file, wanted) in [
        (&b""[..], "the file is empty"),
        (b"\x1f\x8b\x08\x00\x00", "gzip'ed data (a trace?)"),
        (b"{\"header\": {}}", "a JSON object (a trace?)"),
        (b"\x89VTP\n\x1a\n\x01\x00", "copied as text"),
        (b"\x89PNG\r\n\x1a\n", "binary data"),
        (b"some words", "plain text"),
        (&newer, "has format 5, this version reads format 4"),
    ] {
        let text = message(file);
        assert!(text.contains(wanted), "wanted: {wanted}\nfound: {text}");
    }
}

#[test]
fn claimed_lengths_are_not_believed() {
    let mut file = encode(&plan());
    file[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(message(&file).contains("at most 268435456 bytes"));
    file[12..20].copy_from_slice(&(limits::PLAN_BYTES_MAX - 52).to_le_bytes());
    assert!(message(&file).contains("cut off: it has"));

    // The first text claims 2^63 bytes, then the first table as many rows.
    let varint = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let sound = encode(&plan());
    for position in 52..sound.len() {
        let mut file = sound.clone();
        file.splice(position..=position, varint);
        seal(&mut file);
        // A number may be that large; a length may not.
        if let Err(error) = decode(&file) {
            assert!(
                matches!(
                    error,
                    PlanFileError::Malformed { .. } | PlanFileError::Refused(_)
                ),
                "{position}: {error}"
            );
        }
    }
}

#[test]
fn sealed_nonsense_is_malformed_or_refused() {
    let sound = encode(&plan());
    let mut cut = sound[..sound.len() - 3].to_vec();
    seal(&mut cut);
    let text = message(&cut);
    assert!(
        text.contains("malformed at byte") && text.contains("end of buffer"),
        "{text}"
    );
    let mut longer = [&sound[..], &[0]].concat();
    seal(&mut longer);
    let text = message(&longer);
    let wanted = format!("malformed at byte {}: the plan ends before", sound.len());
    assert!(text.contains(&wanted), "{text}");
    // Any other payload gives an error or a plan that is written back as it is, never a panic.
    let mut random = oorandom::Rand64::new(1);
    for _ in 0..20_000 {
        let mut file = sound.clone();
        for _ in 0..=random.rand_range(0..3) {
            let position = usize::try_from(random.rand_range(52..file.len() as u64));
            file[position.expect("small")] = random.rand_u64().to_le_bytes()[0];
        }
        seal(&mut file);
        if let Ok(plan) = decode(&file) {
            assert_eq!(decode(&encode(&plan)).expect("was accepted before"), plan);
            let _ = (plan.program.moved_out(), plan.skeleton.compute_ns());
        }
    }
}

#[test]
fn values_beyond_the_limits_are_refused() {
    type Change = fn(&mut Plan);
    let cases: [(Change, &str); 9] = [
        (
            |p| p.skeleton.tensors[0].bytes = Bytes(0),
            "tensor 0 has 0 bytes",
        ),
        (
            |p| p.skeleton.ops[0].access_count = 2,
            "accesses past the end",
        ),
        (|p| p.profile.link.out_bps = f64::NAN, "out_bps"),
        (|p| p.profile.class = 'Z', "class is one letter"),
        (
            |p| p.origin.policy = "x".repeat(5000),
            "a name has 5000 bytes",
        ),
        (|p| p.origin.peak = Bytes(1 << 60), "the peak has 1 EiB"),
        (
            |p| p.program.arena_pages = u32::MAX,
            "the arena has 4294967295 pages",
        ),
        (
            |p| p.program.outs[0].bytes = Bytes(u64::MAX),
            "moves more than 1 PiB",
        ),
        (
            |p| p.program.ins[0].bytes = Bytes(1 << 51),
            "moves more than 1 PiB",
        ),
    ];
    for (change, wanted) in cases {
        let mut plan = plan();
        change(&mut plan);
        let error = decode(&encode(&plan)).expect_err(wanted);
        assert!(matches!(error, PlanFileError::Refused(_)), "{error}");
        assert!(
            error.to_string().contains(wanted),
            "wanted: {wanted}\nfound: {error}"
        );
    }
}

#[test]
fn tables_stop_at_their_limit_while_they_are_read() {
    let mut plan = plan();
    let window = plan.program.windows[0];
    plan.program.windows = vec![window; limits::WINDOWS_MAX];
    decode(&encode(&plan)).expect("as many as are accepted");
    plan.program.windows.push(window);
    let text = message(&encode(&plan));
    assert!(text.contains("longer than its limit"), "{text}");
}

#[test]
fn a_stream_without_end_is_refused() {
    let error = plan_file::read(std::io::repeat(0x89)).expect_err("endless");
    assert!(matches!(error, PlanFileError::Foreign { .. }), "{error}");
}
