//! `probe`: what this machine can do, and the profile that keeps it.

use std::fmt::Write;
use std::path::Path;

use jetson_runtime::cuda::probe::Probe;
use jetson_runtime::{DeviceProfile, Settings, System};
use serde::Serialize;

use super::probe_storage::{ProbeReport, measure, table};
use super::{Answer, probe_check, probe_gpu};
use crate::args::ProbeArgs;
use crate::error::BenchError;
use crate::output_file;
use crate::report::to_json;

/// What is said with `--profile`.
#[derive(Clone, Debug, Serialize)]
struct ProfileReport<'a> {
    profile: &'a Path,
    system: &'a System,
    /// Null if there is no spill folder.
    storage: Option<ProbeReport>,
    gpus: &'a [Probe],
    /// Why a GPU is missing.
    gpus_missing: Vec<String>,
}

pub(super) fn run(args: &ProbeArgs, json: bool) -> Result<Answer, BenchError> {
    if args.check {
        return probe_check::run(json);
    }
    let text = match (&args.folder, &args.profile) {
        (Some(folder), None) => {
            let (report, _) = measure(folder, args.memory_backed)?;
            if json {
                to_json(&report)
            } else {
                table(&report)
            }
        }
        (_, Some(file)) => keep(args, file, json)?,
        (None, None) => return probe_gpu::run(&args.gpu, json),
    };
    Ok(Answer { text, good: true })
}

/// Measures and writes the profile.
fn keep(args: &ProbeArgs, file: &Path, json: bool) -> Result<String, BenchError> {
    let settings = Settings::load()?;
    let memory_backed = args.memory_backed || settings.storage().memory_backed;
    let folder = args.folder.clone().or_else(|| settings.spill_folder());
    let measured = folder.map(|folder| measure(&folder, memory_backed));
    let (storage, ways) = measured.transpose()?.unzip();
    let (gpus, gpus_missing) = match args.no_gpu {
        true => (Vec::new(), vec!["it was not looked for".into()]),
        false => probe_gpu::all(&args.gpu)?,
    };
    let profile = DeviceProfile::new(System::here(), ways.unwrap_or_default(), gpus);
    let failed = |source| BenchError::File {
        path: file.into(),
        source,
    };
    output_file::write(file, format!("{}\n", to_json(&profile)).as_bytes()).map_err(failed)?;
    let report = ProfileReport {
        profile: file,
        system: &profile.system,
        storage,
        gpus: &profile.gpus,
        gpus_missing,
    };
    Ok(match json {
        true => to_json(&report),
        false => text(&report),
    })
}

fn text(report: &ProfileReport<'_>) -> String {
    let mut text = match &report.storage {
        Some(storage) => table(storage),
        None => "No disk was measured: no folder was named, and the settings have no spill_dir.\n"
            .to_owned(),
    };
    // Writing to a string cannot fail.
    for probe in report.gpus {
        let _ = writeln!(text, "GPU: {}, class {}", probe.gpu, probe.class);
    }
    for reason in &report.gpus_missing {
        let _ = writeln!(text, "No GPU was probed: {reason}");
    }
    let _ = writeln!(
        text,
        "kept in {} until this machine is started again",
        report.profile.display()
    );
    text
}
