//! The boot probe on every kind of machine.

use cuda_model::{Control, Failing};
use jetson_runtime::L4tRelease;
use jetson_runtime::cuda::probe::{Choices, Decision, LinkSpeed, Probe, Room, SpillPlace};
use jetson_runtime::cuda::{Class, CudaError, Device, Driver, Frozen, Mechanism, Options};
use lgm::verify::VerifiedPlan;
use vtensor::Bytes;

use crate::faults::FUNCTIONS;
use crate::machine::{MODEL_PAGE, Machine};
use crate::plans;

fn probe(machine: &Machine) -> Probe {
    Probe::of(&machine.device).unwrap()
}

/// What is decided in a system whose memory is known.
fn decide(machine: &Machine, probe: &Probe, choices: &Choices) -> Result<Decision, CudaError> {
    let room = Room {
        available_bytes: Some(48 << 30),
        l4t: None,
        zram: false,
        ..Room::now(&machine.device).unwrap()
    };
    Decision::of(probe, &room, choices)
}

#[test]
fn classes_and_decisions_are_those_of_the_facts() {
    use Class::{A, B, C, D, E};
    use Mechanism::{Mapped, Packed};
    // Profile, class, mechanism where copies are as fast as prefetches, spill, two streams.
    let wanted = [
        ("nano", A, Packed, SpillPlace::Storage, false),
        ("orin", A, Mapped, SpillPlace::Storage, true),
        ("thor", B, Mapped, SpillPlace::Storage, false),
        ("gh200", C, Mapped, SpillPlace::Host, true),
        ("rtx-linux", D, Mapped, SpillPlace::Host, true),
        ("rtx-wsl", E, Mapped, SpillPlace::Host, true),
    ];
    for (profile, class, mechanism, spill, duplex) in wanted {
        let machine = Machine::model(profile);
        let mut probe = probe(&machine);
        let link = probe.link.expect("copies work everywhere");
        assert!(link.out_bps > 0.0 && link.in_bps > 0.0 && link.both_bps > 0.0);
        let prefetches = class.prefetches();
        assert_eq!(probe.works("prefetch"), prefetches, "{profile}: {probe:#?}");
        assert_eq!(link.prefetch_bps.is_some(), prefetches, "{profile}");
        assert_eq!(
            probe.works("aliased windows"),
            mechanism == Mapped,
            "{profile}"
        );
        assert_eq!(
            probe.works("host registration"),
            profile != "nano",
            "{profile}"
        );
        assert!(probe.works("order of streams") && probe.works("one allocation"));
        probe.link = Some(even(&probe));
        let decision = decide(&machine, &probe, &Choices::default()).unwrap();
        assert_eq!(probe.class, class, "{profile}");
        assert_eq!(decision.mechanism, mechanism, "{profile}");
        assert_eq!(
            (decision.spill, decision.duplex),
            (spill, duplex),
            "{profile}"
        );
        assert!(decision.budget_bytes > 0, "{profile}: {decision:?}");
        machine.end();
    }
}

/// A link on which copies and prefetches are equally fast.
fn even(probe: &Probe) -> LinkSpeed {
    LinkSpeed {
        out_bps: 1e10,
        in_bps: 1e10,
        both_bps: 2e10,
        copy_latency_ns: 9000,
        prefetch_bps: probe.works("prefetch").then_some([1e10; 2]),
    }
}

#[test]
fn prefetches_are_chosen_where_they_are_faster() {
    for (profile, chosen) in [
        ("gh200", Mechanism::Managed),
        ("rtx-linux", Mechanism::Managed),
        ("thor", Mechanism::Mapped),
    ] {
        let machine = Machine::model(profile);
        let mut probe = probe(&machine);
        probe.link = Some(LinkSpeed {
            prefetch_bps: Some([3e10; 2]),
            ..even(&probe)
        });
        let decision = decide(&machine, &probe, &Choices::default()).unwrap();
        assert_eq!(decision.mechanism, chosen, "{profile}");
        machine.end();
    }
}

#[test]
fn prefetches_that_move_nothing_are_not_chosen() {
    let machine = Machine::model("rtx-linux");
    let mut probe = probe(&machine);
    for prefetch_bps in [9e10, f64::INFINITY, 1.05e10, 0.0] {
        probe.link = Some(LinkSpeed {
            prefetch_bps: Some([prefetch_bps; 2]),
            ..even(&probe)
        });
        let decision = decide(&machine, &probe, &Choices::default()).unwrap();
        assert_eq!(decision.mechanism, Mechanism::Mapped, "{prefetch_bps}");
    }
    machine.end();
}

#[test]
fn what_is_insisted_on_is_done_or_refused_with_the_reason() {
    let machine = Machine::model("orin");
    let probe = probe(&machine);
    let insist = |mechanism| Choices {
        mechanism: Some(mechanism),
        ..Choices::default()
    };
    let refused = decide(&machine, &probe, &insist(Mechanism::Managed))
        .unwrap_err()
        .to_string();
    let wanted = "managed cannot be used here: the trial of prefetch failed: ";
    assert!(refused.starts_with(wanted), "{refused}");
    let packed = decide(&machine, &probe, &insist(Mechanism::Packed)).unwrap();
    assert_eq!(packed.mechanism, Mechanism::Packed);
    let host = Choices {
        spill: Some(SpillPlace::Host),
        ..Choices::default()
    };
    let decision = decide(&machine, &probe, &host).unwrap();
    assert_eq!(decision.spill, SpillPlace::Host);
    assert!(
        decision.warnings[0].contains("the same memory"),
        "{decision:?}"
    );
    let storage = Choices {
        spill: Some(SpillPlace::Storage),
        ..Choices::default()
    };
    let decision = decide(&machine, &probe, &storage).unwrap();
    assert_eq!(decision.spill, SpillPlace::Storage);
    let asked = "spill to storage, as was asked for".to_owned();
    assert!(decision.reasons.contains(&asked), "{decision:?}");
    let much = Choices {
        budget: Some(Bytes(1 << 50)),
        ..Choices::default()
    };
    let refused = decide(&machine, &probe, &much).unwrap_err().to_string();
    assert!(refused.contains("can be given"), "{refused}");
    machine.end();
}

#[test]
fn memory_counts_by_the_rules_of_tegra() {
    let machine = Machine::model("orin");
    let mut probe = probe(&machine);
    probe.memory_bytes = 8 << 30;
    let mut room = Room {
        free_bytes: 1 << 30,
        available_bytes: Some(6 << 30),
        ..Room::default()
    };
    let before = Decision::of(&probe, &room, &Choices::default()).unwrap();
    // What is available counts, not what the driver calls free; a tenth is left.
    assert_eq!(before.budget_bytes, (6 << 30) - (8 << 30) / 10);
    room.l4t = Some(L4tRelease::REGRESSION);
    room.nvmap_bytes = Some(1 << 30);
    room.zram = true;
    let after = Decision::of(&probe, &room, &Choices::default()).unwrap();
    assert!(after.budget_bytes < 3 << 30, "{after:?}");
    assert!(
        after
            .warnings
            .iter()
            .any(|line| line.contains("L4T 36.4.7")),
        "{after:?}"
    );
    assert!(
        after.warnings.iter().any(|line| line.contains("zram")),
        "{after:?}"
    );
    machine.end();
}

#[test]
fn where_streams_cannot_be_ordered_nothing_is_chosen() {
    let machine = Machine::model("rtx-linux");
    let mut probe = probe(&machine);
    for trial in &mut probe.trials {
        if trial.name == "order of streams" {
            (trial.works, trial.found) = (false, "a copy did not wait".into());
        }
    }
    let refused = decide(&machine, &probe, &Choices::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this GPU cannot be used here: the trial of order of streams failed: a copy did not wait"
    );
    machine.end();
}

#[test]
fn a_trial_that_fails_is_a_finding() {
    let machine = Machine::model("rtx-linux");
    let control = machine.control.as_ref().unwrap();
    control
        .inject("cuMemSetAccess", 1, Failing::Now, 2)
        .unwrap();
    let probe = probe(&machine);
    assert!(!probe.works("aliased windows"));
    assert!(
        probe
            .why_not("aliased windows")
            .contains("CUDA_ERROR_OUT_OF_MEMORY")
    );
    let decision = decide(&machine, &probe, &Choices::default()).unwrap();
    assert_ne!(decision.mechanism, Mechanism::Mapped);
    machine.end();
}

#[test]
fn a_probe_in_which_a_call_fails_ends_and_gives_everything_back() {
    let once = [
        "cuMemGetInfo_v2",
        "cuStreamCreateWithPriority",
        "cuMemGetAllocationGranularity",
        "cuMemCreate",
        "cuMemAddressReserve",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemAlloc_v2",
        "cuMemAllocManaged",
        "cuMemHostAlloc",
        "cuMemHostRegister_v2",
        "cuMemHostUnregister",
        "cuMemPrefetchAsync_v2",
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuMemcpyHtoDAsync_v2",
    ];
    let once = once.map(|function| (function, 1, Failing::Now));
    // The waits of the trials, and of the first measurements.
    let waits = (1..=16).map(|nth| ("cuStreamSynchronize", nth, Failing::Now));
    let late = [("cuMemcpyHtoDAsync_v2", 1, Failing::Late)];
    let lost = [("cuMemMap", 2, Failing::ForEver)];
    let mut control = Machine::model("rtx-linux").loose();
    for (function, nth, failing) in once.into_iter().chain(waits).chain(late).chain(lost) {
        let machine = Machine::again(control, "rtx-linux");
        let model = machine.control.as_ref().unwrap();
        model.inject(function, nth, failing, 2).unwrap();
        if let Ok(probe) = Probe::of(&machine.device) {
            // Whatever it found, there is an answer.
            let _ = Decision::of(&probe, &Room::default(), &Choices::default());
        }
        control = machine.loose();
        let name = format!("{failing:?}, {function} {nth}");
        assert_eq!(control.reports(), Vec::<String>::new(), "{name}");
        assert_eq!(control.leaks(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn whatever_function_a_driver_lacks_there_is_an_answer() {
    let (mut needed, mut left) = (0, 0);
    let registering = ["cuMemHostRegister_v2", "cuMemHostUnregister"];
    for function in FUNCTIONS.into_iter().chain(registering) {
        let control = Control::without("rtx-linux", &[function]).unwrap();
        control.granularity(MODEL_PAGE).unwrap();
        let driver = match Driver::open(control.path()) {
            Ok(driver) => driver,
            Err(CudaError::Missing { symbol }) => {
                assert_eq!(symbol, function);
                needed += 1;
                continue;
            }
            Err(error) => panic!("{function}: {error}"),
        };
        let device = Device::open(&driver, 0).unwrap();
        let probe = Probe::of(&device).unwrap();
        let room = Room::now(&device).unwrap();
        let decision = Decision::of(&probe, &room, &Choices::default()).unwrap();
        let plan = match decision.mechanism {
            Mechanism::Packed => plans::dead_at_home(MODEL_PAGE),
            _ => plans::swap(MODEL_PAGE),
        };
        let plan = VerifiedPlan::new(plan).unwrap();
        let options = Options::of(decision.mechanism);
        let frozen = Frozen::freeze(&device, plan, &options, |_, _, bytes| bytes.fill(0));
        drop(frozen.unwrap_or_else(|error| panic!("{function}: {error}")));
        drop(device);
        assert_eq!(control.reports(), Vec::<String>::new(), "{function}");
        assert_eq!(control.leaks(), Vec::<String>::new(), "{function}");
        left += 1;
    }
    assert!(needed > 15 && left > 5, "{needed} needed, {left} not");
}
