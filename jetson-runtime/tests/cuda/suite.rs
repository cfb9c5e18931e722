//! What every backend must do.

use jetson_runtime::cuda::Mechanism;
use jetson_runtime::{RuntimeError, pattern};
use lgm::plan::Plan;
use vtensor::{Bytes, Mode, OpIndex, TensorId};

use crate::backend::{Backend, Gpu, Host, Program, Versions};
use crate::machine::Machine;
use crate::programs;

/// Runs a part of the suite on every backend.
fn everywhere(part: impl Fn(&dyn Backend)) {
    part(&Host);
    for machine in Machine::all() {
        if let Some(control) = &machine.control {
            control.jitter(1, 20_000).unwrap();
        }
        for mechanism in machine.mechanisms() {
            for to_file in [false, true] {
                if to_file && mechanism == Mechanism::Managed {
                    continue;
                }
                for duplex in [None, Some(false)] {
                    part(&Gpu {
                        machine: &machine,
                        mechanism,
                        duplex,
                        to_file,
                    });
                }
            }
        }
        machine.end();
    }
}

fn versions(plan: &Plan) -> Versions {
    vec![0; plan.skeleton.tensors.len()]
}

pub(crate) fn iteration(
    program: &mut dyn Program,
    plan: &Plan,
    versions: &mut Versions,
) -> Result<(), RuntimeError> {
    program.iteration_begin()?;
    for op in 0..plan.skeleton.ops.len() {
        let op = OpIndex::from_index(op);
        program.step_begin(op)?;
        program.compute(op, versions)?;
        program.step_end()?;
    }
    program.iteration_end()
}

fn persistent(plan: &Plan) -> Vec<TensorId> {
    let tensors = plan.skeleton.tensors.iter().enumerate();
    let persistent = tensors.filter(|(_, tensor)| tensor.persistent);
    persistent
        .map(|(index, _)| TensorId::from_index(index))
        .collect()
}

/// Whether the first op of an iteration that uses a tensor overwrites it.
fn written_first(plan: &Plan, tensor: TensorId) -> bool {
    let mut accesses = plan.skeleton.accesses.iter();
    let first = accesses.find(|access| access.tensor == tensor);
    first.is_some_and(|access| access.mode == Mode::Write)
}

/// Reads all persistent tensors between iterations; how many have content there.
fn check_home(program: &mut dyn Program, plan: &Plan, versions: &Versions, name: &str) -> usize {
    let mut kept = 0;
    for tensor in persistent(plan) {
        let Bytes(size) = program.tensor_bytes(tensor).expect("it persists");
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        match program.read(tensor, 0, &mut bytes) {
            Err(RuntimeError::Dead { .. }) => assert!(written_first(plan, tensor), "{name}"),
            read => {
                read.unwrap();
                let version = versions[tensor.index()];
                let wrong = pattern::check(&bytes, tensor.0, version, 0);
                assert_eq!(wrong, 0, "{name}: tensor {tensor} at home");
                kept += 1;
            }
        }
    }
    kept
}

#[test]
fn every_byte_is_kept() {
    everywhere(|backend| {
        for (name, plan) in programs::all(backend.page(), backend.scatters()) {
            let name = format!("{name}, {}", backend.name());
            let mut program = backend
                .freeze(&plan)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let mut versions = versions(&plan);
            for iteration_number in 1..=12 {
                iteration(&mut *program, &plan, &mut versions).unwrap();
                if iteration_number % 5 == 0 {
                    let kept = check_home(&mut *program, &plan, &versions, &name);
                    assert!(kept > 0, "{name}");
                }
            }
            check_home(&mut *program, &plan, &versions, &name);
            assert_eq!(program.wrong().unwrap(), 0, "{name}");
        }
    });
}

#[test]
fn a_check_finds_what_is_wrong() {
    everywhere(|backend| {
        let (name, plan) = programs::by_hand(backend.page(), backend.scatters()).remove(0);
        let mut program = backend.freeze(&plan).unwrap();
        let mut versions = versions(&plan);
        let tensor = persistent(&plan)[0];
        let mut byte = [0];
        program.read(tensor, 5, &mut byte).unwrap();
        program.write(tensor, 5, &[byte[0] ^ 1]).unwrap();
        iteration(&mut *program, &plan, &mut versions).unwrap();
        assert_eq!(program.wrong().unwrap(), 1, "{name}, {}", backend.name());
    });
}

#[test]
fn a_write_at_rest_reaches_every_copy() {
    everywhere(|backend| {
        for (name, plan) in programs::all(backend.page(), backend.scatters()) {
            let name = format!("{name}, {}", backend.name());
            let mut program = backend.freeze(&plan).unwrap();
            let mut versions = versions(&plan);
            for _ in 0..4 {
                iteration(&mut *program, &plan, &mut versions).unwrap();
                for tensor in persistent(&plan)
                    .into_iter()
                    .filter(|t| !written_first(&plan, *t))
                {
                    versions[tensor.index()] += 1;
                    let Bytes(size) = program.tensor_bytes(tensor).expect("it persists");
                    let mut bytes = vec![0; usize::try_from(size).unwrap()];
                    pattern::fill(&mut bytes, tensor.0, versions[tensor.index()], 0);
                    // Four parts that begin and end anywhere.
                    let length = bytes.len() / 4 + 3;
                    for (part, offset) in bytes.chunks(length).zip((0..).step_by(length)) {
                        program.write(tensor, offset, part).unwrap();
                    }
                }
            }
            iteration(&mut *program, &plan, &mut versions).unwrap();
            check_home(&mut *program, &plan, &versions, &name);
            assert_eq!(program.wrong().unwrap(), 0, "{name}");
        }
    });
}

#[test]
fn calls_out_of_order_change_nothing() {
    everywhere(|backend| {
        let (name, plan) = programs::by_hand(backend.page(), backend.scatters()).remove(0);
        let mut program = backend.freeze(&plan).unwrap();
        let mut versions = versions(&plan);
        let op = OpIndex::from_index;
        let order = |result: Result<(), RuntimeError>, wanted: &str| {
            let error = result.expect_err("the call is out of order").to_string();
            assert!(
                error.contains(wanted),
                "{name}, {}: {error}",
                backend.name()
            );
        };
        for _ in 0..3 {
            order(program.step_begin(op(0)), "outside an iteration");
            order(program.step_end(), "outside an iteration");
            order(program.iteration_end(), "outside an iteration");
            program.iteration_begin().unwrap();
            order(program.iteration_begin(), "between two steps");
            order(program.step_begin(op(1)), "recorded as op 0");
            order(
                program.read(persistent(&plan)[0], 0, &mut [0]),
                "finish the iteration",
            );
            for index in 0..plan.skeleton.ops.len() {
                order(program.iteration_end(), "before op");
                program.step_begin(op(index)).unwrap();
                order(program.step_begin(op(index)), "inside a step");
                order(program.iteration_end(), "inside a step");
                program.compute(op(index), &mut versions).unwrap();
                program.step_end().unwrap();
            }
            order(program.step_begin(op(0)), "end the iteration");
            program.iteration_end().unwrap();
        }
        let bytes = program.tensor_bytes(TensorId(0)).unwrap().0;
        order(program.read(TensorId(0), bytes, &mut [0]), "leave tensor 0");
        order(
            program.read(TensorId(999), 0, &mut [0]),
            "is not a persistent tensor",
        );
        assert_eq!(program.wrong().unwrap(), 0);
    });
}

#[test]
fn a_program_can_be_given_up_before_and_in_every_step() {
    everywhere(|backend| {
        for (name, plan) in programs::by_hand(backend.page(), backend.scatters()) {
            for stop in 0..=2 * plan.skeleton.ops.len() {
                give_up(backend, &name, &plan, stop);
            }
        }
    });
}

/// Gives a program up in its third iteration: at step `stop / 2`, open if `stop` is odd.
fn give_up(backend: &dyn Backend, name: &str, plan: &Plan, stop: usize) {
    let name = format!("{name}, {}, stop {stop}", backend.name());
    let mut program = backend.freeze(plan).unwrap();
    let mut versions = versions(plan);
    for _ in 0..2 {
        iteration(&mut *program, plan, &mut versions).unwrap();
    }
    program.iteration_begin().unwrap();
    for index in 0..stop / 2 {
        let op = OpIndex::from_index(index);
        program.step_begin(op).unwrap();
        program.compute(op, &mut versions).unwrap();
        program.step_end().unwrap();
    }
    let open = (stop % 2 == 1).then(|| OpIndex::from_index(stop / 2));
    if let Some(op) = open {
        program.step_begin(op).unwrap();
    }
    assert_eq!(program.wrong().unwrap(), 0, "{name}");
    let failed = program.abandon();
    let written: Vec<TensorId> = open.map_or(Vec::new(), |op| {
        let accesses = plan.skeleton.accesses_of(op).iter();
        let written = accesses.filter(|access| access.mode.writes());
        written.map(|access| access.tensor).collect()
    });
    for tensor in persistent(plan) {
        let Bytes(size) = failed.tensor_bytes(tensor).expect("it persists");
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        match failed.read(tensor, 0, &mut bytes) {
            Ok(()) => {
                let version = versions[tensor.index()];
                assert_eq!(
                    pattern::check(&bytes, tensor.0, version, 0),
                    0,
                    "{name}: {tensor}"
                );
            }
            Err(RuntimeError::Lost { .. }) => assert!(written.contains(&tensor), "{name}"),
            Err(RuntimeError::Dead { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}
