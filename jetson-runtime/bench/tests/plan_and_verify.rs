//! `plan` and `verify` from outside: what they print, write, refuse and leave behind.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use lgm::plan_file;
use support::{Folder, bench, json, text, trace};

const TRACE: &str = "lstm_lm_unrolled_b32_sgdm";

const PLAN_KEYS: [&str; 23] = [
    "policy",
    "methods",
    "budget_bytes",
    "peak_bytes",
    "largest_op_bytes",
    "compute_s",
    "predicted_s",
    "predicted_ratio",
    "bound_ratio",
    "moved_out_bytes",
    "moved_in_bytes",
    "stall_s",
    "recompute_s",
    "recomputed_bytes",
    "pages",
    "page_bytes",
    "page_overhead",
    "plan_s",
    "verdict",
    "kept_bytes",
    "predicted_unkept_s",
    "written_per_step_bytes",
    "written_per_day_bytes",
];

/// `plan` of the small trace at half of its memory, with more arguments.
fn plan<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let task = ["plan", path, "--device", "agx_orin", "--budget", "50%"];
    [&task, more].concat()
}

#[test]
fn a_plan_is_written_and_verified_alone_from_its_file() {
    let folder = Folder::new();
    let file = folder.path("my.plan");
    let output = bench(&plan(&trace(TRACE), &["-o", &file]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for wanted in [
        "peak ",
        "demand ",
        "copies ",
        "moved ",
        "predicted ",
        "at most ",
        "windows ",
        "planned in ",
        "verdict       ok",
    ] {
        assert!(
            text(&output.stdout).contains(wanted),
            "{wanted}: {output:?}"
        );
    }
    assert_eq!(folder.entries(), 1, "the plan and nothing else");
    let output = bench(&["verify", &file]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for wanted in [
        "verdict       ok",
        "agx_orin",
        "vtensor",
        "pages of",
        "copies",
    ] {
        assert!(
            text(&output.stdout).contains(wanted),
            "{wanted}: {output:?}"
        );
    }
    let (report, status) = json(&["verify", &file]);
    assert_eq!((report["verdict"].as_str(), status), (Some("ok"), Some(0)));
    assert!(report["pages_used"].as_u64() > Some(0), "{report}");
}

#[test]
fn equal_questions_get_equal_files() {
    let folder = Folder::new();
    let files = [folder.path("a"), folder.path("b")];
    for file in &files {
        let output = bench(&plan(&trace(TRACE), &["-o", file]));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let read = |file| fs::read(file).expect("written");
    assert_eq!(read(&files[0]), read(&files[1]));
}

#[test]
fn keys_and_units_are_fixed() {
    for policy in ["none", "lru-paged", "whole", "vtensor"] {
        let output = bench(&plan(&trace(TRACE), &["--policy", policy, "--json"]));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let printed = text(&output.stdout);
        let report: serde_json::Value = serde_json::from_str(printed).expect("JSON");
        let object = report.as_object().expect("an object");
        assert_eq!(object.len(), PLAN_KEYS.len(), "{report}");
        let mut behind = 0;
        for key in PLAN_KEYS {
            let at = printed.find(&format!("\"{key}\":")).expect(key);
            assert!(at >= behind, "{key} is out of order in {printed}");
            behind = at;
        }
        let number = |key: &str| report[key].as_f64().expect(key);
        assert_eq!(report["policy"], policy);
        let ratio = number("predicted_s") / number("compute_s");
        assert!((ratio - number("predicted_ratio")).abs() < 1e-9);
        let stall = number("predicted_s") - number("compute_s") - number("recompute_s");
        assert!((stall - number("stall_s")).abs() < 1e-9);
        // The bound is of what only moves tensors.
        assert!(
            number("predicted_ratio") >= number("bound_ratio") || number("recompute_s") > 0.0,
            "{report}"
        );
        assert!(number("bound_ratio") >= 1.0, "{report}");
        if policy == "none" {
            assert_eq!(number("predicted_ratio"), 1.0);
            assert_eq!(number("moved_out_bytes"), 0.0);
        } else {
            let arena = number("pages") * number("page_bytes");
            assert!(arena <= number("budget_bytes"), "{report}");
        }
    }
}

#[test]
fn a_budget_below_an_op_names_op_need_and_budget() {
    let path = trace(TRACE);
    let args = ["plan", &path, "--device", "agx_orin", "--budget", "20MiB"];
    let (error, status) = json(&args);
    assert_eq!(status, Some(1));
    assert_eq!(error["error"]["kind"], "budget", "{error}");
    let message = error["error"]["message"].as_str().expect("a message");
    for wanted in [
        "op ",
        "aten.",
        "pages of",
        "the budget is 20 MiB",
        "Give at least",
    ] {
        assert!(message.contains(wanted), "{wanted} is not in {message}");
    }
}

#[test]
fn damaged_files_are_refused_with_the_reason() {
    let folder = Folder::new();
    let file = folder.path("my.plan");
    assert!(bench(&plan(&trace(TRACE), &["-o", &file])).status.success());
    let whole = fs::read(&file).expect("written");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    let cases: [(&[u8], &str); 5] = [
        (&flipped, "damaged"),
        (&whole[..whole.len() / 2], "cut off"),
        (b"", "not a plan file"),
        (b"{\"header\": 1}", "not a plan file"),
        (&[&whole[..], b"x"].concat(), "after its end"),
    ];
    for (bytes, wanted) in cases {
        fs::write(&file, bytes).expect("writable");
        let (error, status) = json(&["verify", &file]);
        assert_eq!(status, Some(1));
        assert_eq!(error["error"]["kind"], "plan_file", "{error}");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains(wanted), "{wanted} is not in {message}");
    }
}

#[test]
fn a_plan_that_does_not_hold_is_a_verdict_and_status_1() {
    let folder = Folder::new();
    let file = folder.path("my.plan");
    assert!(bench(&plan(&trace(TRACE), &["-o", &file])).status.success());
    let mut plan = plan_file::decode(&fs::read(&file).expect("written")).expect("a plan");
    // A step that no longer waits for the copies it needs.
    let step = plan
        .program
        .steps
        .iter()
        .rposition(|s| s.counts.in_needed > 0);
    let step = step.expect("at half of the memory something returns");
    for step in &mut plan.program.steps[..=step] {
        step.counts.in_needed = 0;
    }
    fs::write(&file, plan_file::encode(&plan)).expect("writable");
    let output = bench(&["verify", &file]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stdout).contains("verdict       V"),
        "{output:?}"
    );
    let (report, status) = json(&["verify", &file]);
    assert_eq!(status, Some(1));
    let verdict = report["verdict"].as_str().expect("a verdict");
    assert!(
        verdict.starts_with('V') && verdict.contains("step"),
        "{verdict}"
    );
}

#[test]
fn a_plan_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let folder = Folder::new();
    let path = trace(TRACE);
    for target in [folder.path("no/such/folder"), "/dev/full".into()] {
        let (error, status) = json(&plan(&path, &["-o", &target]));
        assert_eq!(status, Some(1), "{error}");
        assert_eq!(error["error"]["kind"], "output", "{error}");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains(&target), "{message}");
    }
    assert_eq!(folder.entries(), 0);
}

#[test]
fn a_plan_says_what_it_writes_to_flash_and_is_refused_beyond_a_limit() {
    let path = trace(TRACE);
    let swap = ["--methods", "swap"];
    let (report, _) = json(&plan(&path, &swap));
    assert_eq!(report["written_per_step_bytes"], report["moved_out_bytes"]);
    let step = report["written_per_step_bytes"].as_f64().expect("storage");
    let day = report["written_per_day_bytes"].as_f64().expect("storage");
    let predicted_s = report["predicted_s"].as_f64().expect("seconds");
    let steps = 86_400.0 / predicted_s;
    assert!((day / (step * steps) - 1.0).abs() < 1e-6, "{report}");
    // On a device that spills to host memory nothing wears out.
    let task = ["plan", &path, "--device", "rtx_3060", "--budget", "50%"];
    let (host, _) = json(&[&task[..], &swap].concat());
    assert!(host["written_per_day_bytes"].is_null(), "{host}");

    let limited = |factor: f64| {
        let limit = format!("{}", day * factor / 1e9);
        let more = ["--max-write-gb-per-day", &limit];
        json(&[plan(&path, &swap), more.to_vec()].concat())
    };
    assert_eq!(limited(1.01).1, Some(0));
    let (refused, status) = limited(0.5);
    assert_eq!(status, Some(1));
    assert_eq!(refused["error"]["kind"], "wear");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("raise the budget"), "{message}");
}

#[test]
fn addresses_can_be_fixed_and_the_plan_holds_them() {
    let folder = Folder::new();
    let file = folder.path("my.plan");
    let trace = trace("squeezenet1_1_b32_sgdm");
    for (which, all) in [("persistent", false), ("all", true)] {
        let more = ["--methods", "swap", "--fixed", which, "-o", &file];
        let (report, status) = json(&plan(&trace, &more));
        assert_eq!(status, Some(0), "{report}");
        let plan = plan_file::decode(&fs::read(&file).expect("it was written")).expect("sound");
        let mut places: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (access, place) in plan.skeleton.accesses.iter().zip(&plan.program.places) {
            let place = (place.window, place.offset);
            places.entry(access.tensor).or_default().insert(place);
        }
        for (tensor, places) in places {
            let persistent = plan.skeleton.tensor(tensor).persistent;
            assert!(places.len() == 1 || !(all || persistent), "{tensor:?}");
        }
        let overhead = report["page_overhead"].as_f64().expect("a number");
        assert!(overhead >= 1.0, "{report}");
    }
}

#[test]
fn what_is_kept_never_leaves_and_its_price_is_told() {
    let path = trace(TRACE);
    let task = ["plan", &path, "--device", "agx_orin", "--budget", "90%"];
    let swap = ["--methods", "swap", "--keep"];
    let keeping = |kinds| json(&[&task[..], &swap, &[kinds]].concat()).0;
    let (report, all) = (keeping("params"), keeping("none"));
    let bytes = |report: &serde_json::Value, key: &str| report[key].as_u64().expect("bytes");
    let kept = bytes(&report, "kept_bytes");
    assert!(kept > 0 && bytes(&all, "kept_bytes") == 0);
    let budget = "budget_bytes";
    assert_eq!(bytes(&report, budget) + kept, bytes(&all, budget));
    // Tensors begin at multiples of 512 bytes, which a peak does not count.
    let peak = bytes(&report, "peak_bytes") + kept;
    assert!(peak - bytes(&all, "peak_bytes") < kept / 100, "{peak}");
    assert_eq!(report["predicted_unkept_s"], all["predicted_s"]);
    assert!(all["predicted_unkept_s"].is_null());

    let task = ["plan", &path, "--device", "agx_orin", "--budget", "1MiB"];
    let (refused, _) = json(&[&task[..], &["--keep", "params"]].concat());
    assert_eq!(refused["error"]["kind"], "budget", "{refused}");
}
