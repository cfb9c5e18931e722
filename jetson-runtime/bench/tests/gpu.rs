//! Every trace at three budgets, on models of GPUs: planned, proven, replayed at the smallest size
//! by kernels that check every byte, with every missing wait reported.
//!
//! `cargo test` gives each trace and budget one of the six machines, in turn, with every mechanism
//! that works there. All machines for each:
//!
//! ```text
//! VTENSOR_MATRIX=full cargo test --release -p vtensor-bench --test gpu -- --nocapture
//! ```

mod support;

use std::env;
use std::num::NonZeroU32;

use cuda_model::Control;
use jetson_runtime::cuda::{Class, Device, Driver, Mechanism};
use jetson_runtime::{Spill, StorageOptions};
use lgm::planner::{Methods, Request};
use lgm::policy::Policy;
use lgm::profile::Profiles;
use lgm::verify::VerifiedPlan;
use support::{Fault, prove, traces};
use vtensor::Bytes;
use vtensor_bench::replay::{GpuSettings, replay_on_gpu};
use vtensor_bench::trace_file;

const MACHINES: [&str; 6] = ["nano", "orin", "thor", "gh200", "rtx-linux", "rtx-wsl"];
const PERCENT: [u64; 3] = [100, 70, 50];

/// The plan of a trace at a budget: scattered over pages, or packed.
fn plan(name: &str, percent: u64, policy: Policy) -> Option<VerifiedPlan> {
    let trace = trace_file::open(support::trace(name).as_ref()).expect("a trace of the repository");
    let device = &trace.devices()[0];
    let skeleton = trace.skeleton(device).expect("it has durations for that");
    let profiles = Profiles::builtin();
    let request = Request {
        skeleton: &skeleton,
        profile: profiles.get(device).expect("built in"),
        budget: Bytes(trace.peak_bytes().0 / 100 * percent),
        policy,
        methods: Methods::Swap,
        page: None,
        trace_digest: trace.digest(),
        model: trace.model(),
    };
    // Where the largest op is nearly the budget, no plan is promised.
    if request.budget.0 / 5 * 4 < trace.largest_op().bytes.0 {
        return None;
    }
    match prove(&request) {
        Ok((_, plan)) => Some(plan),
        Err(Fault::NoSchedule(_)) if policy == Policy::Whole => None,
        Err(fault) => panic!("{name} {percent} %: {fault:?}"),
    }
}

/// Replays the plans on a machine by every mechanism that works there; how many it were.
fn replay_everywhere(
    control: &Control,
    machine: &str,
    scattered: &VerifiedPlan,
    packed: Option<&VerifiedPlan>,
    name: &str,
) -> u32 {
    control.reset(machine).expect("the model has it");
    control.granularity(4096).expect("a page of the system");
    let driver = Driver::open(control.path()).expect("the model is there");
    let device = Device::open(&driver, 0).expect("it has a device");
    let facts = device.facts();
    let mut replays = 0;
    for mechanism in Mechanism::ALL {
        let plan = match mechanism {
            Mechanism::Mapped => facts.virtual_memory.then_some(scattered),
            Mechanism::Managed => Class::of(facts).prefetches().then_some(scattered),
            Mechanism::Packed => packed,
        };
        let Some(plan) = plan else {
            continue;
        };
        // To a file too, where copies are explicit.
        let file = Spill::File(env!("CARGO_TARGET_TMPDIR").into());
        let file = (mechanism != Mechanism::Managed).then_some(file);
        for spill in [Some(Spill::Ram), file].into_iter().flatten() {
            let name = format!("{name}, {mechanism} on {machine}, {spill:?}");
            let settings = GpuSettings {
                mechanism,
                spill,
                storage: StorageOptions::default(),
                force_host_spill: true,
                steps: const { NonZeroU32::new(2).expect("2 is not 0") },
                scale: f64::MIN_POSITIVE,
                paced: None,
            };
            let outcome = replay_on_gpu(plan.clone(), &device, &settings, &mut || ());
            let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((outcome.mismatches, outcome.first), (0, None), "{name}");
            replays += 1;
        }
    }
    drop(device);
    assert_eq!(
        control.reports(),
        Vec::<String>::new(),
        "{name} on {machine}"
    );
    assert_eq!(control.leaks(), Vec::<String>::new(), "{name} on {machine}");
    replays
}

#[test]
fn traces_keep_every_byte_on_every_machine() {
    let full = env::var("VTENSOR_MATRIX").is_ok_and(|value| value == "full");
    let control = Control::new("orin").expect("the model is built with the tests");
    let (mut turn, mut replays) = (0, 0);
    for name in traces() {
        for percent in PERCENT {
            let Some(scattered) = plan(&name, percent, Policy::Vtensor) else {
                continue;
            };
            let packed = plan(&name, percent, Policy::Whole);
            let title = format!("{name} {percent} %");
            let machines: Vec<&str> = match full {
                true => MACHINES.into(),
                false => vec![MACHINES[turn % MACHINES.len()]],
            };
            turn += 1;
            for machine in machines {
                let packed = packed.as_ref();
                replays += replay_everywhere(&control, machine, &scattered, packed, &title);
            }
            println!("{title}: {replays} replays so far");
        }
    }
    assert!(replays > 50, "{replays}");
}
