//! `vtensor-bench probe --profile` from outside: the file that a boot leaves, and who may use it.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use jetson_runtime::{DeviceProfile, IoPath, StorageOptions, System, settings};
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

/// What `probe --check` says with these settings: its exit status, and its problems.
fn check(settings: &str) -> (Option<i32>, serde_json::Value) {
    let output = probe(&["--check", "--json"], settings);
    let said = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), said)
}

#[test]
fn what_programs_know_is_said_with_what_is_wrong() {
    let folder = Folder::new();
    let (file, profile, spill) = (
        folder.path("toml"),
        folder.path("json"),
        folder.path("spill"),
    );
    fs::create_dir(&spill).expect("a folder");
    let settings = |more: &str| {
        let text = format!("spill_dir = \"{spill}\"\nprofile = \"{profile}\"\n{more}");
        fs::write(&file, text).expect("written");
    };
    let problem = |words: &[&str]| {
        let (code, said) = check(&file);
        let problems = said["problems"].as_array().expect("problems");
        assert_eq!((code, problems.len()), (Some(1), 1), "{said}");
        let problem = problems[0].as_str().expect("a sentence");
        assert!(
            words.iter().all(|&w| problem.contains(w)),
            "{words:?}: {problem}"
        );
    };
    settings("spill_in_memory = true\n");
    problem(&[&profile, "is not used", "No such file"]);

    let output = probe(&["--profile", &profile, "--no-gpu"], &file);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (code, said) = check(&file);
    assert_eq!((code, &said["problems"]), (Some(0), &serde_json::json!([])));
    assert_eq!(
        (&said["spill_dir"], &said["encrypted"]),
        (&spill.clone().into(), &true.into())
    );
    let kept = DeviceProfile::read(Path::new(&profile), &System::here()).expect("of this boot");
    assert_eq!(said["link"]["out_bytes_per_s"], kept.storage[0].bps[0]);
    let said = text(&probe(&["--check"], &file).stdout).to_owned();
    assert!(
        said.contains(&spill) && said.contains("nothing is wrong"),
        "{said}"
    );

    let good = fs::read_to_string(&profile).expect("there");
    for (text, words) in [
        (
            good.replace(&kept.system.boot, "elsewhere"),
            ["boot", "\"elsewhere\""],
        ),
        (
            good[..good.len() / 2].to_owned(),
            ["no profile of this version", "EOF"],
        ),
        (
            format!("{good}{good}"),
            ["no profile of this version", "trailing"],
        ),
        (
            good.clone() + &" ".repeat(64 << 10),
            ["cannot be read", "at most 64 KiB"],
        ),
        (
            good.replace(&kept.storage[0].file_system.to_string(), "7"),
            ["has nothing of", &spill],
        ),
    ] {
        fs::write(&profile, text).expect("written");
        problem(&words);
    }
    fs::write(&profile, &good).expect("written");
    fs::set_permissions(&profile, fs::Permissions::from_mode(0o646)).expect("ours");
    problem(&["is not used", "everybody may write it"]);
    fs::set_permissions(&profile, fs::Permissions::from_mode(0o644)).expect("ours");
    fs::remove_dir(&spill).expect("empty");
    let (code, said) = check(&file);
    assert_eq!(
        (code, said["problems"].as_array().map(Vec::len)),
        (Some(1), Some(2)),
        "{said}"
    );
    let none = "spill_dir = \"\"\nprofile = \"\"\n";
    fs::write(&file, none).expect("written");
    let (code, said) = check(&file);
    assert_eq!((code, said["profile"].is_null()), (Some(0), true), "{said}");
    for more in [["--check", "/var/tmp"], ["--check", "--memory-backed"]] {
        assert_eq!(probe(&more, &file).status.code(), Some(2), "{more:?}");
    }
}

#[test]
fn the_services_of_the_layer_run_commands_that_there_are() {
    let layer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../yocto-layer/meta-vtensor");
    let folder = Folder::new();
    let profile = folder.path("profile.json");
    for file in [
        "recipes-vtensor/vtensor/files/vtensor-probe.service",
        "dynamic-layers/tegra/recipes-vtensor/vtensor/files/gpu.conf",
    ] {
        let text = fs::read_to_string(layer.join(file)).expect("a unit");
        let command = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let command = command.expect("a command").trim_start_matches('-');
        let args = command
            .strip_prefix("/usr/bin/vtensor-bench probe ")
            .expect(file);
        // Programs look for the profile where the service writes it.
        assert!(args.contains(settings::PROFILE), "{file}: {args}");
        let args = args.replace(settings::PROFILE, &profile);
        let output = probe(&args.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(output.status.code(), Some(0), "{file}: {output:?}");
        DeviceProfile::read(Path::new(&profile), &System::here()).expect("of this boot");
        fs::remove_file(&profile).expect("there");
    }
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
