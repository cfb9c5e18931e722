//! A spill file on a GPU: a disk that fails costs what it held, and the GPU is not in doubt.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use jetson_runtime::cuda::{Frozen, Mechanism, Options};
use jetson_runtime::{Direction, Errno, RuntimeError, Spill, pattern};
use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, TensorId};

use crate::backend::{Gpu, Versions};
use crate::machine::{MODEL_PAGE, Machine};
use crate::programs;
use crate::suite::iteration;

/// A folder of this test's own, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The open file of this process that lies in the folder, without a name.
    fn file(&self) -> PathBuf {
        let files = fs::read_dir("/proc/self/fd").unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let inside = |file: &PathBuf| fs::read_link(file).is_ok_and(|to| to.starts_with(&self.0));
        files.find(inside).expect("the spill file is open")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_that_changes_is_told_and_what_it_does_not_hold_is_saved() {
    let machine = Machine::model("orin");
    let folder = Folder::new("cuda-spill");
    let gpu = Gpu {
        machine: &machine,
        mechanism: Mechanism::Mapped,
        duplex: None,
        to_file: true,
    };
    let options = Options {
        spill: Spill::File(folder.0.clone()),
        ..gpu.options()
    };
    let mut told = 0;
    for (name, plan) in programs::all(MODEL_PAGE, true) {
        if plan.program.ins.is_empty() {
            continue;
        }
        let mut program = gpu.freeze_with(&plan, &options).unwrap();
        let mut versions: Versions = vec![0; plan.skeleton.tensors.len()];
        for _ in 0..2 {
            iteration(&mut *program, &plan, &mut versions).unwrap();
        }
        let mut options_of_file = OpenOptions::new();
        let file = options_of_file.read(true).write(true);
        let file = file.open(folder.file()).unwrap();
        let bytes = file.metadata().unwrap().len();
        let mut content = vec![0; usize::try_from(bytes).unwrap()];
        file.read_exact_at(&mut content, 0).unwrap();
        content.iter_mut().step_by(4096).for_each(|byte| *byte ^= 1);
        file.write_all_at(&content, 0).unwrap();
        drop(file);
        let before = versions.clone();
        // What this iteration writes before it reads is sound again; not every plan reads more.
        let Err(error) = iteration(&mut *program, &plan, &mut versions) else {
            assert_eq!(program.wrong().unwrap(), 0, "{name}");
            continue;
        };
        told += 1;
        let RuntimeError::CopyFailed(failure) = &error else {
            panic!("{name}: {error}");
        };
        assert_eq!(failure.direction, Direction::In, "{name}");
        assert_eq!(failure.errno, Errno::EBADMSG, "{name}");
        assert!(program.step_end().is_err(), "{name}: it is over");
        let failed = program.abandon();
        assert_eq!(failed.failure(), Some(failure), "{name}");
        for (index, tensor) in plan.skeleton.tensors.iter().enumerate() {
            let id = TensorId::from_index(index);
            if !tensor.persistent {
                continue;
            }
            let Bytes(size) = failed.tensor_bytes(id).expect("it persists");
            let mut bytes = vec![0; usize::try_from(size).unwrap()];
            // Never wrong bytes: they are right, or it is said that they are not there.
            if failed.read(id, 0, &mut bytes).is_ok() {
                let right = (before[index]..=versions[index])
                    .any(|version| pattern::check(&bytes, id.0, version, 0) == 0);
                assert!(right, "{name}: tensor {id}");
            }
        }
    }
    assert!(told > 0, "some plan brings back what it had moved out");
    machine.end();
}

#[test]
fn without_room_on_the_disk_nothing_is_frozen_and_nothing_is_left() {
    let machine = Machine::model("thor");
    let (_, plan) = programs::by_hand(MODEL_PAGE, true).remove(0);
    for (spill, wanted) in [
        (Spill::File("/no/such/folder".into()), "/no/such/folder"),
        (Spill::File("/dev/shm".into()), "are in memory"),
    ] {
        if wanted == "are in memory" && !Path::new("/dev/shm").exists() {
            println!("SKIPPED: there is no /dev/shm here");
            continue;
        }
        let options = Options {
            spill,
            ..Options::of(Mechanism::Mapped)
        };
        let plan = VerifiedPlan::new(plan.clone()).unwrap();
        let frozen = Frozen::freeze(&machine.device, plan, &options, |_, _, bytes| bytes.fill(0));
        let error = frozen.err().expect("it cannot be frozen").to_string();
        assert!(error.contains(wanted), "{error}");
    }
    machine.end();
}
