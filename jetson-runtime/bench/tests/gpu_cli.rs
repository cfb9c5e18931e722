//! `probe` and `replay --backend cuda` from outside, with the model of the driver as each machine.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use jetson_runtime::{DeviceProfile, System};
use serde_json::Value;
use support::{Folder, text};

/// Runs the program where the model is the driver, as a machine, with a profile of the device.
fn bench(machine: &str, profile: &str, args: &[&str]) -> Output {
    let library = cuda_model::library().expect("the model is built with the tests");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vtensor-bench"));
    command
        .args(args)
        .env("VTENSOR_CONFIG", "")
        .env("VTENSOR_PROFILE", profile)
        .env("VTENSOR_CUDA_LIBRARY", library)
        .env("CUDA_MODEL_PROFILE", machine);
    command
        .output()
        .expect("the binary was built for this test")
}

/// The JSON of a run that must succeed.
fn json(machine: &str, profile: &str, args: &[&str]) -> Value {
    let output = bench(machine, profile, &[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What a run says that must fail.
fn refused(machine: &str, args: &[&str]) -> String {
    let output = bench(machine, "", args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    text(&output.stderr).to_owned()
}

/// A replay in half of the memory, at a small size.
fn replay<'a>(scale: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut line = vec!["replay", "resnet50_b32_sgdm", "--device", "rtx3060"];
    line.extend(["--budget", "50%", "--steps", "1", "--backend", "cuda"]);
    line.extend(["--scale", scale]);
    line.extend(more);
    line
}

#[test]
fn the_probe_decides_and_says_why() {
    let forced = ["--force-host-spill"];
    let file = concat!("file:", env!("CARGO_TARGET_TMPDIR"));
    let to_file = ["--spill", file, "--methods", "swap"];
    for (machine, scale, more, mechanism, policy) in [
        ("nano", "1/512", &forced[..], "packed", "whole"),
        ("orin", "1/32", &forced, "mapped", "vtensor"),
        ("nano", "1/512", &to_file, "packed", "whole"),
        ("orin", "1/32", &to_file, "mapped", "vtensor"),
    ] {
        let report = json(machine, "", &replay(scale, more));
        assert_eq!(report["mismatches"], 0, "{machine}: {report}");
        assert_eq!(report["mechanism"], mechanism, "{machine}");
        assert_eq!(report["policy"], policy, "{machine}");
        assert_eq!(report["profile"], Value::Null, "{machine}: probed now");
        let reasons = report["decision"]["reasons"].to_string();
        assert!(reasons.contains(&format!("{mechanism}: ")), "{reasons}");
    }
    let line = replay("1/512", &["--mechanism", "managed"]);
    let managed = bench("rtx-linux", "/no/such/profile", &line);
    let said = text(&managed.stdout);
    for wanted in [
        "RTX 4090, driver of CUDA 13.0, probed now: there is no profile /no/such/profile",
        "managed, as was asked for",
        "executed      by managed",
        "wrong bytes   0",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in\n{said}");
    }
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    for (machine, scale, more, wanted) in [
        (
            "orin",
            "1/32",
            &["--mechanism", "managed", "--force-host-spill"][..],
            "managed cannot be used here: the trial of prefetch failed",
        ),
        (
            "nano",
            "1/512",
            &["--mechanism", "mapped", "--force-host-spill"],
            "the trial of aliased windows failed: the device has no virtual memory management",
        ),
        (
            "nano",
            "1/512",
            &["--policy", "vtensor", "--force-host-spill"],
            "the policy `vtensor` scatters tensors over pages",
        ),
        (
            "orin",
            "1/32",
            &["--methods", "both"],
            "it would free nothing",
        ),
        (
            "rtx-linux",
            "1/512",
            &["--spill", "file:/var/tmp", "--mechanism", "managed"],
            "storage cannot be used here: with `managed` the driver moves pages",
        ),
        ("rtx-linux", "1/512", &[], "the device has pages of 2 MiB"),
    ] {
        let said = refused(machine, &replay(scale, more));
        assert!(said.contains(wanted), "{machine} {more:?}: {said}");
    }
    // More than the device has is refused before any of it is taken.
    let trace = support::trace("vgg16_b32_sgdm");
    let mut line = vec!["replay", &trace, "--device", "agx_orin", "--budget", "100%"];
    line.extend(["--backend", "cuda", "--scale", "1", "--force-host-spill"]);
    let said = refused("nano", &line);
    assert!(said.contains("the budget cannot be used here: "), "{said}");
    let large = ["--gpu-budget", "1TiB"];
    let said = refused("rtx-wsl", &[&["probe"], &large[..]].concat());
    assert!(
        said.contains("the budget cannot be used here: 1 TiB"),
        "{said}"
    );
    let storage = ["probe", "--gpu-spill", "storage", "--mechanism", "managed"];
    let said = refused("rtx-linux", &storage);
    assert!(said.contains("storage cannot be used here"), "{said}");
}

#[test]
fn every_machine_is_probed() {
    for (machine, class) in [
        ("nano", "A"),
        ("orin", "A"),
        ("thor", "B"),
        ("gh200", "C"),
        ("rtx-linux", "D"),
        ("rtx-wsl", "E"),
    ] {
        let report = json(machine, "", &["probe"]);
        assert_eq!(report["probe"]["class"], class, "{machine}");
        let budget = report["decision"]["budget_bytes"].as_u64();
        assert!(budget > Some(0), "{report}");
    }
}

#[test]
fn a_probe_is_kept_in_the_profile_and_holds_for_its_driver() {
    let folder = Folder::new();
    let file = folder.path("profile.json");
    let kept = json("orin", "", &["probe", "--profile", &file]);
    assert_eq!(kept["gpus"][0]["gpu"]["name"], "Orin");
    let line = replay("1/32", &["--force-host-spill"]);
    let known = json("orin", &file, &line);
    assert_eq!(known["profile"], file.as_str());
    // It is taken at its word: what its trials say is what is decided.
    let written = fs::read_to_string(&file).expect("it was written");
    let trial = "\"name\":\"aliased windows\",\"works\":true";
    assert!(written.contains(trial), "{written}");
    let without = written.replace(trial, &trial.replace("true", "false"));
    fs::write(&file, without).expect("it is ours");
    assert_eq!(json("orin", &file, &line)["mechanism"], "packed");
    let other = written.replace("\"driver_version\":", "\"driver_version\":1");
    fs::write(&file, other).expect("it is ours");
    assert_eq!(json("orin", &file, &line)["profile"], Value::Null);
    // Another machine has nothing of it.
    let thor = json("thor", &file, &line);
    assert_eq!(thor["profile"], Value::Null);
}

#[test]
fn a_gpu_that_is_not_there_is_told() {
    let line = ["probe", "--cuda-library", "/nowhere/libcuda.so.1"];
    let said = refused("orin", &line);
    assert!(
        said.contains("/nowhere/libcuda.so.1 cannot be used"),
        "{said}"
    );
    assert!(said.contains("install the driver"), "{said}");
    let folder = Folder::new();
    let file = folder.path("profile.json");
    let said = refused("orin", &[&line[..], &["--profile", &file]].concat());
    assert!(said.contains("cannot be used"), "{said}");
    assert_eq!(folder.entries(), 0, "what was named is wanted");
    let said = refused("orin", &["probe", "--device-ordinal", "7"]);
    assert!(said.contains("device 7 was wanted, there are 1"), "{said}");
    // A machine without a GPU has a profile, too.
    let kept = json("no-such-machine", "", &["probe", "--profile", &file]);
    let missing = kept["gpus_missing"][0].to_string();
    assert!(missing.contains("CUDA_ERROR_NO_DEVICE"), "{missing}");
    json("orin", "", &["probe", "--profile", &file, "--no-gpu"]);
    let profile = DeviceProfile::read(Path::new(&file), &System::here()).expect("of this boot");
    assert!(profile.gpus.is_empty());
}
