//! What never leaves the arena, and what a spill file may be written.

use lgm::planner::Methods;
use nix::errno::Errno;
use vtensor::{Bytes, Kinds, TensorKind};

use super::{App, EVALUATE, TRAIN, app, config, step, unit};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::fault::Fault;
use crate::live::{Access, Config, TensorDesc, predict};
use crate::spill::Spill;
use crate::tests::disk;

/// Weight, momentum and loss, each at a multiple of 512 bytes.
fn model_bytes() -> u64 {
    2 * (12 * unit() + 512) + 512
}

fn on_disk(budget: u64) -> Config {
    Config {
        spill: Spill::File(disk()),
        ..config(budget)
    }
}

#[test]
fn with_a_spill_file_a_model_keeps_its_place() {
    let mut app = app(on_disk(128 * unit()));
    assert_eq!(app.runtime.stats().pinned, Bytes(model_bytes()));
    let mut weights = Vec::new();
    for _ in 0..6 {
        app.addresses.clear();
        app.iteration(TRAIN, |app| step(app, 2));
        // The second tensor of the first op.
        weights.push(app.addresses[1]);
        app.read_all();
    }
    assert!(weights.iter().all(|at| *at == weights[0]), "{weights:x?}");
    let stats = app.runtime.stats();
    assert!(
        stats.frozen_iterations > 2 && stats.moved_out.0 > 0,
        "{stats:?}"
    );
    // What is kept cannot be unpinned, but it can be destroyed.
    app.runtime.unpin(app.kept[0]).unwrap();
    assert_eq!(app.runtime.stats().pinned, Bytes(model_bytes()));
    app.destroy_kept(0);
    assert_eq!(
        app.runtime.stats().pinned,
        Bytes(model_bytes() - 12 * unit() - 512)
    );
    app.read_all();
}

#[test]
fn everything_moves_where_that_is_asked_for() {
    let mut app = app(Config {
        keep: Some(Kinds::NONE),
        ..on_disk(116 * unit())
    });
    for _ in 0..5 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    app.read_all();
    assert_eq!(app.runtime.stats().pinned, Bytes(0));
    let trace = app.runtime.trace(TRAIN).unwrap().unwrap();
    let budget = |keep, bytes| Config {
        keep,
        ..on_disk(bytes)
    };
    // It fits where the model moves as well, and not where it stays.
    assert!(predict(&trace, &budget(Some(Kinds::NONE), 116 * unit())).unwrap() > 0);
    let error = predict(&trace, &budget(None, 116 * unit())).unwrap_err();
    assert!(error.contains("budget"), "{error}");
    let error = predict(&trace, &budget(None, model_bytes() - 1)).unwrap_err();
    assert!(error.contains("what stays in the arena takes"), "{error}");
    assert!(predict(&trace, &budget(None, 128 * unit())).unwrap() > 0);
}

#[test]
fn no_fault_of_the_disk_costs_a_model() {
    let mut lost = 0;
    for direction in [Direction::Out, Direction::In] {
        for copy in 0..40 {
            let mut app = app(Config {
                fault: Some(Fault {
                    direction,
                    after_copies: copy,
                    errno: Errno::EIO,
                }),
                ..on_disk(128 * unit())
            });
            for _ in 0..6 {
                match app
                    .runtime
                    .iteration_begin(TRAIN)
                    .map(|()| attempt(&mut app))
                {
                    Ok(Ok(())) => continue,
                    Ok(Err(_)) => app.abort(),
                    // It was carrying tensors for a program.
                    Err(_) => {}
                }
                // Before anything is written anew, the model is there.
                for at in [0, 1, 3] {
                    let lost = app.runtime.lost(app.kept[at]).unwrap();
                    assert!(lost.is_empty(), "{direction}, copy {copy}: {lost:?}");
                    let bytes = app.model[&app.kept[at]].len() as u64;
                    app.read(at, 0, bytes);
                }
                lost += 1;
                app.restore_lost();
            }
        }
    }
    assert!(lost > 20, "{lost} iterations failed");
}

/// A step whose error is answered.
fn attempt(app: &mut App) -> Result<(), RuntimeError> {
    let [weight, momentum, input, loss] = [0, 1, 2, 3].map(|at| app.kept[at]);
    let first = app.create("first", 40 * unit());
    app.try_op(
        "forward 1",
        &[
            Access::read(input),
            Access::read(weight),
            Access::write(first),
        ],
    )?;
    let second = app.create("second", 48 * unit());
    app.try_op("forward 2", &[Access::read(first), Access::write(second)])?;
    app.try_op("loss", &[Access::read(second), Access::write(loss)])?;
    let gradient = app.create("gradient", 48 * unit());
    app.try_op(
        "backward 2",
        &[Access::read(second), Access::write(gradient)],
    )?;
    app.destroy(second);
    app.try_op(
        "backward 1",
        &[Access::read(first), Access::read_write(gradient)],
    )?;
    app.destroy(first);
    app.try_op(
        "update",
        &[
            Access::read(gradient),
            Access::read_write(momentum),
            Access::read_write(weight),
        ],
    )?;
    app.destroy(gradient);
    app.runtime.iteration_end()
}

#[test]
fn state_that_outlives_its_iteration_gets_a_place() {
    let mut app = app(on_disk(128 * unit()));
    let weight = app.kept[0];
    app.runtime.iteration_begin(TRAIN).unwrap();
    let desc = TensorDesc::new("adam", Bytes(20 * unit()), TensorKind::Optimizer);
    app.create_kept(&desc);
    let state = *app.kept.last().unwrap();
    app.op(
        "first update",
        &[Access::read(weight), Access::write(state)],
    );
    app.runtime.iteration_end().unwrap();
    assert_eq!(app.runtime.stats().pinned, Bytes(model_bytes()));
    let mut places = Vec::new();
    for _ in 0..4 {
        app.addresses.clear();
        app.iteration(TRAIN, |app| {
            app.op("update", &[Access::read_write(state)]);
            step(app, 1);
        });
        places.push(app.addresses[0]);
    }
    assert!(places.iter().all(|at| *at == places[0]), "{places:x?}");
    assert_eq!(
        app.runtime.stats().pinned,
        Bytes(model_bytes() + 20 * unit())
    );
    app.read_all();
}

#[test]
fn without_room_a_tensor_that_stays_is_refused() {
    let mut app = app(on_disk(64 * unit()));
    let desc = TensorDesc::new("wide", Bytes(40 * unit()), TensorKind::Parameter);
    let error = app.runtime.create(&desc).unwrap_err();
    assert!(matches!(error, RuntimeError::PinTooLarge { .. }), "{error}");
    assert!(error.to_string().contains("'wide' is to stay"), "{error}");
    app.read_all();
    // One that an iteration leaves behind is refused when the next one begins, until it is gone.
    app.runtime.iteration_begin(TRAIN).unwrap();
    app.create_kept(&TensorDesc::new(
        "lazy",
        Bytes(38 * unit()),
        TensorKind::Optimizer,
    ));
    let lazy = *app.kept.last().unwrap();
    app.op("make", &[Access::write(lazy)]);
    app.runtime.iteration_end().unwrap();
    app.create_kept(&TensorDesc::new(
        "more",
        Bytes(6 * unit()),
        TensorKind::Parameter,
    ));
    for _ in 0..2 {
        let error = app.runtime.iteration_begin(TRAIN).unwrap_err();
        assert!(error.to_string().contains("'lazy' is to stay"), "{error}");
        app.read_all();
    }
    let at = app.kept.iter().position(|tensor| *tensor == lazy).unwrap();
    app.destroy_kept(at);
    app.iteration(TRAIN, |app| app.op("small", &[Access::read(app.kept[0])]));
    app.read_all();
}

/// An application that was recorded, and may write so much in a day.
fn allowed(max: u64, methods: Methods) -> App {
    let mut app = app(Config {
        methods,
        written_per_day_max: Some(Bytes(max)),
        ..on_disk(128 * unit())
    });
    for _ in 0..2 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    app
}

#[test]
fn a_program_that_writes_more_than_it_may_is_refused() {
    let allowed = |max| allowed(max, Config::default().methods);
    let mut little = allowed(1 << 20);
    let error = little.runtime.iteration_begin(TRAIN).unwrap_err();
    assert!(matches!(error, RuntimeError::Wear { .. }), "{error}");
    assert!(error.to_string().contains("1 MiB are allowed"), "{error}");
    little.read_all();
    let mut much = allowed(u64::MAX);
    for _ in 0..2 {
        much.iteration(TRAIN, |app| step(app, 2));
    }
    assert_eq!(much.runtime.stats().frozen_iterations, 2);
}

#[test]
fn without_a_program_no_more_is_written_than_may_be() {
    // Nothing runs again here, so there is no plan.
    let allowed = |max| allowed(max, Methods::Recompute);
    let mut little = allowed(1 << 20);
    for _ in 0..2 {
        let error = little.runtime.iteration_begin(TRAIN).unwrap_err();
        assert!(error.to_string().contains("1 MiB are allowed"), "{error}");
    }
    little.read_all();
    let mut much = allowed(u64::MAX);
    much.iteration(TRAIN, |app| step(app, 2));
    assert_eq!(much.runtime.stats().frozen_iterations, 0);
}

#[test]
fn without_a_budget_a_model_is_not_in_the_file_either() {
    let mut app = app(Config {
        budget: None,
        ..on_disk(0)
    });
    for key in [TRAIN, TRAIN, TRAIN, EVALUATE, TRAIN, EVALUATE, TRAIN] {
        app.iteration(key, |app| step(app, 2));
        assert_eq!(app.runtime.stats().pinned, Bytes(model_bytes()));
    }
    app.read_all();
}
