//! Whatever call of the driver fails: a clear error, nothing left behind, and no wrong byte.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cuda_model::Failing;
use jetson_runtime::cuda::Mechanism;
use jetson_runtime::{RuntimeError, pattern};
use vtensor::{Bytes, TensorId};

use crate::backend::{Backend, Gpu, Program};
use crate::machine::{MODEL_PAGE, Machine};
use crate::programs;
use crate::suite::iteration;

/// What a run came to.
enum Came {
    /// Nothing failed.
    Whole,
    /// The freeze failed, or something after it.
    Failed(RuntimeError),
}

/// A short run; if it fails in the loop, what is said to be intact must be.
fn run(machine: &Machine, mechanism: Mechanism) -> Came {
    let backend = Gpu {
        machine,
        mechanism,
        duplex: None,
    };
    let (_, plan) = &programs::by_hand(MODEL_PAGE, backend.scatters())[0];
    let mut versions = vec![0; plan.skeleton.tensors.len()];
    let mut program = match backend.freeze(plan) {
        Ok(program) => program,
        Err(error) => return Came::Failed(error),
    };
    let mut before = versions.clone();
    for _ in 0..3 {
        before.clone_from(&versions);
        if let Err(error) = iteration(&mut *program, plan, &mut versions) {
            let again = iteration(&mut *program, plan, &mut versions.clone());
            assert!(again.is_err(), "a failed program does not go on");
            saved(program, plan, &before, &versions);
            return Came::Failed(error);
        }
    }
    match program.wrong() {
        Ok(wrong) => {
            assert_eq!(wrong, 0);
            Came::Whole
        }
        Err(error) => {
            saved(program, plan, &before, &versions);
            Came::Failed(error)
        }
    }
}

/// What can be saved is what was written: the last version, or that of the step that was open,
/// whose writing may have failed before it began.
fn saved(program: Box<dyn Program>, plan: &lgm::plan::Plan, before: &[u32], versions: &[u32]) {
    let failed = program.abandon();
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
            }
            Err(RuntimeError::Lost { .. } | RuntimeError::Dead { .. } | RuntimeError::Cuda(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn every_call_fails(mechanism: Mechanism, failing: Failing, code: i32) {
    let machine = Machine::model("rtx-linux");
    let calls = calls_of(&machine, mechanism);
    let (mut failed, mut leaked) = (0, 0);
    let mut control = machine.loose();
    for nth in 1..=calls {
        let name = format!("{mechanism}, {failing:?}, call {nth} of {calls}");
        let machine = Machine::again(control, "rtx-linux");
        let model = machine.control.as_ref().unwrap();
        let begin = Instant::now();
        model.inject("*", nth, failing, code).unwrap();
        if let Came::Failed(error) = run(&machine, mechanism) {
            let RuntimeError::Cuda(error) = &error else {
                panic!("{name}: {error}");
            };
            let status = error.status();
            assert!(
                status.is_some_and(|status| status.0 == code),
                "{name}: {error}"
            );
            failed += 1;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{name} hung");
        model.clear_faults().unwrap();
        control = machine.loose();
        let (told, wrong): (Vec<String>, Vec<String>) = control
            .reports()
            .into_iter()
            .partition(|line| line.starts_with("leak: "));
        assert_eq!(wrong, Vec::<String>::new(), "{name}");
        let told = told
            .into_iter()
            .map(|line| line["leak: ".len()..].to_owned());
        let leaks: BTreeSet<String> = told.chain(control.leaks()).collect();
        // With its context lost, the driver takes nothing back. Else only what the call that
        // failed was to give back is left: at most a page with the addresses that show it.
        if failing == Failing::Now {
            assert!(leaks.len() <= 2, "{name}: {leaks:?}");
            leaked += u64::from(!leaks.is_empty());
        }
    }
    // The rest are calls that give back, and looks at events that a slow machine has more of.
    assert!(
        failed > 200 && leaked < 100,
        "{failed} failed loudly, {leaked} left something"
    );
}

/// How many calls a whole run makes.
fn calls_of(machine: &Machine, mechanism: Mechanism) -> u64 {
    let control = machine.control.as_ref().unwrap();
    let start = control.calls("*").unwrap();
    assert!(matches!(run(machine, mechanism), Came::Whole));
    let calls = control.calls("*").unwrap() - start;
    assert!(calls > 100, "{calls}");
    calls
}

#[test]
fn out_of_memory_at_every_call_of_mapped() {
    every_call_fails(Mechanism::Mapped, Failing::Now, 2);
}

#[test]
fn out_of_memory_at_every_call_of_packed() {
    every_call_fails(Mechanism::Packed, Failing::Now, 2);
}

#[test]
fn out_of_memory_at_every_call_of_managed() {
    every_call_fails(Mechanism::Managed, Failing::Now, 2);
}

#[test]
fn work_that_fails_after_every_call() {
    for mechanism in [Mechanism::Mapped, Mechanism::Managed] {
        every_call_fails(mechanism, Failing::Late, 700);
    }
}

#[test]
fn a_lost_context_at_every_call() {
    for mechanism in Mechanism::ALL {
        every_call_fails(mechanism, Failing::ForEver, 719);
    }
}
