//! Whatever call of the driver fails: a clear error, nothing left behind, and no wrong byte.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cuda_model::{Control, Failing};
use jetson_runtime::cuda::Mechanism;
use jetson_runtime::{RuntimeError, pattern};
use lgm::plan::Plan;
use vtensor::{Bytes, TensorId};

use crate::backend::{Backend, Gpu, Program};
use crate::machine::{MODEL_PAGE, Machine};
use crate::programs;
use crate::suite::iteration;

/// Codes of the driver, of which only the first leaves the context alive.
const OUT_OF_MEMORY: i32 = 2;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_FAILED: i32 = 719;

/// How a run copies.
#[derive(Clone, Copy, Debug)]
struct Way {
    mechanism: Mechanism,
    to_file: bool,
}

/// To memory of the host.
const fn to_host(mechanism: Mechanism) -> Way {
    Way {
        mechanism,
        to_file: false,
    }
}

/// What a run came to.
enum Came {
    /// Nothing failed.
    Whole,
    /// The freeze failed, or something after it; how many tensors were saved.
    Failed(RuntimeError, usize),
}

/// A short run; if it fails in the loop, what is said to be intact must be.
fn run(machine: &Machine, way: Way) -> Came {
    let backend = Gpu {
        machine,
        mechanism: way.mechanism,
        duplex: None,
        to_file: way.to_file,
    };
    let (_, plan) = &programs::by_hand(MODEL_PAGE, backend.scatters())[0];
    let mut versions = vec![0; plan.skeleton.tensors.len()];
    let mut program = match backend.freeze(plan) {
        Ok(program) => program,
        Err(error) => return Came::Failed(error, 0),
    };
    let mut before = versions.clone();
    for _ in 0..3 {
        before.clone_from(&versions);
        if let Err(error) = iteration(&mut *program, plan, &mut versions) {
            let again = iteration(&mut *program, plan, &mut versions.clone());
            assert!(again.is_err(), "a failed program does not go on");
            let saved = saved(program, plan, &before, &versions);
            return Came::Failed(error, saved);
        }
    }
    match program.wrong() {
        Ok(wrong) => {
            assert_eq!(wrong, 0);
            Came::Whole
        }
        Err(error) => Came::Failed(error, saved(program, plan, &before, &versions)),
    }
}

/// What can be saved is what was written: the last version, or that of the step that was open,
/// whose writing may have failed before it began. How many tensors it was.
fn saved(program: Box<dyn Program>, plan: &Plan, before: &[u32], versions: &[u32]) -> usize {
    let failed = program.abandon();
    let mut saved = 0;
    for (index, tensor) in plan.skeleton.tensors.iter().enumerate() {
        if !tensor.persistent {
            continue;
        }
        let id = TensorId::from_index(index);
        let Bytes(size) = failed.tensor_bytes(id).expect("it persists");
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        match failed.read(id, 0, &mut bytes) {
            Ok(()) => {
                let right = (before[index]..=versions[index])
                    .any(|version| pattern::check(&bytes, id.0, version, 0) == 0);
                assert!(right, "tensor {id} is intact by its word");
                saved += 1;
            }
            Err(RuntimeError::Lost { .. } | RuntimeError::Dead { .. } | RuntimeError::Cuda(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    saved
}

/// Lets every call of every function fail in turn, as a run without failures makes them.
fn every_call_fails(way: Way, failing: Failing, code: i32) {
    every_call_fails_on("rtx-linux", way, failing, code);
}

fn every_call_fails_on(profile: &str, way: Way, failing: Failing, code: i32) {
    let machine = Machine::model(profile);
    let calls = calls_of(&machine, way);
    let mut control = machine.loose();
    let mut count = Count::default();
    for (function, times) in &calls {
        for nth in 1..=*times {
            let name =
                format!("{profile}, {way:?}, {failing:?} {code}, {function} {nth} of {times}");
            let machine = Machine::again(control, profile);
            let model = machine.control.as_ref().unwrap();
            model.inject(function, nth, failing, code).unwrap();
            count.note(one_call_fails(&machine, way, code, &name));
            control = machine.loose();
            let held = check_given_back(&control, &name);
            assert!(held == 0 || *function == "cuMemUnmap", "{name}");
        }
    }
    let all: u64 = calls.iter().map(|(_, times)| times).sum();
    println!("{way:?}, {failing:?} {code}: {count:?} of {all} calls");
    // The rest are calls that give back, and looks at events that a slow machine has more of.
    assert!(count.failed > 150, "{way:?}, {failing:?}: {count:?}");
    // What fails with nothing under way loses nothing.
    assert!(count.saved > 0 || failing != Failing::Now, "{count:?}");
}

/// What came of many runs.
#[derive(Debug, Default)]
struct Count {
    /// Runs that failed.
    failed: u64,
    /// Tensors that were saved then.
    saved: usize,
}

impl Count {
    fn note(&mut self, came: Came) {
        if let Came::Failed(_, saved) = came {
            self.failed += 1;
            self.saved += saved;
        }
    }
}

/// A run with a failure on cue: in bounded time, told as what it is, and over with it.
fn one_call_fails(machine: &Machine, way: Way, code: i32, name: &str) -> Came {
    let begin = Instant::now();
    let came = run(machine, way);
    if let Came::Failed(error, _) = &came {
        let RuntimeError::Cuda(cuda) = error else {
            panic!("{name}: {error}");
        };
        let told = cuda.status().map(|status| status.0);
        assert_eq!(told, Some(code), "{name}: {error}");
    }
    assert!(begin.elapsed() < Duration::from_secs(300), "{name} hung");
    machine.control.as_ref().unwrap().clear_faults().unwrap();
    if code == OUT_OF_MEMORY {
        // What failed with the last call of a program is told to the next one.
        let mut again = (0..2).map(|_| run(machine, way));
        assert!(again.any(|came| matches!(came, Came::Whole)), "{name}");
    }
    came
}

/// Nothing was misused, and all was given back, or that was tried in vain. How many reservations
/// are left: addresses that could not be taken from their page stay reserved.
fn check_given_back(control: &Control, name: &str) -> usize {
    let (told, wrong): (Vec<String>, Vec<String>) = control
        .reports()
        .into_iter()
        .partition(|line| line.starts_with("leak: "));
    assert_eq!(wrong, Vec::<String>::new(), "{name}");
    let told = told
        .into_iter()
        .map(|line| line["leak: ".len()..].to_owned());
    let leaks: BTreeSet<String> = told.chain(control.leaks()).collect();
    let reserved = |leak: &String| leak.starts_with("reservation: ");
    assert!(
        leaks.len() <= 1 && leaks.iter().all(reserved),
        "{name}: {leaks:?}"
    );
    leaks.len()
}

/// The functions of the driver that a program may call.
pub(crate) const FUNCTIONS: [&str; 34] = [
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuLaunchKernel",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAllocManaged",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemDiscardBatchAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetAllocationGranularity",
    "cuMemHostAlloc",
    "cuMemMap",
    "cuMemPrefetchAsync_v2",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// How often a whole run calls each function.
fn calls_of(machine: &Machine, way: Way) -> Vec<(&'static str, u64)> {
    let control = machine.control.as_ref().unwrap();
    // A function that the driver lacks is called by nobody.
    let count = |function| control.calls(function).unwrap_or(0);
    let before = FUNCTIONS.map(count);
    let all = count("*");
    assert!(matches!(run(machine, way), Came::Whole));
    let calls = FUNCTIONS.into_iter().zip(before);
    let calls = calls.map(|(function, before)| (function, count(function) - before));
    let calls: Vec<_> = calls.filter(|(_, calls)| *calls > 0).collect();
    let known: u64 = calls.iter().map(|(_, times)| times).sum();
    assert_eq!(known, count("*") - all, "a function is missing in the list");
    calls
}

#[test]
fn out_of_memory_at_every_call_of_mapped() {
    every_call_fails(to_host(Mechanism::Mapped), Failing::Now, OUT_OF_MEMORY);
}

#[test]
fn out_of_memory_at_every_call_of_packed() {
    every_call_fails(to_host(Mechanism::Packed), Failing::Now, OUT_OF_MEMORY);
}

#[test]
fn out_of_memory_at_every_call_of_managed() {
    every_call_fails(to_host(Mechanism::Managed), Failing::Now, OUT_OF_MEMORY);
}

#[test]
fn work_that_fails_after_every_call() {
    for mechanism in Mechanism::ALL {
        every_call_fails(to_host(mechanism), Failing::Late, ILLEGAL_ADDRESS);
        every_call_fails(to_host(mechanism), Failing::Late, OUT_OF_MEMORY);
    }
}

#[test]
fn a_lost_context_at_every_call() {
    for mechanism in Mechanism::ALL {
        every_call_fails(to_host(mechanism), Failing::ForEver, LAUNCH_FAILED);
    }
}

#[test]
fn out_of_memory_at_every_call_with_one_copy_engine() {
    every_call_fails_on(
        "nano",
        to_host(Mechanism::Packed),
        Failing::Now,
        OUT_OF_MEMORY,
    );
    every_call_fails_on(
        "thor",
        to_host(Mechanism::Mapped),
        Failing::Now,
        OUT_OF_MEMORY,
    );
}

/// To a file.
const fn to_file(mechanism: Mechanism) -> Way {
    Way {
        mechanism,
        to_file: true,
    }
}

#[test]
fn every_call_fails_while_pieces_go_to_a_file() {
    let (mapped, packed) = (to_file(Mechanism::Mapped), to_file(Mechanism::Packed));
    every_call_fails_on("orin", mapped, Failing::Now, OUT_OF_MEMORY);
    every_call_fails_on("orin", mapped, Failing::Late, ILLEGAL_ADDRESS);
    every_call_fails_on("orin", mapped, Failing::ForEver, LAUNCH_FAILED);
    // With one copy engine.
    every_call_fails_on("nano", packed, Failing::Now, OUT_OF_MEMORY);
}
