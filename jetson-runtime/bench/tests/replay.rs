//! `replay` from outside, and what its digest depends on.

mod support;

use std::num::NonZeroU32;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use jetson_runtime::Spill;
use lgm::planner::{Methods, Request};
use lgm::policy::Policy;
use lgm::profile::Profiles;
use lgm::synthetic::{Shape, training_step};
use lgm::verify::VerifiedPlan;
use support::{Folder, bench, check_replay, json, prove, text, trace};
use vtensor::{Bytes, PageBytes};
use vtensor_bench::replay::{Settings, replay};

const TRACE: &str = "resnet18_b32_sgdm";

const MORE_KEYS: [&str; 5] = [
    "steps",
    "measured_s",
    "mismatches",
    "digest",
    "digests_equal",
];

fn replay_args<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let task = ["replay", path, "--device", "rtx3060", "--budget", "50%"];
    [&task, more].concat()
}

/// The digest that a good replay prints.
fn digest(more: &[&str]) -> String {
    let path = trace(TRACE);
    let (report, status) = json(&replay_args(&path, more));
    assert_eq!(status, Some(0), "{more:?}: {report}");
    assert_eq!(report["mismatches"], 0, "{more:?}: {report}");
    assert_eq!(report["digests_equal"], true, "{more:?}: {report}");
    let keys = report.as_object().expect("an object").len();
    assert_eq!(keys, 23 + MORE_KEYS.len(), "{report}");
    for key in MORE_KEYS {
        assert!(report.get(key).is_some(), "{key} is not in {report}");
    }
    let digest = report["digest"].as_str().expect("text");
    assert_eq!(digest.len(), 64, "{digest}");
    digest.to_owned()
}

#[test]
fn scale_tier_pace_and_steps_do_not_change_the_digest() {
    let folder = Folder::new();
    let file = format!("file:{}", folder.path(""));
    let first = digest(&["--scale", "1/512"]);
    for more in [
        &["--scale", "1/64", "--steps", "5"][..],
        &["--scale", "1/512", "--spill", &file],
        &["--scale", "1/128", "--spill", &file, "--steps", "1"],
        &["--scale", "1/512", "--paced", "--time-scale", "1/8"],
    ] {
        assert_eq!(digest(more), first, "{more:?}");
    }
    assert_eq!(folder.entries(), 0, "a spill file has no name");
    let other = digest(&["--scale", "1/512", "--policy", "whole"]);
    assert_ne!(other, first, "another plan does something else");
}

#[test]
fn at_full_size_what_a_sealed_file_takes_is_no_breach_of_the_budget() {
    let folder = Folder::new();
    let file = format!("file:{}", folder.path("."));
    let path = trace(TRACE);
    let task = ["replay", &path, "--device", "agx_orin", "--budget", "50%"];
    let size = ["--methods", "swap", "--scale", "1", "--steps", "1"];
    let spill = ["--spill", &file, "--memory-backed"];
    let (report, status) = json(&[&task[..], &size[..], &spill[..]].concat());
    assert_eq!(status, Some(0), "{report}");
    assert_eq!(report["mismatches"], 0, "{report}");
}

#[test]
fn every_policy_replays() {
    // These never let parameters leave, and this budget leaves no room for them; checkpoints alone
    // do not free enough.
    let without_plan = [
        Policy::Checkpoint,
        Policy::VdnnAll,
        Policy::VdnnConv,
        Policy::Flashneuron,
        Policy::VdnnAllPaged,
        Policy::VdnnConvPaged,
        Policy::FlashneuronPaged,
    ];
    for policy in Policy::ALL {
        let more = ["--scale", "1/512", "--policy", policy.name()];
        if without_plan.contains(&policy) {
            let path = trace(TRACE);
            let (report, status) = json(&replay_args(&path, &more));
            assert_eq!(status, Some(1), "{report}");
            let kind = match policy {
                Policy::Checkpoint => "plan",
                _ => "no_schedule",
            };
            assert_eq!(report["error"]["kind"], kind, "{report}");
        } else {
            let _ = digest(&more);
        }
    }
}

#[test]
fn text_says_what_was_executed_and_held() {
    let path = trace(TRACE);
    let more = ["--scale", "1/512", "--link-gbps", "8", "--paced"];
    let output = bench(&replay_args(&path, &more));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for wanted in [
        "mismatches    0 bytes",
        "the same in every step",
        "at 1/512 of the size: pages of 4 KiB",
        "by PSS less baseline and spill tier",
        "predicted at this time scale",
    ] {
        assert!(
            text(&output.stdout).contains(wanted),
            "{wanted}: {output:?}"
        );
    }
    assert!(
        output.stderr.is_empty(),
        "bars are for terminals: {output:?}"
    );
}

#[test]
fn a_slower_link_is_planned_for_and_kept_to() {
    let path = trace(TRACE);
    let replayed = |gbps: &str| {
        let more = ["--methods", "swap", "--scale", "1/512", "--link-gbps", gbps];
        let (report, status) = json(&replay_args(&path, &more));
        assert_eq!(status, Some(0), "{report}");
        ["measured_s", "predicted_ratio", "moved_out_bytes"]
            .map(|key| report[key].as_f64().expect(key))
    };
    let [_, fast_ratio, _] = replayed("1000");
    let [slow_s, slow_ratio, moved_bytes] = replayed("0.05");
    assert!(slow_ratio > 2.0 * fast_ratio, "{slow_ratio} {fast_ratio}");
    // However busy the machine is, copies that are held back take no less than they are told to.
    let least_s = moved_bytes / 512.0 / 0.05e9;
    assert!(slow_s > 0.9 * least_s, "{slow_s} {least_s}");
}

#[test]
fn a_spill_tier_without_room_is_a_clear_error() {
    let path = trace(TRACE);
    let (error, status) = json(&replay_args(&path, &["--spill", "file:/no/such/folder"]));
    assert_eq!(status, Some(1));
    assert_eq!(error["error"]["kind"], "spill", "{error}");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("/no/such/folder"), "{message}");
}

#[test]
fn without_a_command_every_policy_is_compared() {
    let (report, status) = json(&[]);
    assert_eq!(status, Some(0), "{report}");
    let runs = report["runs"].as_array().expect("runs");
    let policies: Vec<_> = runs.iter().map(|run| run["policy"].as_str()).collect();
    let all = ["none", "lru", "whole", "vtensor", "vtensor"].map(Some);
    assert_eq!(policies, all);
    let methods: Vec<_> = runs.iter().map(|run| run["methods"].as_str()).collect();
    assert_eq!(methods[3..], ["swap", "both"].map(Some));
    for run in runs {
        assert_eq!(
            (&run["verdict"], &run["mismatches"]),
            (&"ok".into(), &0.into())
        );
        assert_eq!(run["digests_equal"], true);
    }
    let output = bench(&[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let table = text(&output.stdout);
    for wanted in [
        "resnet50",
        "policy ",
        "vtensor ",
        " ok ",
        "equal",
        "all that comes back is right",
        "Next (cargo",
    ] {
        assert!(table.contains(wanted), "{wanted} is not in\n{table}");
    }
    assert!(
        table.lines().all(|line| line.chars().count() <= 110),
        "{table}"
    );
}

#[test]
fn a_replay_that_is_killed_leaves_no_file() {
    let folder = Folder::new();
    let file = format!("file:{}", folder.path(""));
    let path = trace(TRACE);
    let more = ["--spill", &file, "--steps", "1000000", "--scale", "1/512"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_vtensor-bench"))
        .args(replay_args(&path, &more))
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary was built for this test");
    // It is at work once it holds the file, which has no name.
    let files = format!("/proc/{}/fd", child.id());
    let holds = || {
        let links = fs::read_dir(&files).into_iter().flatten().flatten();
        let mut targets = links.filter_map(|link| fs::read_link(link.path()).ok());
        targets.any(|target| target.starts_with(&folder.0))
    };
    let start = Instant::now();
    while !holds() {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended");
        assert!(start.elapsed() < Duration::from_secs(300), "it never began");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(folder.entries(), 0);
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    assert_eq!(folder.entries(), 0);
}

/// A plan of a small random step at half of its memory.
fn small_plan() -> VerifiedPlan {
    let trace = training_step(4, &Shape::SMALL);
    let skeleton = trace.skeleton(&trace.devices()[0]).expect("sound");
    let profiles = Profiles::builtin();
    let request = Request {
        skeleton: &skeleton,
        profile: profiles.get("rtx3060").expect("built in"),
        budget: Bytes(trace.peak_bytes().0 / 2),
        policy: Policy::Vtensor,
        methods: Methods::Swap,
        page: Some(PageBytes::new(8 << 10).expect("a page")),
        trace_digest: trace.digest(),
        model: trace.model(),
    };
    let (_, plan) = prove(&request).expect("it fits");
    assert!(!plan.program.ins.is_empty(), "something moves");
    plan
}

#[test]
fn a_thousand_iterations_do_the_same() {
    let plan = small_plan();
    let long = check_replay(plan.clone(), Spill::Ram, 1000).expect("no fault");
    let file = Spill::File(env!("CARGO_TARGET_TMPDIR").into());
    let short = check_replay(plan, file, 1).expect("no fault");
    assert_eq!(long.digest, short.digest);
    assert_eq!(long.steps, 1000);
    assert_eq!(long.held.arena, long.executed.arena);
}

#[test]
fn full_size_and_the_smallest_size_have_one_digest() {
    let plan = small_plan();
    let outcome = |scale: f64| {
        let settings = Settings {
            scale,
            steps: NonZeroU32::MIN,
            ..Settings::quick()
        };
        replay(plan.clone(), &settings, &mut || ()).expect("it fits")
    };
    let (full, small) = (outcome(1.0), outcome(1e-6));
    assert_eq!((full.ratio, full.mismatches, small.mismatches), (1, 0, 0));
    assert!(small.ratio > 1 && small.executed.arena < full.executed.arena);
    assert_eq!(full.digest, small.digest);
}
