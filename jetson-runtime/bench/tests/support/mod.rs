//! What the tests of this crate share: the binary, cells of the matrix, and workers.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{self, Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

use jetson_runtime::Spill;
use lgm::plan_file;
use lgm::planner::{self, Planned, Request};
use lgm::verify::VerifiedPlan;
use vtensor_bench::planning;
use vtensor_bench::replay::{Outcome, Settings, replay};

/// Runs the binary.
pub(crate) fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vtensor-bench"));
    let output = command.args(args).output();
    output.expect("the binary was built for this test")
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("messages are text")
}

/// Runs the binary with `--json`; returns what it printed and its exit status.
pub(crate) fn json(args: &[&str]) -> (serde_json::Value, Option<i32>) {
    let output = bench(&[args, &["--json"]].concat());
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|error| panic!("{args:?}: {error}: {output:?}"));
    (value, output.status.code())
}

/// The path of a trace of the repository.
pub(crate) fn trace(name: &str) -> String {
    format!("{}/../../traces/{name}.json.gz", env!("CARGO_MANIFEST_DIR"))
}

/// The names of all traces of the repository, sorted.
pub(crate) fn traces() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let entries = fs::read_dir(folder).expect("the repository has traces");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".json.gz")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// A folder of a test's own, removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vtensor-bench-test-{}-{number}", process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    /// A path in it, as text.
    pub(crate) fn path(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str()
            .expect("temporary folders have plain names")
            .to_owned()
    }

    /// How many things are in it.
    pub(crate) fn entries(&self) -> usize {
        fs::read_dir(&self.0).expect("readable").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Plans and proves; a plan file in between, as if it came from elsewhere.
pub(crate) fn prove(request: &Request<'_>) -> Result<(Planned, VerifiedPlan), Fault> {
    let planned = match planning::plan(request) {
        Ok(planned) => planned,
        Err(
            error @ (planner::PlanError::NoSchedule { .. }
            | planner::PlanError::NotByRecompute { .. }),
        ) => return Err(Fault::NoSchedule(error.to_string())),
        Err(error) => return Err(Fault::Bug(error.to_string())),
    };
    let arena = u64::from(planned.plan.program.arena_pages) * planned.plan.program.page_bytes.get();
    if request.policy != lgm::policy::Policy::None && arena > request.budget.0 {
        return Err(Fault::Bug(format!("an arena of {arena} bytes")));
    }
    let plan = plan_file::decode(&plan_file::encode(&planned.plan));
    let plan = plan.map_err(|error| Fault::Bug(error.to_string()))?;
    match VerifiedPlan::new(plan) {
        Ok(plan) => Ok((planned, plan)),
        Err(violation) => Err(Fault::Bug(format!("VIOLATION {violation}"))),
    }
}

/// Why a cell did not work.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The policy found no plan although every op fits: allowed to simple policies.
    NoSchedule(String),
    /// Anything else.
    Bug(String),
}

/// Replays at the smallest size; wrong bytes and unequal digests are faults.
pub(crate) fn check_replay(plan: VerifiedPlan, spill: Spill, steps: u32) -> Result<Outcome, Fault> {
    let settings = Settings {
        spill,
        steps: NonZeroU32::new(steps).expect("some steps"),
        ..Settings::quick()
    };
    let outcome = match replay(plan, &settings, &mut || ()) {
        Ok(outcome) => outcome,
        Err(error) => return Err(Fault::Bug(format!("REPLAY {error}"))),
    };
    match &outcome.first_mismatch {
        Some(first) => Err(Fault::Bug(format!(
            "MISMATCH of {} bytes, first in {first}",
            outcome.mismatches
        ))),
        None if !outcome.digests_equal => Err(Fault::Bug("DIGESTS differ".into())),
        None => Ok(outcome),
    }
}

/// A panic as a fault.
fn caught<R>(work: impl FnOnce() -> Result<R, Fault>) -> Result<R, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or(fixed).unwrap_or_default();
        Err(Fault::Bug(format!("PANIC {message}")))
    })
}

/// Does every job on as many threads as there are cores; results come in order of the jobs. A
/// panic is a fault of its job.
pub(crate) fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R, Fault> + Sync,
) -> Vec<Result<R, Fault>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else {
                        return;
                    };
                    let result = caught(|| work(job));
                    done.lock().expect("not poisoned").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("not poisoned");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
