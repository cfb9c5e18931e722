//! Applications on a GPU: the model of the driver, which reports what is not in order and what is
//! not given back.

use cuda_model::{Control, Failing};
use lgm::profile::Link;
use vtensor::{Bytes, TensorKind};

use super::{TRAIN, app, config, step, train, unit};
use crate::cuda::{Device, Driver, Target};
use crate::error::RuntimeError;
use crate::live::{Access, Config, Runtime, TensorDesc};
use crate::scale::system_page;
use crate::spill::Spill;
use crate::tests::disk;
use crate::throttle::Throttle;

/// A model of a machine, and its device.
pub(super) fn machine(profile: &str) -> (Control, Device) {
    let control = Control::new(profile).unwrap();
    let device = open(&control);
    (control, device)
}

fn open(control: &Control) -> Device {
    control.granularity(system_page()).unwrap();
    control.strict_events(true).unwrap();
    Device::open(&Driver::open(control.path()).unwrap(), 0).unwrap()
}

pub(super) fn on(device: &Device, config: Config) -> Config {
    let spill = match device.facts().integrated {
        true => Spill::File(disk()),
        false => Spill::Ram,
    };
    Config {
        gpu: Some(Target::new(device.clone())),
        spill,
        link: Some(Link {
            out_bps: 1e9,
            in_bps: 1e9,
            copy_latency_ns: 1000,
            duplex: true,
        }),
        ..config
    }
}

/// Nothing was out of order, and everything was given back.
pub(super) fn check(control: &Control, device: Device) {
    drop(device);
    assert_eq!(control.reports(), Vec::<String>::new());
    assert_eq!(control.leaks(), Vec::<String>::new());
}

#[test]
fn epochs_on_a_gpu_are_those_of_the_host() {
    for profile in ["rtx-linux", "rtx-wsl", "gh200", "orin", "thor"] {
        let (control, device) = machine(profile);
        let mut app = app(on(&device, config(130 * unit())));
        train(&mut app, 3);
        let stats = app.runtime.stats();
        assert!(stats.frozen_iterations > 8, "{profile}: {stats:?}");
        assert!(stats.moved_out.0 > 0 && stats.moved_in.0 > 0);
        let report = &app.runtime.programs()[0];
        let saved = app.runtime.save_plan(report.key).unwrap();
        drop(app);
        // A saved program is frozen from the first iteration on.
        let mut app = super::app(on(&device, config(130 * unit())));
        app.runtime.load_plan(TRAIN, &saved).unwrap();
        app.iteration(TRAIN, |app| step(app, 2));
        assert_eq!(app.runtime.stats().frozen_iterations, 1);
        drop(app);
        check(&control, device);
    }
}

#[test]
fn a_program_with_an_address_of_the_host_is_not_loaded_on_a_gpu() {
    let mut app = app(config(160 * unit()));
    app.fixing = true;
    for _ in 0..3 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    let saved = app.runtime.save_plan(TRAIN).unwrap();
    let (control, device) = machine("rtx-linux");
    let mut app = super::app(on(&device, config(160 * unit())));
    let error = app.runtime.load_plan(TRAIN, &saved).unwrap_err();
    assert!(error.to_string().contains("keeps one address"), "{error}");
    app.iteration(TRAIN, |app| step(app, 2));
    assert_eq!(
        app.runtime.stats().recorded_iterations,
        1,
        "nothing is loaded"
    );
    app.read_all();
    drop(app);
    check(&control, device);
}

#[test]
fn what_a_gpu_cannot_have_is_refused_with_the_reason() {
    let refused = |config: Config, wanted: &str| match Runtime::new(config) {
        Err(error) => assert!(error.to_string().contains(wanted), "{error}"),
        Ok(_) => panic!("{wanted}"),
    };
    let (control, device) = machine("rtx-linux");
    let good = || on(&device, config(100 * unit()));
    refused(
        Config {
            budget: None,
            ..good()
        },
        "no budget cannot be used",
    );
    refused(
        Config {
            check_replays: true,
            ..good()
        },
        "compares bytes on the host",
    );
    refused(
        Config {
            throttle: Some(Throttle {
                out_bps: 1e9,
                in_bps: 1e9,
                latency_ns: 0,
                time_scale: 1.0,
            }),
            ..good()
        },
        "a pace of copies",
    );
    let small = system_page() - 1;
    refused(on(&device, config(small)), "are not between a page");
    refused(on(&device, config(1 << 50)), "are not between a page");
    let mut runtime = Runtime::new(good()).unwrap();
    let fixed = TensorDesc {
        fixed: true,
        ..TensorDesc::new("fixed", Bytes(512), TensorKind::Parameter)
    };
    let error = runtime.create(&fixed).unwrap_err();
    assert!(error.to_string().contains("ask the op"), "{error}");
    drop(runtime);
    check(&control, device);
    let (control, device) = machine("nano");
    refused(on(&device, config(100 * unit())), "no virtual memory");
    check(&control, device);
    let (control, device) = machine("orin");
    let config = Config {
        spill: Spill::Ram,
        ..on(&device, config(100 * unit()))
    };
    refused(config, "name a folder to spill to");
    check(&control, device);
}

#[test]
fn whatever_call_of_the_driver_fails_no_byte_is_wrong() {
    let (mut control, device) = machine("rtx-linux");
    drop(device);
    let (mut failed, mut lost) = (0, 0);
    for round in 0..120_u64 {
        control.reset("rtx-linux").unwrap();
        let device = open(&control);
        let (mut app, failing) = (
            app(on(&device, config(100 * unit()))),
            [Failing::Now, Failing::Late][usize::try_from(round % 2).unwrap()],
        );
        for iteration in 0..6 {
            if iteration == round / 2 % 6 {
                // Out of memory: the context lives.
                control
                    .inject("*", 1 + round / 12 * 13, failing, 2)
                    .unwrap();
            }
            let ran = iterate(&mut app);
            control.clear_faults().unwrap();
            if let Err(error) = ran {
                assert!(
                    matches!(
                        error,
                        RuntimeError::Cuda(_)
                            | RuntimeError::Spilling { .. }
                            | RuntimeError::LostContent { .. }
                    ),
                    "{error}"
                );
                failed += 1;
                app.runtime.doubt();
                let _ = app.runtime.iteration_abort();
                let kept = app.kept.clone();
                app.model.retain(|tensor, _| kept.contains(tensor));
            }
            lost += app.restore_lost();
        }
        app.read_all();
        drop(app);
        drop(device);
        let (fresh, _) = machine("rtx-linux");
        assert_eq!(control.reports(), Vec::<String>::new(), "round {round}");
        control = fresh;
    }
    println!("{failed} iterations failed, {lost} ranges were lost");
    assert!(failed > 20 && lost > 0);
}

/// An iteration that may fail anywhere.
fn iterate(app: &mut super::app::App) -> Result<(), RuntimeError> {
    app.runtime.iteration_begin(TRAIN)?;
    let [weight, momentum, input, loss] = [0, 1, 2, 3].map(|at| app.kept[at]);
    let first = app.create("first", 32 * unit());
    app.try_op(
        "forward",
        &[
            Access::read(input),
            Access::read(weight),
            Access::write(first),
        ],
    )?;
    let second = app.create("second", 48 * unit());
    app.try_op("loss", &[Access::read(first), Access::write(second)])?;
    app.try_op("score", &[Access::read(second), Access::write(loss)])?;
    app.destroy(second);
    let third = app.create("third", 48 * unit());
    app.try_op("other", &[Access::write(third), Access::read(loss)])?;
    app.try_op(
        "backward",
        &[Access::read(first), Access::read_write(third)],
    )?;
    app.destroy(first);
    app.try_op(
        "update",
        &[
            Access::read(third),
            Access::read_write(momentum),
            Access::read_write(weight),
        ],
    )?;
    app.destroy(third);
    app.runtime.iteration_end()
}
