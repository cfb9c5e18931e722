//! `vtensor-bench probe --profile` from outside: the file that a boot leaves, and who may use it.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use jetson_runtime::{DeviceProfile, IoPath, StorageOptions, System};
use support::{Folder, text};

/// Runs `probe` with settings of this test's own.
fn probe(args: &[&str], settings: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vtensor-bench"));
    command
        .arg("probe")
        .args(args)
        .env("VTENSOR_CONFIG", settings);
    command
        .output()
        .expect("the binary was built for this test")
}

#[test]
fn a_profile_has_every_way_to_the_spill_folder_of_the_settings() {
    let folder = Folder::new();
    let (settings, profile) = (folder.path("vtensor.toml"), folder.path("profile.json"));
    let spill = folder.path("spill");
    fs::create_dir(&spill).expect("a folder");
    let text_of_settings = format!("spill_dir = \"{spill}\"\nspill_in_memory = true\n");
    fs::write(&settings, text_of_settings).expect("written");
    let output = probe(&["--profile", &profile, "--json"], &settings);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["profile"], profile.as_str());
    assert_eq!(said["storage"]["folder"], spill.as_str());

    let kept = DeviceProfile::read(Path::new(&profile), &System::here()).expect("of this boot");
    assert_eq!(said["system"]["page_bytes"], kept.system.page_bytes);
    let ways = said["storage"]["ways"].as_array().expect("ways");
    assert_eq!(kept.storage.len(), ways.len());
    for (kept, said) in kept.storage.iter().zip(ways) {
        assert_eq!(kept.bps[0], said["out"]["bytes_per_s"], "{said}");
        assert_eq!(said["path"], kept.path.as_str());
    }
    for path in [IoPath::Auto, IoPath::Plain] {
        let options = StorageOptions {
            path,
            ..StorageOptions::default()
        };
        let link = kept.link(Path::new(&spill), &options).expect("measured");
        assert!(
            link.0.out_bps >= 1e6 && link.0.copy_latency_ns > 0,
            "{link:?}"
        );
    }
    assert_eq!(
        folder.entries(),
        3,
        "no spill file and no part of a profile"
    );
}

#[test]
fn without_a_spill_folder_the_profile_is_of_the_machine_alone() {
    let folder = Folder::new();
    let profile = folder.path("profile.json");
    let output = probe(&["--profile", &profile], "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("No disk was measured") && said.contains(&profile),
        "{said}"
    );
    let kept = DeviceProfile::read(Path::new(&profile), &System::here()).expect("of this boot");
    assert!(kept.storage.is_empty());
}

#[test]
fn what_fails_leaves_no_profile_and_says_why() {
    let folder = Folder::new();
    let (settings, profile) = (folder.path("vtensor.toml"), folder.path("profile.json"));
    for (content, kind, words) in [
        (
            "spill_dri = \"/var/tmp\"\n",
            "settings",
            "vtensor.toml, line 1: there is no option",
        ),
        ("spill_dir = \"/no/such\"\n", "spill", "/no/such"),
    ] {
        fs::write(&settings, content).expect("written");
        let output = probe(&["--profile", &profile, "--json"], &settings);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(said["error"]["kind"], kind, "{said}");
        let message = said["error"]["message"].as_str().expect("a message");
        assert!(message.contains(words), "{message}");
        assert_eq!(folder.entries(), 1);
    }
    let output = probe(&["--profile", "/no/such/profile.json"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("/no/such/profile.json"),
        "{output:?}"
    );
}
