//! What cannot work is refused, with the reason.

use cuda_model::{Control, Failing};
use jetson_runtime::RuntimeError;
use jetson_runtime::cuda::{
    Class, CudaError, Device, DeviceFacts, Driver, Frozen, Mechanism, Options,
};
use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;

use crate::machine::{MODEL_PAGE, Machine, PROFILES};
use crate::plans;

fn refusal(machine: &Machine, plan: &Plan, options: &Options) -> String {
    let plan = VerifiedPlan::new(plan.clone()).unwrap();
    let frozen = Frozen::freeze(&machine.device, plan, options, |_, _, bytes| bytes.fill(0));
    match frozen {
        Ok(_) => panic!("it was frozen"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn classes_are_told_apart() {
    let wanted = [Class::A, Class::A, Class::B, Class::C, Class::D, Class::E];
    for (profile, wanted) in PROFILES.into_iter().zip(wanted) {
        let machine = Machine::model(profile);
        assert_eq!(Class::of(machine.device.facts()), wanted, "{profile}");
        machine.end();
    }
}

#[test]
fn a_spill_tier_in_the_same_memory_is_refused_unless_forced() {
    for profile in PROFILES {
        let machine = Machine::model(profile);
        let (plan, nothing) = (plans::swap(MODEL_PAGE), plans::dead_at_home(MODEL_PAGE));
        let class = Class::of(machine.device.facts());
        let options = Options::of(machine.mechanisms()[0]);
        let freeze = |plan: &Plan, options| {
            let plan = VerifiedPlan::new(plan.clone()).unwrap();
            Frozen::freeze(&machine.device, plan, options, |_, _, bytes| bytes.fill(0)).map(drop)
        };
        if class.one_memory() {
            let text = refusal(&machine, &plan, &options);
            assert!(text.contains("it would free nothing"), "{profile}: {text}");
        } else if options.mechanism != Mechanism::Packed {
            freeze(&plan, &options).unwrap();
        }
        if options.mechanism != Mechanism::Packed {
            freeze(&nothing, &options).unwrap();
        }
        machine.end();
    }
}

#[test]
fn mechanisms_that_cannot_work_say_why() {
    let forced = |mechanism| Options {
        force_host_spill: true,
        ..Options::of(mechanism)
    };
    let nano = Machine::model("nano");
    let plan = plans::swap(MODEL_PAGE);
    let text = refusal(&nano, &plan, &forced(Mechanism::Mapped));
    assert!(text.contains("no virtual memory management"), "{text}");
    for profile in ["nano", "orin", "rtx-wsl"] {
        let machine = Machine::model(profile);
        let text = refusal(&machine, &plan, &forced(Mechanism::Managed));
        assert!(
            text.contains("nothing can be prefetched"),
            "{profile}: {text}"
        );
        let text = refusal(&machine, &plan, &forced(Mechanism::Packed));
        assert!(text.contains("scattered pages"), "{profile}: {text}");
        machine.end();
    }
    nano.end();
    let rtx = Machine::model("rtx-linux");
    let control = rtx.control.as_ref().unwrap();
    control.granularity(2 << 20).unwrap();
    let text = refusal(&rtx, &plan, &forced(Mechanism::Mapped));
    assert_eq!(
        text,
        "the device has pages of 2 MiB, the plan is executed with 4 KiB; take a multiple of \
         the device's, or the mechanism `packed`"
    );
    rtx.end();
}

#[test]
fn a_driver_without_a_function_is_told_by_its_name() {
    let control = Control::without("orin", &["cuMemcpyHtoDAsync_v2"]).unwrap();
    let error = Driver::open(control.path()).unwrap_err();
    let symbol = "cuMemcpyHtoDAsync_v2";
    assert_eq!(error, CudaError::Missing { symbol });
}

#[test]
fn a_driver_without_virtual_memory_has_the_other_mechanisms() {
    let control = Control::without("rtx-linux", &["cuMemCreate", "cuMemDiscardBatchAsync"]);
    let control = control.unwrap();
    control.granularity(MODEL_PAGE).unwrap();
    let driver = Driver::open(control.path()).unwrap();
    let device = Device::open(&driver, 0).unwrap();
    let freeze = |mechanism| {
        let plan = VerifiedPlan::new(plans::swap(MODEL_PAGE)).unwrap();
        let options = Options::of(mechanism);
        Frozen::freeze(&device, plan, &options, |_, _, bytes| bytes.fill(0)).map(drop)
    };
    let symbol = "cuMemCreate";
    assert!(matches!(
        freeze(Mechanism::Mapped),
        Err(RuntimeError::Cuda(CudaError::Missing { symbol: found })) if found == symbol
    ));
    freeze(Mechanism::Managed).unwrap();
    drop(device);
    assert_eq!(control.leaks(), Vec::<String>::new());
    assert_eq!(control.reports(), Vec::<String>::new());
}

#[test]
fn there_is_no_device_of_that_number() {
    let control = Control::new("orin").unwrap();
    let driver = Driver::open(control.path()).unwrap();
    for ordinal in [-1, 1] {
        let error = Device::open(&driver, ordinal).unwrap_err();
        let wanted = CudaError::NoDevice {
            wanted: ordinal,
            count: 1,
        };
        assert_eq!(error, wanted);
    }
}

#[test]
fn a_device_is_opened_as_it_is_or_not_at_all() {
    let control = Control::new("orin").unwrap();
    let open = || Driver::open(control.path()).and_then(|driver| Device::open(&driver, 0));
    let start = control.calls("*").unwrap();
    let facts = open().unwrap().facts().clone();
    let calls = control.calls("*").unwrap() - start;
    let mut opened = 0;
    for nth in 1..=calls {
        control.reset("orin").unwrap();
        control.inject("*", nth, Failing::Now, 999).unwrap();
        match open() {
            Err(error) => assert_eq!(error.status().map(|status| status.0), Some(999)),
            Ok(device) => {
                // Its identity may be unknown, and letting go fails too late to matter.
                let uuid = device.facts().uuid.clone();
                assert!(uuid.is_empty() || uuid == facts.uuid);
                let found = DeviceFacts {
                    uuid: facts.uuid.clone(),
                    ..device.facts().clone()
                };
                assert_eq!(found, facts, "call {nth}");
                opened += 1;
            }
        }
        control.clear_faults().unwrap();
        assert_eq!(control.reports(), Vec::<String>::new(), "call {nth}");
    }
    assert!(opened <= 2, "{opened} of {calls}");
}
