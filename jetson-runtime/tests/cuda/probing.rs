//! The boot probe on every kind of machine.

use cuda_model::Failing;
use jetson_runtime::cuda::Mechanism;
use jetson_runtime::cuda::probe::{
    Choices, Decision, L4tRelease, LinkSpeed, Probe, SpillPlace, System,
};
use vtensor::Bytes;

use crate::machine::Machine;

/// A system whose memory is known.
fn system() -> System {
    System {
        kernel: "6.8.0".into(),
        total_bytes: Some(64 << 30),
        available_bytes: Some(48 << 30),
        ..System::default()
    }
}

fn probe(machine: &Machine) -> Probe {
    Probe::of(&machine.device, system()).unwrap()
}

#[test]
fn classes_and_decisions_are_those_of_the_facts() {
    use Mechanism::{Mapped, Packed};
    // Profile, class, mechanism where copies are as fast as prefetches, spill, two streams.
    let wanted = [
        ("nano", 'A', Packed, SpillPlace::Storage, false),
        ("orin", 'A', Mapped, SpillPlace::Storage, true),
        ("thor", 'B', Mapped, SpillPlace::Storage, false),
        ("gh200", 'C', Mapped, SpillPlace::Host, true),
        ("rtx-linux", 'D', Mapped, SpillPlace::Host, true),
        ("rtx-wsl", 'E', Mapped, SpillPlace::Host, true),
    ];
    for (profile, class, mechanism, spill, duplex) in wanted {
        let machine = Machine::model(profile);
        let mut probe = probe(&machine);
        let link = probe.link.expect("copies work everywhere");
        assert!(link.out_bps > 0.0 && link.in_bps > 0.0 && link.both_bps > 0.0);
        let prefetches = ['B', 'C', 'D'].contains(&class);
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
        let decision = Decision::of(&probe, &Choices::default()).unwrap();
        assert_eq!(probe.class, class, "{profile}");
        assert_eq!(decision.mechanism, mechanism.name(), "{profile}");
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
        ("gh200", "managed"),
        ("rtx-linux", "managed"),
        ("thor", "mapped"),
    ] {
        let machine = Machine::model(profile);
        let mut probe = probe(&machine);
        probe.link = Some(LinkSpeed {
            prefetch_bps: Some([3e10; 2]),
            ..even(&probe)
        });
        let decision = Decision::of(&probe, &Choices::default()).unwrap();
        assert_eq!(decision.mechanism, chosen, "{profile}");
        machine.end();
    }
}

#[test]
fn what_is_insisted_on_is_done_or_refused_with_the_reason() {
    let machine = Machine::model("orin");
    let probe = probe(&machine);
    let insist = |mechanism| Choices {
        mechanism: Some(mechanism),
        ..Choices::default()
    };
    let refused = Decision::of(&probe, &insist(Mechanism::Managed))
        .unwrap_err()
        .to_string();
    let wanted = "managed cannot be used here: the trial of prefetch failed: ";
    assert!(refused.starts_with(wanted), "{refused}");
    let packed = Decision::of(&probe, &insist(Mechanism::Packed)).unwrap();
    assert_eq!(packed.mechanism, "packed");
    let host = Choices {
        spill: Some(SpillPlace::Host),
        ..Choices::default()
    };
    let decision = Decision::of(&probe, &host).unwrap();
    assert_eq!(decision.spill, SpillPlace::Host);
    assert!(
        decision.warnings[0].contains("the same memory"),
        "{decision:?}"
    );
    let much = Choices {
        budget: Some(Bytes(1 << 50)),
        ..Choices::default()
    };
    let refused = Decision::of(&probe, &much).unwrap_err().to_string();
    assert!(refused.contains("can be given"), "{refused}");
    machine.end();
}

#[test]
fn memory_counts_by_the_rules_of_tegra() {
    let machine = Machine::model("orin");
    let mut probe = probe(&machine);
    probe.memory_bytes = 8 << 30;
    probe.free_bytes = 1 << 30;
    probe.system.available_bytes = Some(6 << 30);
    let before = Decision::of(&probe, &Choices::default()).unwrap();
    // What is available counts, not what the driver calls free; a tenth is left.
    assert_eq!(before.budget_bytes, (6 << 30) - (8 << 30) / 10);
    probe.system.l4t = Some(L4tRelease::REGRESSION);
    probe.system.nvmap_bytes = Some(1 << 30);
    let after = Decision::of(&probe, &Choices::default()).unwrap();
    assert!(after.budget_bytes < 3 << 30, "{after:?}");
    assert!(
        after
            .warnings
            .iter()
            .any(|line| line.contains("L4T 36.4.7")),
        "{after:?}"
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
    let decision = Decision::of(&probe, &Choices::default()).unwrap();
    assert_ne!(decision.mechanism, "mapped");
    machine.end();
}
