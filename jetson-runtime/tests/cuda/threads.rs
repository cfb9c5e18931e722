//! Whose thread and whose stream: calls come from any thread, one at a time, and kernels may go to
//! a stream of the application.

use std::thread;

use jetson_runtime::cuda::{Frozen, Kernels, Mechanism, Options, Tally};
use jetson_runtime::pattern;
use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use vtensor::{OpIndex, TensorId};

use crate::machine::{MODEL_PAGE, Machine};
use crate::plans;

fn fill(tensor: TensorId, offset: u64, bytes: &mut [u8]) {
    pattern::fill(bytes, tensor.0, 0, offset);
}

/// One op of a program, with contents by version.
fn op(
    frozen: &mut Frozen,
    kernels: &Kernels,
    tally: &Tally,
    plan: &Plan,
    (op, versions): (OpIndex, &mut [u32]),
) {
    frozen.step_begin(op).unwrap();
    for (access, row) in plan.skeleton.accesses_of(op).iter().enumerate() {
        let version = &mut versions[row.tensor.index()];
        if row.mode.reads() {
            frozen
                .check_content(kernels, access, (row.tensor, *version), tally, 0)
                .unwrap();
        }
        if row.mode.writes() {
            *version += 1;
            frozen
                .fill(kernels, access, (row.tensor, *version))
                .unwrap();
        }
    }
    frozen.step_end().unwrap();
}

#[test]
fn every_step_may_come_from_another_thread() {
    let machine = Machine::model("rtx-linux");
    let plan = plans::rotation(MODEL_PAGE, 12, 3);
    let kernels = Kernels::load(&machine.device).unwrap();
    let tally = Tally::new(&machine.device, 1).unwrap();
    let verified = VerifiedPlan::new(plan.clone()).unwrap();
    let options = Options::of(Mechanism::Mapped);
    let mut frozen = Frozen::freeze(&machine.device, verified, &options, fill).unwrap();
    let mut versions = vec![0; plan.skeleton.tensors.len()];
    for _ in 0..3 {
        frozen.iteration_begin().unwrap();
        for index in 0..plan.skeleton.ops.len() {
            let step = (OpIndex::from_index(index), &mut versions[..]);
            let (frozen, kernels) = (&mut frozen, &kernels);
            thread::scope(|scope| {
                let step = || op(frozen, kernels, &tally, &plan, step);
                scope.spawn(step).join().unwrap();
            });
        }
        frozen.iteration_end().unwrap();
    }
    assert_eq!(tally.read().unwrap(), [0]);
    drop((frozen, kernels, tally));
    machine.end();
}

#[test]
fn kernels_may_go_to_a_stream_of_the_application() {
    let machine = Machine::model("rtx-linux");
    let device = &machine.device;
    let options = Options::of(Mechanism::Mapped);
    let kernels = Kernels::load(device).unwrap();
    let tally = Tally::new(device, 1).unwrap();
    let idle = VerifiedPlan::new(plans::dead_at_home(MODEL_PAGE)).unwrap();
    let application = Frozen::freeze(device, idle, &options, fill).unwrap();
    let plan = plans::swap(MODEL_PAGE);
    let verified = VerifiedPlan::new(plan.clone()).unwrap();
    let stream = application.stream();
    // SAFETY: the stream is of the same device, and its owner is dropped after the program.
    let frozen = unsafe { Frozen::freeze_on(device, verified, &options, stream, fill) };
    let mut frozen = frozen.unwrap();
    assert_eq!(frozen.stream(), stream);
    let mut versions = vec![0; plan.skeleton.tensors.len()];
    for _ in 0..5 {
        frozen.iteration_begin().unwrap();
        for index in 0..plan.skeleton.ops.len() {
            let step = (OpIndex::from_index(index), &mut versions[..]);
            op(&mut frozen, &kernels, &tally, &plan, step);
        }
        frozen.iteration_end().unwrap();
    }
    assert_eq!(tally.read().unwrap(), [0]);
    drop(frozen);
    drop((application, kernels, tally));
    machine.end();
}
