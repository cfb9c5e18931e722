//! Programs that run ops again: the same bytes, wherever they stop.

use vtensor::{Bytes, TensorKind};

use super::{TRAIN, config, unit};
use crate::error::RuntimeError;
use crate::live::tests::app::App;
use crate::live::{Access, Config, Op, Tensor, TensorDesc};
use lgm::planner::Methods;

const LAYERS: usize = 6;
/// What one makes, in units: large enough to be worth a thought.
const LAYER: u64 = 80;

/// An application with a weight, a running statistic, and a loss.
fn app(more: Config) -> App {
    let mut app = App::new(more);
    for (name, kind) in [
        ("weight", TensorKind::Parameter),
        ("statistic", TensorKind::Buffer),
        ("loss", TensorKind::Buffer),
    ] {
        app.create_kept(&TensorDesc::new(name, Bytes(4 * unit()), kind));
    }
    app
}

/// Four of the six activations fit. Nothing moves.
fn recompute() -> Config {
    Config {
        methods: Methods::Recompute,
        ..config((4 * LAYER + 20) * unit())
    }
}

/// A step of layers, each of which makes a tensor, changes it in place and counts in a statistic.
/// After so many ops, `leave` does something else.
fn step(app: &mut App, leave: Option<usize>) {
    let [weight, statistic, loss] = [0, 1, 2].map(|at| app.kept[at]);
    let mut ops = 0;
    let mut alive: Vec<Tensor> = Vec::new();
    let mut other = |app: &mut App, alive: &[Tensor]| {
        if leave == Some(ops) {
            for &tensor in alive {
                app.op("look", &[Access::read(tensor), Access::read_write(loss)]);
            }
        }
        ops += 1;
    };
    for layer in 0..LAYERS {
        let made = app.create("made", LAYER * unit());
        other(app, &alive);
        let mut accesses = vec![
            Access::write(made),
            Access::read(weight),
            Access::read_write(statistic),
        ];
        if layer > 0 {
            accesses.push(Access::read(alive[layer - 1]));
        }
        app.op_again("layer", &accesses);
        alive.push(made);
        other(app, &alive);
        app.op_again("in place", &[Access::read_write(made)]);
    }
    while let Some(made) = alive.pop() {
        let mut used = vec![Access::read(made), Access::read_write(loss)];
        if let Some(&before) = alive.last() {
            used.push(Access::read(before));
        }
        alive.push(made);
        other(app, &alive);
        app.op("backward", &used);
        alive.pop();
        app.destroy(made);
    }
    other(app, &alive);
    app.op("update", &[Access::read(loss), Access::read_write(weight)]);
}

#[test]
fn ops_run_again_and_leave_the_same_bytes() {
    let mut app = app(recompute());
    for _ in 0..6 {
        app.iteration(TRAIN, |app| step(app, None));
    }
    app.read_all();
    let stats = app.runtime.stats();
    let report = app.runtime.programs().remove(0);
    assert_eq!(stats.frozen_iterations, 4, "{:?}", report.refusal);
    assert!(app.replays.done.load(std::sync::atomic::Ordering::Relaxed) >= 4);
    assert_eq!(stats.recomputed.0, 4 * report.recomputed.unwrap().0);
    assert!(stats.recomputed.0 >= 4 * LAYER * unit() && stats.recompute_ns > 0);
    assert_eq!(report.moved, Some([Bytes(0), Bytes(0)]));
    assert_eq!(stats.failed_replays, 0);
}

#[test]
fn nothing_is_lost_that_was_given_up_to_be_computed_later() {
    // The ops of a step: two a layer forward, one backward, an update.
    for leave in 1..3 * LAYERS {
        let mut app = app(recompute());
        for _ in 0..4 {
            app.iteration(TRAIN, |app| step(app, None));
        }
        app.iteration(TRAIN, |app| step(app, Some(leave)));
        app.read_all();
        let divergences = app.runtime.divergences();
        assert_eq!(divergences.len(), 1, "{leave}");
        assert!(
            divergences.iter().all(|one| one.lost.is_empty()),
            "{divergences:?}"
        );
        for _ in 0..4 {
            app.iteration(TRAIN, |app| step(app, None));
        }
        app.read_all();
        assert!(app.runtime.stats().frozen_iterations > 2, "{leave}");
    }
}

#[test]
fn an_op_that_cannot_run_again_stops_the_program_and_is_tried_on_demand() {
    let mut app = app(recompute());
    for _ in 0..4 {
        app.iteration(TRAIN, |app| step(app, None));
    }
    let done = app.replays.done.load(std::sync::atomic::Ordering::Relaxed);
    // The next one fails, the one after it does not.
    let failing = &app.replays.failing;
    failing.store(done + 1, std::sync::atomic::Ordering::Relaxed);
    app.runtime.iteration_begin(TRAIN).unwrap();
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&mut app, None)));
    assert!(failed.is_err(), "an op_begin says so");
    app.replays
        .failing
        .store(0, std::sync::atomic::Ordering::Relaxed);
    app.abort();
    assert_eq!(app.runtime.stats().failed_replays, 1);
    assert_eq!(app.runtime.divergences().len(), 1);
    assert!(
        app.runtime.divergences()[0].lost.is_empty(),
        "it was computed on the heap"
    );
    let found = &app.runtime.divergences()[0].found;
    assert!(
        found.contains("was run again and failed: it was told to"),
        "{found}"
    );
}

#[test]
fn an_op_that_may_run_again_needs_a_replayer() {
    let mut runtime = crate::live::Runtime::new(recompute()).unwrap();
    let tensor = runtime
        .create(&TensorDesc::new(
            "weight",
            Bytes(100),
            TensorKind::Parameter,
        ))
        .unwrap();
    runtime.iteration_begin(TRAIN).unwrap();
    let error = runtime
        .op_begin_replayable("update", &[Access::read_write(tensor)], [0, 0])
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, RuntimeError::NoReplayer { .. }), "{error}");
}

#[test]
fn a_program_that_runs_ops_again_is_saved_and_loaded() {
    let mut recorded = app(recompute());
    for _ in 0..3 {
        recorded.iteration(TRAIN, |app| step(app, None));
    }
    let file = recorded.runtime.save_plan(TRAIN).unwrap();
    let mut app = app(recompute());
    app.runtime.load_plan(TRAIN, &file).unwrap();
    for _ in 0..3 {
        app.iteration(TRAIN, |app| step(app, None));
    }
    app.read_all();
    let stats = app.runtime.stats();
    assert_eq!((stats.recorded_iterations, stats.frozen_iterations), (0, 3));
    assert!(stats.recomputed > Bytes(0));
    assert_eq!(app.runtime.save_plan(TRAIN).unwrap(), file);
    // It was planned for a statistic that moves; the layers would change it twice.
    let mut pinned = super::replays::app(Config {
        budget: Some(Bytes((4 * LAYER + 40) * unit())),
        ..recompute()
    });
    pinned.runtime.pin(pinned.kept[1]).unwrap();
    let error = pinned.runtime.load_plan(TRAIN, &file).unwrap_err();
    assert!(
        error.to_string().contains("different iterations"),
        "{error}"
    );
}

/// An op that counts how often it runs, another whose statistic has an influence, and two that are
/// as they say.
#[test]
fn ops_that_leave_other_bits_are_found_and_named() {
    let mut runtime = crate::live::Runtime::new(Config {
        check_replays: true,
        ..recompute()
    })
    .unwrap();
    let mut count = 0_u8;
    let compute = |kind: usize, count: &mut u8, op: &mut Op<'_>| {
        let [mut made, mut statistic] = op.views();
        let value = match kind {
            0 => {
                *count += 1;
                *count
            }
            1 => statistic.bytes()[0],
            _ => 7,
        };
        made.bytes_mut().fill(value);
        statistic.bytes_mut()[0] = statistic.bytes()[0].wrapping_add(1);
    };
    let mut again = 100;
    runtime.set_replayer(move |[kind, _], op| {
        compute(kind, &mut again, op);
        Ok(())
    });
    let desc = TensorDesc::new("statistic", Bytes(600), TensorKind::Buffer);
    let statistic = runtime.create(&desc).unwrap();
    let made = TensorDesc::new("made", Bytes(LAYER * unit()), TensorKind::Activation);
    for _ in 0..4 {
        runtime.iteration_begin(TRAIN).unwrap();
        for (kind, name) in ["counts", "depends", "is sound"].into_iter().enumerate() {
            let made = runtime.create(&made).unwrap();
            let accesses = [Access::write(made), Access::read_write(statistic)];
            let ran = runtime.op_replayable(name, &accesses, [kind, 0], |op| {
                compute(kind, &mut count, op);
            });
            ran.unwrap();
            runtime.destroy(made).unwrap();
        }
        runtime.iteration_end().unwrap();
    }
    assert_eq!(runtime.programs()[0].excluded, ["counts", "depends"]);
    assert_eq!(runtime.stats().frozen_iterations, 2);
    let mut byte = [0];
    runtime.read(statistic, 0, &mut byte).unwrap();
    assert_eq!(byte, [12], "checks change nothing");
}

/// A tensor that stays in the arena is not in the plan: an op that reads it may run again, and so
/// may one that changes it, which is put back then.
#[test]
fn ops_run_again_beside_tensors_that_stay() {
    let mut app = app(Config {
        budget: Some(Bytes((4 * LAYER + 28) * unit())),
        ..recompute()
    });
    let weight = app.kept[0];
    app.runtime.pin(weight).unwrap();
    for _ in 0..5 {
        app.iteration(TRAIN, |app| step(app, None));
    }
    app.iteration(TRAIN, |app| step(app, Some(14)));
    app.read_all();
    let stats = app.runtime.stats();
    assert!(stats.recomputed > Bytes(0), "{:?}", app.runtime.programs());
    assert!(app.runtime.divergences()[0].lost.is_empty());
    let statistic = app.kept[1];
    app.runtime.pin(statistic).unwrap();
    let before = app.replays.done.load(std::sync::atomic::Ordering::Relaxed);
    for _ in 0..4 {
        app.iteration(TRAIN, |app| step(app, None));
    }
    app.read_all();
    let after = app.replays.done.load(std::sync::atomic::Ordering::Relaxed);
    assert!(after > before, "every layer changes the statistic");
}
