//! Each wait left out once: the model of the driver reports exactly what is a race on paper.

use cuda_model::Control;
use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use vtensor::OpIndex;

use super::order::{ITERATIONS, Order};
use super::programs;
use crate::cuda::{Device, Driver, Frozen, Kernels, Mechanism, Options, Tally};
use crate::pattern;
use crate::tests::plans;

/// Runs a plan, with its contents written and checked. Whether bytes are wrong is not asked.
fn run(device: &Device, plan: &Plan, duplex: bool) {
    let kernels = Kernels::load(device).unwrap();
    let tally = Tally::new(device, 1).unwrap();
    let options = Options {
        duplex: Some(duplex),
        ..Options::of(Mechanism::Mapped)
    };
    let verified = VerifiedPlan::new(plan.clone()).unwrap();
    let fill = |tensor: vtensor::TensorId, offset, bytes: &mut [u8]| {
        pattern::fill(bytes, tensor.0, 0, offset);
    };
    let mut frozen = Frozen::freeze(device, verified, &options, fill).unwrap();
    for _ in 0..ITERATIONS {
        frozen.iteration_begin().unwrap();
        for op in 0..plan.skeleton.ops.len() {
            let op = OpIndex::from_index(op);
            frozen.step_begin(op).unwrap();
            for (access, row) in plan.skeleton.accesses_of(op).iter().enumerate() {
                if row.mode.reads() {
                    frozen
                        .check_content(&kernels, access, (row.tensor, 0), &tally, 0)
                        .unwrap();
                }
                if row.mode.writes() {
                    frozen.fill(&kernels, access, (row.tensor, 1)).unwrap();
                }
            }
            frozen.step_end().unwrap();
        }
        frozen.iteration_end().unwrap();
    }
    frozen.quiesce().unwrap();
}

#[test]
fn the_model_misses_every_wait_that_is_needed_and_no_other() {
    let (mut needed, mut spare) = (0, 0);
    for (name, plan) in programs() {
        for duplex in [true, false] {
            let order = Order::of(&plan, duplex);
            let control = Control::new("rtx-linux").unwrap();
            let reports = |elided: Option<u64>| {
                control.reset("rtx-linux").unwrap();
                control.granularity(plans::page()).unwrap();
                let device = Device::open(&Driver::open(control.path()).unwrap(), 0).unwrap();
                if let Some(nth) = elided {
                    control.elide("cuStreamWaitEvent", nth).unwrap();
                }
                run(&device, &plan, duplex);
                drop(device);
                control.reports()
            };
            let name = format!("{name}, duplex {duplex}");
            assert_eq!(reports(None), Vec::<String>::new(), "{name}");
            let waits = control.calls("cuStreamWaitEvent").unwrap();
            assert_eq!(waits, order.waits.len() as u64, "{name}");
            for (nth, wait) in (1..).zip(0..order.waits.len()) {
                let reported = !reports(Some(nth)).is_empty();
                let races = order.races(Some(wait));
                assert_eq!(reported, !races.is_empty(), "{name}, wait {nth}: {races:?}");
                match reported {
                    true => needed += 1,
                    false => spare += 1,
                }
            }
        }
    }
    // The others keep a copy from starting before its step is over, which no byte depends on.
    println!("{needed} waits are needed for the bytes, {spare} only for the schedule");
    assert!(needed > spare, "{needed} needed, {spare} spare");
}
