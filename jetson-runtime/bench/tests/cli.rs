//! The command line from outside: exit statuses, and where errors go.

mod support;

use support::{bench, text};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
const TRACE: &str = "resnet50_b32_sgdm";

/// Runs that fail, and the kind that each reports.
const FAILING: [(&[&str], &str); 7] = [
    (
        &[
            "plan",
            "nowhere.json",
            "--device",
            "agx_orin",
            "--budget",
            "50%",
        ],
        "no_trace",
    ),
    (
        &["plan", MANIFEST, "--device", "agx_orin", "--budget", "50%"],
        "trace",
    ),
    (
        &["replay", TRACE, "--device", "tx1", "--budget", "50%"],
        "device",
    ),
    (
        &[
            "plan",
            TRACE,
            "--device",
            "agx_orin",
            "--budget",
            "1GiB",
            "--devices",
            MANIFEST,
        ],
        "device",
    ),
    (
        &[
            "plan",
            TRACE,
            "--device",
            "agx_orin",
            "--budget",
            "50%",
            "--policy",
            "lru",
            "--methods",
            "recompute",
        ],
        "methods",
    ),
    (&["verify", "nowhere.plan"], "file"),
    (&["verify", MANIFEST], "plan_file"),
];

#[test]
fn errors_are_one_line_and_status_1() {
    for (args, _) in FAILING {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let message = text(&output.stderr);
        assert!(message.starts_with("error: "), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn errors_as_json_have_their_kind() {
    for (args, kind) in FAILING {
        let output = bench(&[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["error"]["kind"], kind, "{json}");
        assert!(
            json["error"]["message"]
                .as_str()
                .is_some_and(|text| text.len() > 10),
            "{json}"
        );
        assert_eq!(
            json.as_object().map(serde_json::Map::len),
            Some(1),
            "{json}"
        );
    }
}

#[test]
fn a_wrong_command_line_is_status_2() {
    for args in [
        &["learn"][..],
        &["plan"],
        &["plan", TRACE, "--device", "agx_orin", "--budget", "lots"],
        &[
            "replay", TRACE, "--device", "agx_orin", "--budget", "50%", "--scale", "0",
        ],
        &["verify", "--json"],
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(
            text(&output.stderr).contains("--help"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn help_and_version_are_answers() {
    for (args, wanted) in [
        (&["--help"][..], "Examples:"),
        (&["plan", "--help"], "--budget <AMOUNT>"),
        (&["replay", "--help"], "--spill <TIER>"),
        (&["verify", "--help"], "plan -o FILE"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            text(&output.stdout).contains(wanted),
            "{}",
            text(&output.stdout)
        );
    }
}
