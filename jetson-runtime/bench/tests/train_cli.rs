//! `vtensor-bench train` from outside: what it prints, its files, its errors.

mod support;

use std::fs;

use support::{Folder, bench, json, text};

#[test]
fn json_has_a_run_for_each_policy_and_all_are_identical() {
    let (report, status) = json(&["train", "--epochs", "3", "--batch", "100", "--repeat", "2"]);
    assert_eq!(status, Some(0), "{report}");
    let runs = report["runs"].as_array().expect("runs");
    let policies: Vec<_> = runs.iter().map(|run| run["policy"].as_str()).collect();
    let all = ["none", "lru", "whole", "vtensor"].map(Some);
    assert_eq!(policies, all);
    for run in runs {
        assert_eq!(run["bit_identical"], true, "{run}");
        assert_eq!(run["losses_digest"], runs[0]["losses_digest"]);
        assert_eq!((&run["steps"], &run["repeats"]), (&45.into(), &2.into()));
        assert!(run["images_per_s"].as_f64() > Some(0.0), "{run}");
        assert!(
            run["loss_first"].as_f64() > run["loss_last"].as_f64(),
            "{run}"
        );
        assert!(run["test_accuracy"].as_f64() > Some(0.9), "{run}");
        assert!(run["compute_s"].as_f64() < run["total_s"].as_f64(), "{run}");
        assert!(run["peak_pss_bytes"].as_u64() > Some(0), "{run}");
        assert_eq!(run["refusals"].as_array().map(Vec::len), Some(0), "{run}");
    }
    assert!(runs[0]["budget_bytes"].is_null());
    let peak = runs[0]["peak_device_bytes"].as_u64().expect("bytes");
    for run in &runs[1..] {
        let budget = run["budget_bytes"].as_u64().expect("bytes");
        assert!(budget * 2 <= peak, "half of {peak}: {budget}");
        assert!(run["peak_device_bytes"].as_u64() <= Some(budget), "{run}");
        assert!(run["moved_out_bytes"].as_u64() > Some(0), "{run}");
    }
}

#[test]
fn the_table_says_what_was_trained_and_found() {
    let output = bench(&[
        "train",
        "--steps",
        "30",
        "--policy",
        "lru",
        "--link-gbps",
        "0.5",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = text(&output.stdout);
    for wanted in [
        "Optical Recognition of Handwritten Digits (UCI, CC BY 4.0)",
        "1437 images to learn from, 360 held out",
        "30 steps of 128 images",
        "a link of 0.5 GB/s",
        "no limit",
        "images/s",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    assert_eq!(text.matches("identical\n").count(), 2, "{text}");
}

#[test]
fn a_folder_of_cifar_10_is_trained_on() {
    let folder = Folder::new();
    // Two images in each file, of one colour each; a label and 3 x 1024 pixels.
    let record = |label: u8| [&[label][..], &[25 * label; 3072]].concat();
    for batch in 1..=5 {
        let name = format!("data_batch_{batch}.bin");
        fs::write(folder.path(&name), [record(batch), record(9)].concat()).expect("written");
    }
    fs::write(folder.path("test_batch.bin"), record(9).repeat(2)).expect("written");
    let data = folder.path("");
    let args = [
        "--data", &data, "--batch", "4", "--steps", "5", "--policy", "vtensor",
    ];
    let output = bench(&[&["train", "--model", "resnet20"], &args[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = text(&output.stdout);
    let wanted = "resnet20 on CIFAR-10: 10 images to learn from, 2 held out";
    assert!(text.contains(wanted), "{text}");
    assert_eq!(text.matches("identical\n").count(), 2, "{text}");
}

#[test]
fn parameters_are_saved_and_loaded() {
    let folder = Folder::new();
    let file = folder.path("digits.safetensors");
    let train = |more: &[&str]| {
        let (report, status) =
            json(&[&["train", "--policy", "none", "--steps", "6"], more].concat());
        assert_eq!(status, Some(0), "{report}");
        report["runs"][0].clone()
    };
    let first = train(&["--save", &file]);
    let second = train(&["--load", &file]);
    assert!(second["loss_first"].as_f64() < first["loss_first"].as_f64());
    assert_eq!(folder.entries(), 1);
    let again = folder.path("again.safetensors");
    train(&["--save", &again]);
    let read = |path: &str| fs::read(path).expect("a file");
    assert!(
        read(&file) == read(&again),
        "the same training has the same file"
    );
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = Folder::new();
    let digits = folder.path("digits");
    let saved = bench(&[
        "train", "--policy", "none", "--steps", "1", "--save", &digits,
    ]);
    assert_eq!(saved.status.code(), Some(0), "{saved:?}");
    let text = folder.path("text");
    fs::write(&text, "no tensors").expect("written");
    let cases: [(&[&str], &str, &str); 7] = [
        (&["--data", &text], "data", "digits are built in"),
        (&["--batch", "2000"], "batch", "1437 images"),
        (
            &["--model", "resnet20", "--data", &digits],
            "data",
            "data_batch_1.bin",
        ),
        (&["--load", "nowhere"], "weights", "nowhere: No such file"),
        (&["--load", &text], "weights", "wanted a safetensors file"),
        (
            &["--model", "resnet20", "--load", &digits],
            "weights",
            "of shape [16, 3, 3, 3]",
        ),
        (
            &["--budget", "100KiB", "--policy", "lru"],
            "budget",
            "the budget is 100 KiB",
        ),
    ];
    for (args, kind, wanted) in cases {
        let (report, status) = json(&[&["train", "--steps", "1"], args].concat());
        assert_eq!(status, Some(1), "{report}");
        assert_eq!(report["error"]["kind"], kind, "{report}");
        let message = report["error"]["message"].as_str().expect("a message");
        assert!(message.contains(wanted), "{wanted} is not in: {message}");
    }
}

#[test]
fn the_buffers_of_a_spill_file_are_no_breach_of_the_budget() {
    let folder = Folder::new();
    let spill = format!("file:{}", folder.path("."));
    let (report, status) = json(&[
        "train",
        "--model",
        "resnet20",
        "--steps",
        "6",
        "--policy",
        "vtensor",
        "--methods",
        "swap",
        "--keep",
        "none",
        "--memory-backed",
        "--spill",
        &spill,
    ]);
    assert_eq!(status, Some(0), "{report}");
    assert_eq!(report["runs"][1]["bit_identical"], true, "{report}");
}
