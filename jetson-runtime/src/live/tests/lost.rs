//! Contents that are lost, torn or forgotten: which bytes, and how they become whole again.

use nix::errno::Errno;
use vtensor::{Bytes, TensorKind};

use super::{App, Config, TRAIN, app, config, unit};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::fault::Fault;
use crate::live::{Access, Loss, LostRange, TensorDesc};
use crate::spill::Spill;
use crate::tests::disk;

fn torn(start: u64, end: u64) -> [LostRange; 1] {
    [LostRange {
        offset: start,
        bytes: Bytes(end - start),
        loss: Loss::Torn,
    }]
}

#[test]
fn what_an_aborted_op_was_writing_is_torn_until_it_is_written() {
    let mut app = app(config(116 * unit()));
    let weight = app.kept[0];
    for round in 0..4 {
        app.runtime.iteration_begin(TRAIN).unwrap();
        let _ = app
            .runtime
            .op_begin("torn", &[Access::read_write(weight)])
            .unwrap();
        if round < 2 {
            app.runtime.op_end().unwrap();
            app.runtime.iteration_end().unwrap();
            continue;
        }
        app.abort();
        let bytes = 12 * unit() + 40;
        assert_eq!(app.runtime.lost(weight).unwrap(), torn(0, bytes));
        let error = app.runtime.read(weight, 100, &mut [0; 3]).unwrap_err();
        let wanted = "bytes 100..103 of tensor 'weight' were torn by an op";
        assert!(error.to_string().starts_with(wanted), "{error}");
        // What is written is whole again, and the rest is as it was.
        app.write(0, 0, 50);
        app.write(0, 60, bytes - 60);
        assert_eq!(app.runtime.lost(weight).unwrap(), torn(50, 60));
        app.read(0, 0, 50);
        app.read(0, 60, bytes - 60);
        assert!(app.runtime.read(weight, 49, &mut [0; 2]).is_err());
        app.runtime.iteration_begin(TRAIN).unwrap();
        let error = app.runtime.op_begin("read", &[Access::read(weight)]);
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("bytes 50..60 of tensor 'weight'"),
            "{error}"
        );
        app.abort();
        app.write(0, 40, 30);
        assert_eq!(app.runtime.lost(weight).unwrap(), []);
        app.read_all();
    }
}

#[test]
fn a_pinned_tensor_that_an_aborted_op_was_writing_is_torn() {
    let mut app = app(config(160 * unit()));
    let weight = app.kept[0];
    app.runtime.pin(weight).unwrap();
    for _ in 0..4 {
        app.iteration(TRAIN, |app| {
            app.op("first", &[Access::read_write(app.kept[1])]);
            app.op("second", &[Access::read_write(weight)]);
        });
    }
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
    app.runtime.iteration_begin(TRAIN).unwrap();
    app.op("first", &[Access::read_write(app.kept[1])]);
    let _ = app
        .runtime
        .op_begin("second", &[Access::read_write(weight)])
        .unwrap();
    app.abort();
    let bytes = 12 * unit() + 40;
    assert_eq!(app.runtime.lost(weight).unwrap(), torn(0, bytes));
    app.write(0, 10, bytes - 10);
    assert_eq!(app.runtime.lost(weight).unwrap(), torn(0, 10));
    // It moves as any other, and the bytes that are intact stay so.
    app.runtime.unpin(weight).unwrap();
    assert_eq!(app.runtime.lost(weight).unwrap(), torn(0, 10));
    app.read(0, 10, bytes - 10);
    assert!(app.runtime.pin(weight).is_err());
    app.write(0, 0, 10);
    app.runtime.pin(weight).unwrap();
    app.read_all();
}

/// A step whose error is answered; its weight has many pieces.
fn attempt(app: &mut App) -> Result<(), RuntimeError> {
    let [weight, large] = [0, 4].map(|at| app.kept[at]);
    let made = app.create("made", 60 * unit());
    app.try_op("forward", &[Access::read(large), Access::write(made)])?;
    app.try_op(
        "other",
        &[Access::read_write(weight), Access::read_write(made)],
    )?;
    app.try_op("update", &[Access::read_write(large), Access::read(made)])?;
    app.destroy(made);
    app.runtime.iteration_end()
}

#[test]
fn a_copy_that_fails_loses_its_bytes_and_no_others() {
    let (mut lost, mut partly) = (0, 0);
    for copy in 0..30 {
        let mut app = app(Config {
            fault: Some(Fault {
                direction: Direction::In,
                after_copies: copy,
                errno: Errno::EIO,
            }),
            spill: [Spill::Ram, Spill::File(disk())][copy as usize % 2].clone(),
            keep: Some(vtensor::Kinds::NONE),
            ..config(104 * unit())
        });
        let bytes = 40 * unit() + 100;
        let large = TensorDesc::new("large", Bytes(bytes), TensorKind::Parameter);
        app.create_kept(&large);
        app.write(4, 0, bytes);
        for _ in 0..8 {
            if app.runtime.iteration_begin(TRAIN).is_err() {
                continue;
            }
            if attempt(&mut app).is_ok() {
                continue;
            }
            app.abort();
            let ranges = app.runtime.lost(app.kept[4]).unwrap();
            let gone: u64 = ranges.iter().map(|range| range.bytes.0).sum();
            assert!(ranges.iter().all(|range| range.loss == Loss::Lost));
            lost += u32::from(gone > 0);
            partly += u32::from(gone > 0 && gone < bytes);
            app.restore_lost();
        }
        app.read_all();
    }
    println!("{lost} lost, {partly} of them partly");
    assert!(partly > 0);
}

#[test]
fn tensors_of_an_iteration_have_a_state_in_every_phase() {
    let mut app = app(config(116 * unit()));
    for _ in 0..4 {
        app.runtime.iteration_begin(TRAIN).unwrap();
        let made = app.create("made", 8 * unit());
        assert_eq!(app.runtime.lost(made).unwrap(), []);
        app.op("fill", &[Access::write(made)]);
        app.destroy(made);
        assert!(app.runtime.lost(made).is_err());
        app.runtime.iteration_end().unwrap();
    }
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
}

#[test]
fn what_an_iteration_had_written_is_told_in_it_and_when_it_was_given_up() {
    let mut app = app(config(116 * unit()));
    let written = |app: &App| -> Vec<bool> {
        let kept = app.kept.iter();
        kept.map(|tensor| app.runtime.written(*tensor).unwrap())
            .collect()
    };
    let [weight, momentum, input, loss] = [0, 1, 2, 3].map(|at| app.kept[at]);
    for round in 0..6 {
        assert_eq!(written(&app), [false; 4], "round {round}");
        app.runtime.iteration_begin(TRAIN).unwrap();
        app.op("loss", &[Access::read(input), Access::write(loss)]);
        assert_eq!(written(&app), [false, false, false, true], "round {round}");
        let _ = app
            .runtime
            .op_begin("update", &[Access::read(loss), Access::read_write(weight)])
            .unwrap();
        assert_eq!(written(&app), [true, false, false, true], "round {round}");
        if round % 3 == 2 {
            app.abort();
            assert_eq!(written(&app), [true, false, false, true], "round {round}");
            app.write(0, 0, 12 * unit() + 40);
            app.runtime.iteration_begin(TRAIN).unwrap();
            assert_eq!(written(&app), [false; 4], "round {round}");
            app.abort();
            continue;
        }
        app.runtime.op_end().unwrap();
        app.op("late", &[Access::read_write(momentum)]);
        assert_eq!(written(&app), [true, true, false, true], "round {round}");
        app.runtime.iteration_end().unwrap();
        // `op_begin` runs nothing: the model knows nothing of what it left.
        app.write(0, 0, 12 * unit() + 40);
    }
    assert!(app.runtime.stats().frozen_iterations > 0);
}
