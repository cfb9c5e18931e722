//! Calls that are wrong: each is refused with its reason, and the runtime goes on.

use vtensor::{Bytes, TensorKind};

use super::{App, TRAIN, app, config, step, unit};
use crate::error::RuntimeError;
use crate::live::{Access, ProgramKey, Runtime, Tensor, TensorDesc};

fn message<T>(result: Result<T, RuntimeError>) -> String {
    result.err().expect("it is refused").to_string()
}

#[test]
fn calls_out_of_order_are_refused_in_every_phase() {
    let mut app = app(config(116 * unit()));
    // Recording for two iterations, frozen then.
    for _ in 0..4 {
        let rt = &mut app.runtime;
        assert!(message(rt.iteration_end()).contains("outside an iteration"));
        assert!(message(rt.iteration_abort()).contains("nothing to abort"));
        assert!(message(rt.op_begin("op", &[])).contains("begin an iteration"));
        assert!(message(rt.op_end()).contains("call op_begin first"));
        rt.iteration_begin(TRAIN).unwrap();
        assert!(message(rt.iteration_begin(TRAIN)).contains("inside an iteration"));
        assert!(message(rt.freeze(TRAIN)).contains("end or abort"));
        assert!(message(rt.read(app.kept[0], 0, &mut [0])).contains("end or abort"));
        assert!(message(rt.write(app.kept[0], 0, &[0])).contains("end or abort"));
        assert!(message(rt.op_end()).contains("call op_begin first"));
        step(&mut app, 2);
        app.runtime.iteration_end().unwrap();
    }
    assert_eq!(app.runtime.stats().divergences, 0);
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
}

#[test]
fn an_open_op_must_end_first() {
    let mut app = app(config(116 * unit()));
    for _ in 0..4 {
        let input = app.kept[2];
        let weight = app.kept[0];
        let rt = &mut app.runtime;
        rt.iteration_begin(TRAIN).unwrap();
        let _ = rt.op_begin("op", &[Access::read(input)]).unwrap();
        assert!(message(rt.op_begin("op", &[])).contains("inside an op"));
        assert!(message(rt.iteration_end()).contains("inside an op"));
        let desc = TensorDesc::new("late", Bytes(1), TensorKind::Activation);
        assert!(message(rt.create(&desc)).contains("inside an op"));
        assert!(message(rt.destroy(weight)).contains("inside an op"));
        rt.op_end().unwrap();
        rt.iteration_end().unwrap();
    }
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
}

#[test]
fn tensors_and_ranges_are_checked() {
    let mut app = app(config(116 * unit()));
    let rt = &mut app.runtime;
    let desc = |bytes| TensorDesc::new("bad", Bytes(bytes), TensorKind::Buffer);
    assert!(message(rt.create(&desc(0))).contains("a tensor has bytes"));
    assert!(message(rt.create(&desc(u64::MAX))).contains("at most 2^43"));
    let long = "x".repeat(5000);
    let named = TensorDesc::new(&long, Bytes(1), TensorKind::Buffer);
    assert!(message(rt.create(&named)).contains("shorter name"));
    let weight = app.kept[0];
    let end = 12 * unit();
    assert_eq!(
        message(rt.read(weight, end, &mut [0; 41])),
        format!(
            "bytes {end}..{} leave tensor 'weight' of {} bytes",
            end + 41,
            end + 40
        )
    );
    assert!(rt.read(weight, u64::MAX, &mut [0]).is_err());
    assert!(
        rt.write(weight, 12 * unit() + 40, &[]).is_ok(),
        "nothing at the end"
    );
    let nobody = Tensor::from_bits(77 << 32);
    assert!(message(rt.read(nobody, 0, &mut [])).contains("is no tensor"));
    assert!(message(rt.destroy(nobody)).contains("is no tensor"));
    rt.iteration_begin(TRAIN).unwrap();
    assert!(message(rt.op_begin("op", &[Access::read(nobody)])).contains("is no tensor"));
    assert!(message(rt.destroy(weight)).contains("outlives iterations"));
    let fresh = rt.create(&desc(10)).unwrap();
    assert_eq!(
        message(rt.op_begin("use", &[Access::read(fresh)])),
        "op 'use' reads tensor 'bad', which nothing has written in this iteration; write it \
         first, or let the op read and write it"
    );
    rt.destroy(fresh).unwrap();
    assert!(message(rt.destroy(fresh)).contains("is no tensor"));
    let huge = rt.create(&desc(200 * unit())).unwrap();
    assert!(
        message(rt.op_begin("use", &[Access::write(huge)]))
            .contains(&format!("{} at once", Bytes(200 * unit())))
    );
    rt.iteration_abort().unwrap();
}

#[test]
fn freezing_wants_two_equal_iterations_and_a_plan() {
    let mut app = app(config(116 * unit()));
    assert!(message(app.runtime.freeze(TRAIN)).contains("two equal iterations"));
    app.iteration(TRAIN, |app| step(app, 2));
    assert!(message(app.runtime.freeze(TRAIN)).contains("two equal iterations"));
    app.iteration(TRAIN, |app| step(app, 2));
    app.runtime.freeze(TRAIN).unwrap();
    app.read_all();
    assert!(app.runtime.programs()[0].frozen);
    // An iteration without memory has no plan, and still runs.
    let empty = ProgramKey(9);
    for _ in 0..3 {
        app.iteration(empty, |app| app.op("nothing", &[]));
    }
    assert!(message(app.runtime.freeze(empty)).contains("uses no memory"));
    app.iteration(empty, |app| app.op("nothing", &[]));
}

#[test]
fn an_op_that_names_a_tensor_twice_has_one_address() {
    let mut app = app(config(116 * unit()));
    let weight = app.kept[0];
    for _ in 0..4 {
        app.runtime.iteration_begin(TRAIN).unwrap();
        let twice = [Access::read(weight), Access::write(weight)];
        let op = app.runtime.op_begin("twice", &twice).unwrap();
        assert_eq!(op.pointer(0), op.pointer(1));
        app.runtime.op_end().unwrap();
        app.runtime.iteration_end().unwrap();
    }
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
}

#[test]
#[should_panic(expected = "a tensor that is written has one view")]
fn a_tensor_that_is_written_has_one_view() {
    let mut app = app(config(116 * unit()));
    let weight = app.kept[0];
    app.runtime.iteration_begin(TRAIN).unwrap();
    let twice = [Access::read(weight), Access::write(weight)];
    let mut op = app.runtime.op_begin("twice", &twice).unwrap();
    let _: [_; 2] = op.views();
}

#[test]
fn budgets_of_nothing_and_of_everything() {
    let desc = TensorDesc::new("one", Bytes(1), TensorKind::Buffer);
    let mut nothing = Runtime::new(config(100)).unwrap();
    let tensor = nothing.create(&desc).unwrap();
    nothing.write(tensor, 0, &[7]).unwrap();
    nothing.iteration_begin(TRAIN).unwrap();
    let wanted = nothing.op_begin("use", &[Access::read(tensor)]);
    assert!(message(wanted).contains("the budget is 0 B"));
    nothing.iteration_abort().unwrap();
    let mut byte = [0];
    nothing.read(tensor, 0, &mut byte).unwrap();
    assert_eq!(byte, [7]);
    assert!(matches!(
        Runtime::new(config(u64::MAX)).err(),
        Some(RuntimeError::Memory { what: "arena", .. })
    ));
}

#[test]
fn a_spill_tier_that_is_full_is_an_error_and_loses_nothing() {
    let mut app = app(super::Config {
        spill_bytes_max: Some(Bytes(100 * unit())),
        ..config(64 * unit())
    });
    for at in 0..3 {
        app.write(at, 0, 8 * unit());
    }
    app.runtime.iteration_begin(TRAIN).unwrap();
    let made: Vec<Tensor> = (0..2).map(|_| app.create("made", 50 * unit())).collect();
    app.op("first", &[Access::write(made[0])]);
    app.op("second", &[Access::write(made[1])]);
    let third = app.create("third", 50 * unit());
    let full = app.try_op("third", &[Access::write(third)]);
    assert!(message(full).contains(&format!(
        "the spill tier has no room for {}",
        Bytes(50 * unit())
    )));
    app.op("again", &[Access::read(made[1])]);
    app.abort();
    app.read_all();
}

/// Calls that are refused wherever they are made in a step; `made` is new. Answers their errors.
fn attempts(app: &mut App, made: Tensor) -> Vec<String> {
    let [weight, gone, large] = [app.kept[0], Tensor::from_bits(1 << 63 | 77), app.kept[4]];
    let rt = &mut app.runtime;
    let mut errors = vec![message(rt.destroy(weight)), message(rt.destroy(gone))];
    for accesses in [
        &[Access::read(gone)][..],
        &[Access::read(made)],
        &[Access::write(large)],
        &[
            Access::read(large),
            Access::read(weight),
            Access::write(made),
        ],
    ] {
        errors.push(message(rt.op_begin("attempt", accesses)));
    }
    errors.push(message(rt.iteration_begin(TRAIN)));
    errors.push(message(rt.op_end()));
    errors
}

#[test]
fn an_attempt_that_fails_on_demand_fails_alike_in_a_frozen_program_and_does_not_stop_it() {
    let mut app = app(config(116 * unit()));
    let large = TensorDesc::new("large", Bytes(200 * unit()), TensorKind::Buffer);
    app.create_kept(&large);
    let mut errors = Vec::new();
    for _ in 0..5 {
        app.iteration(TRAIN, |app| {
            let made = app.create("made", 8 * unit());
            errors.push(attempts(app, made));
            // What the application falls back to.
            app.op("fill", &[Access::write(made)]);
            app.op(
                "use",
                &[Access::read(made), Access::read_write(app.kept[0])],
            );
            assert!(
                message(
                    app.runtime
                        .op_begin("attempt", &[Access::write(app.kept[4])])
                )
                .contains("the budget is")
            );
            app.destroy(made);
            assert!(message(app.runtime.destroy(made)).contains("no tensor"));
            assert!(
                message(app.runtime.op_begin("attempt", &[Access::read(made)]))
                    .contains("no tensor")
            );
            step(app, 2);
        });
    }
    for (at, words) in [
        "outlives",
        "no tensor",
        "no tensor",
        "nothing has written",
        "at once",
        "at once",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(errors[0][at].contains(words), "{:?}", errors[0]);
    }
    assert!(errors.iter().all(|those| *those == errors[0]), "{errors:?}");
    let stats = app.runtime.stats();
    assert_eq!((stats.frozen_iterations, stats.divergences), (3, 0));
    app.read_all();
}

#[test]
fn an_attempt_to_read_what_is_lost_does_not_stop_a_frozen_program() {
    let mut app = app(config(116 * unit()));
    let torn = app.kept[2];
    for _ in 0..3 {
        app.iteration(ProgramKey(5), |app| {
            app.op("other", &[Access::read_write(app.kept[0])])
        });
    }
    app.runtime.iteration_begin(TRAIN).unwrap();
    let _ = app
        .runtime
        .op_begin("tear", &[Access::write(torn)])
        .unwrap();
    app.abort();
    for _ in 0..3 {
        app.iteration(ProgramKey(5), |app| {
            let error = message(app.runtime.op_begin("attempt", &[Access::read(torn)]));
            assert!(error.contains("were torn"), "{error}");
            app.op("other", &[Access::read_write(app.kept[0])]);
        });
    }
    let stats = app.runtime.stats();
    assert_eq!((stats.frozen_iterations, stats.divergences), (4, 0));
    app.restore_lost();
    app.read_all();
}

#[test]
fn a_wrong_handle_does_not_stop_a_frozen_program() {
    let mut app = app(config(116 * unit()));
    for _ in 0..4 {
        app.runtime.iteration_begin(TRAIN).unwrap();
        let gone = Tensor::from_bits(1 << 63 | 77);
        assert!(message(app.runtime.op_begin("op", &[Access::read(gone)])).contains("no tensor"));
        assert!(message(app.runtime.destroy(gone)).contains("no tensor"));
        step(&mut app, 2);
        app.runtime.iteration_end().unwrap();
    }
    assert_eq!(app.runtime.stats().divergences, 0);
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
}
