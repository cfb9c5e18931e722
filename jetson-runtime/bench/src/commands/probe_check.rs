//! `probe --check`: what the programs of this user know before they measure anything.
//!
//! In: the settings, and the profile that they name, as every program reads them. Out: what they
//! say, and whatever will make programs fail or measure by themselves; to look at a device after it
//! was started. Nothing is measured or written.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use jetson_runtime::{DeviceProfile, Integrity, Settings, StorageOptions, System};
use nix::unistd::{AccessFlags, access};
use serde::Serialize;
use vtensor::Bytes;

use super::Answer;
use crate::error::BenchError;
use crate::report::to_json;

/// What the settings and the profile say.
#[derive(Clone, Debug, Serialize)]
struct CheckReport {
    /// The most that a program's arena takes; null if there is no limit.
    budget_bytes: Option<u64>,
    /// The folder of spill files; null if pieces go to memory.
    spill_dir: Option<PathBuf>,
    encrypted: bool,
    /// Where the profile should be; null if none is wanted.
    profile: Option<PathBuf>,
    /// The spill folder by the profile.
    link: Option<Link>,
    /// GPUs of the profile.
    gpus: Vec<String>,
    /// What makes programs fail, or measure by themselves.
    problems: Vec<String>,
}

/// The link of the spill folder.
#[derive(Clone, Debug, Serialize)]
struct Link {
    out_bytes_per_s: f64,
    in_bytes_per_s: f64,
    latency_ns: u64,
    request_bytes: u32,
    /// Threads that seal beside an engine.
    sealers: u32,
}

pub(super) fn run(json: bool) -> Result<Answer, BenchError> {
    let report = CheckReport::of(&Settings::load()?);
    Ok(Answer {
        text: match json {
            true => to_json(&report),
            false => text(&report),
        },
        good: report.problems.is_empty(),
    })
}

impl CheckReport {
    fn of(settings: &Settings) -> Self {
        let storage = settings.storage();
        let mut report = Self {
            budget_bytes: settings.budget.map(|budget| budget.0),
            spill_dir: settings.spill_folder(),
            encrypted: storage.integrity == Integrity::Encrypt,
            profile: settings.profile(),
            link: None,
            gpus: Vec::new(),
            problems: Vec::new(),
        };
        if let Some(folder) = &report.spill_dir {
            // As who runs this: others may be in the folder's group, or not.
            let makes_files = AccessFlags::W_OK | AccessFlags::X_OK;
            if let Err(errno) = access(folder, makes_files) {
                let folder = folder.display();
                let problem = format!("no spill file can be made in {folder}: {}", errno.desc());
                report.problems.push(problem);
            }
        }
        if let Some(profile) = report.profile.clone() {
            report.read(&profile, &storage);
        }
        report
    }

    fn read(&mut self, profile: &Path, storage: &StorageOptions) {
        let name = profile.display();
        match DeviceProfile::read(profile, &System::here()) {
            Err(refusal) => self.problems.push(format!("{name} is not used: {refusal}")),
            Ok(found) => {
                self.gpus = found
                    .gpus
                    .iter()
                    .map(|probe| probe.gpu.to_string())
                    .collect();
                let Some(folder) = &self.spill_dir else {
                    return;
                };
                match found.link(folder, storage) {
                    Some((link, tuning)) => {
                        self.link = Some(Link {
                            out_bytes_per_s: link.out_bps,
                            in_bytes_per_s: link.in_bps,
                            latency_ns: link.copy_latency_ns,
                            request_bytes: tuning.request_bytes,
                            sealers: tuning.sealers,
                        });
                    }
                    None => self.problems.push(format!(
                        "{name} has nothing of {}, used in this way; write it again \
                         (vtensor-bench probe)",
                        folder.display()
                    )),
                }
            }
        }
    }
}

fn text(report: &CheckReport) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match report.budget_bytes {
        Some(budget) => writeln!(text, "a program's arena takes at most {}", Bytes(budget)),
        None => writeln!(
            text,
            "a program's arena has no limit, unless the program sets one"
        ),
    };
    let _ = match (&report.spill_dir, report.encrypted) {
        (Some(folder), true) => writeln!(text, "pieces go to {}, sealed", folder.display()),
        (Some(folder), false) => writeln!(text, "pieces go to {}, readable", folder.display()),
        (None, _) => writeln!(text, "pieces go to memory"),
    };
    if let (Some(profile), Some(link)) = (&report.profile, &report.link) {
        let _ = writeln!(
            text,
            "{}: {:.2} GB/s out, {:.2} GB/s in, {} µs a copy, requests of {}, {} thread{} \
             sealing",
            profile.display(),
            link.out_bytes_per_s / 1e9,
            link.in_bytes_per_s / 1e9,
            link.latency_ns / 1000,
            Bytes(link.request_bytes.into()),
            1 + link.sealers,
            if link.sealers == 0 { "" } else { "s" }
        );
    }
    for gpu in &report.gpus {
        let _ = writeln!(text, "GPU: {gpu}");
    }
    let _ = match report.problems.as_slice() {
        [] => writeln!(text, "nothing is wrong"),
        problems => writeln!(text, "PROBLEM: {}", problems.join("\nPROBLEM: ")),
    };
    text
}
