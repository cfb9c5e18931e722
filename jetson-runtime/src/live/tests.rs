//! Live applications against a model that keeps every tensor in memory of its own.

mod app;
mod errors;
mod gpu;
mod keep;
mod kernels;
mod lost;
mod random;
mod replays;
mod saved;
mod windows;

use lgm::policy::Policy;
use vtensor::{Bytes, TensorKind};

use super::{Access, Config, ProgramKey, TensorDesc};
use crate::scale::system_page;
use crate::spill::Spill;
use crate::tests::disk;
use app::App;

/// What sizes are multiples of: a quarter of the machine's page, 1 KiB on most.
fn unit() -> u64 {
    system_page() / 4
}

fn config(budget: u64) -> Config {
    Config {
        budget: Some(Bytes(budget)),
        warmup: 2,
        ..Config::default()
    }
}

/// A small step: two layers forward and backward, an update, and a loss that the application reads.
fn step(app: &mut App, batch: u64) {
    let [weight, momentum, input, loss] = [0, 1, 2, 3].map(|at| app.kept[at]);
    let first = app.create("first", batch * 16 * unit());
    app.op(
        "forward 1",
        &[
            Access::read(input),
            Access::read(weight),
            Access::write(first),
        ],
    );
    let second = app.create("second", batch * 24 * unit());
    app.op("forward 2", &[Access::read(first), Access::write(second)]);
    app.op("loss", &[Access::read(second), Access::write(loss)]);
    let gradient = app.create("gradient", batch * 24 * unit());
    app.op(
        "backward 2",
        &[Access::read(second), Access::write(gradient)],
    );
    app.destroy(second);
    app.op(
        "backward 1",
        &[Access::read(first), Access::read_write(gradient)],
    );
    app.destroy(first);
    app.op(
        "update",
        &[
            Access::read(gradient),
            Access::read_write(momentum),
            Access::read_write(weight),
        ],
    );
    app.destroy(gradient);
}

fn evaluation(app: &mut App) {
    let [weight, _, input, loss] = [0, 1, 2, 3].map(|at| app.kept[at]);
    let only = app.create("only", 40 * unit());
    app.op(
        "infer",
        &[
            Access::read(input),
            Access::read(weight),
            Access::write(only),
        ],
    );
    app.op("score", &[Access::read(only), Access::read_write(loss)]);
    app.destroy(only);
}

/// An application with the tensors that outlive its steps.
fn app(config: Config) -> App {
    let mut app = App::new(config);
    for (name, bytes, kind) in [
        ("weight", 12 * unit() + 40, TensorKind::Parameter),
        ("momentum", 12 * unit() + 40, TensorKind::Optimizer),
        ("input", 8 * unit(), TensorKind::Input),
        ("loss", 4, TensorKind::Buffer),
    ] {
        app.create_kept(&TensorDesc::new(name, Bytes(bytes), kind));
    }
    app
}

const TRAIN: ProgramKey = ProgramKey(1);
const ODD: ProgramKey = ProgramKey(2);
const EVALUATE: ProgramKey = ProgramKey(3);

/// Epochs with an odd last batch and an evaluation, reads and writes in between.
fn train(app: &mut App, epochs: usize) {
    for _ in 0..epochs {
        for _ in 0..4 {
            app.write(2, 0, 8 * unit());
            app.iteration(TRAIN, |app| step(app, 2));
            app.read(3, 0, 4);
        }
        app.iteration(ODD, |app| step(app, 1));
        app.iteration(EVALUATE, evaluation);
        app.read_all();
        app.write(0, 100, 5000);
    }
}

#[test]
fn three_kinds_of_iterations_share_one_budget() {
    for policy in [Policy::Lru, Policy::Whole, Policy::Vtensor] {
        for spill in [Spill::Ram, Spill::File(disk())] {
            // A model that stays beside a spill file is not smaller where an op does not use it.
            let budget = match spill {
                Spill::Ram => 116 * unit(),
                Spill::File(_) => 132 * unit(),
            };
            let mut app = app(Config {
                policy,
                spill,
                ..config(budget)
            });
            train(&mut app, 6);
            let stats = app.runtime.stats();
            assert!(stats.frozen_iterations > 20, "{policy}: {stats:?}");
            assert!(
                stats.moved_out.0 > 0 && stats.moved_in.0 > 0,
                "{policy}: {stats:?}"
            );
            assert_eq!(
                stats.divergences,
                0,
                "{policy}: {:?}",
                app.runtime.divergences()
            );
            assert!(app.runtime.programs().iter().all(|p| p.frozen), "{policy}");
            let usage = app.runtime.usage().unwrap();
            assert_eq!(usage.arena_allocated, Bytes(budget), "{policy}");
        }
    }
}

#[test]
fn without_a_budget_nothing_moves_but_for_switches() {
    let mut app = app(Config {
        warmup: 2,
        ..Config::default()
    });
    for _ in 0..5 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    let stats = app.runtime.stats();
    assert_eq!(
        (stats.frozen_iterations, stats.switches),
        (3, 1),
        "{stats:?}"
    );
    let reports = app.runtime.programs();
    assert_eq!(reports[0].policy.as_deref(), Some("none"));
    assert_eq!(reports[0].moved, Some([Bytes(0); 2]));
    let (pages, page) = reports[0].arena.unwrap();
    let held = app.runtime.usage().unwrap().arena_allocated.0;
    assert_eq!(
        held,
        u64::from(pages) * page.0,
        "and no more is held than it needs"
    );
    app.read_all();
}

#[test]
fn addresses_repeat_whenever_a_program_runs() {
    let mut app = app(config(116 * unit()));
    train(&mut app, 3);
    let mut addresses = Vec::new();
    for _ in 0..3 {
        app.addresses.clear();
        app.iteration(TRAIN, |app| step(app, 2));
        addresses.push(app.addresses.clone());
        app.iteration(EVALUATE, evaluation);
    }
    assert!(
        addresses.iter().all(|seen| *seen == addresses[0]),
        "{addresses:?}"
    );
}

#[test]
fn another_sequence_goes_on_on_demand_and_is_recorded_anew() {
    let mut app = app(config(160 * unit()));
    for _ in 0..4 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
    let longer = |app: &mut App| {
        step(app, 2);
        app.op("clip", &[Access::read_write(app.kept[0])]);
    };
    app.iteration(TRAIN, longer);
    let [divergence] = app.runtime.divergences() else {
        panic!("{:?}", app.runtime.divergences());
    };
    assert_eq!(
        divergence.to_string(),
        "iteration 4 of key 1 left its recording at call 12: recorded was its end, found op \
         \"clip\" with 1 tensors; it went on on demand, and a new program will be recorded"
    );
    for _ in 0..4 {
        app.iteration(TRAIN, longer);
    }
    assert_eq!(
        app.runtime.stats().frozen_iterations,
        5,
        "a new program runs"
    );
    app.iteration(TRAIN, |app| step(app, 3));
    assert_eq!(app.runtime.stats().divergences, 2);
    app.read_all();
}

#[test]
fn an_aborted_iteration_keeps_what_was_written_and_the_program() {
    let mut app = app(config(116 * unit()));
    for _ in 0..3 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    app.runtime.iteration_begin(TRAIN).unwrap();
    step(&mut app, 2);
    app.runtime.iteration_abort().unwrap();
    app.read_all();
    assert_eq!(app.runtime.stats().aborted_iterations, 1);
    app.iteration(TRAIN, |app| step(app, 2));
    assert_eq!(
        app.runtime.stats().frozen_iterations,
        2,
        "the program was kept"
    );
    app.read_all();
}

#[test]
fn a_tensor_that_is_made_late_stays() {
    let mut app = app(config(116 * unit()));
    app.iteration(TRAIN, |app| {
        step(app, 2);
        let state = app.create("lazy state", 9 * unit());
        app.op("first use", &[Access::write(state)]);
        app.kept.push(state);
    });
    for _ in 0..4 {
        app.iteration(TRAIN, |app| {
            step(app, 2);
            app.op("use", &[Access::read_write(app.kept[4])]);
        });
    }
    assert_eq!(app.runtime.stats().frozen_iterations, 2);
    assert_eq!(app.runtime.stats().divergences, 0);
    app.read_all();
}

#[test]
fn tensors_come_and_go_between_iterations() {
    let mut app = app(config(116 * unit()));
    train(&mut app, 3);
    let extra = TensorDesc::new("extra", Bytes(300 * unit()), TensorKind::Buffer);
    app.create_kept(&extra);
    app.write(4, 1, 299 * unit());
    app.iteration(TRAIN, |app| step(app, 2));
    assert!(
        app.runtime.programs()[0].frozen,
        "a tensor that no op uses changes nothing"
    );
    app.read_all();
    let weight = app.kept[0];
    app.destroy_kept(0);
    assert!(app.runtime.programs().iter().all(|program| !program.frozen));
    assert!(app.runtime.read(weight, 0, &mut [0]).is_err());
    app.read_all();
    app.create_kept(&TensorDesc::new(
        "weight",
        Bytes(16 * unit()),
        TensorKind::Parameter,
    ));
    app.kept.rotate_right(1);
    for _ in 0..4 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    assert!(app.runtime.programs()[0].frozen);
    app.read_all();
}

#[test]
fn a_trace_of_what_was_recorded_can_be_planned_again() {
    let mut app = app(config(116 * unit()));
    app.iteration(TRAIN, |app| step(app, 2));
    let trace = app.runtime.trace(TRAIN).unwrap().unwrap();
    assert_eq!(trace.ops().len(), 6);
    let persistent = 2 * (12 * unit() + 40) + 8 * unit() + 4;
    assert_eq!(trace.persistent_bytes(), Bytes(persistent));
    assert_eq!(
        trace.peak_bytes(),
        Bytes(persistent + (32 + 48 + 48) * unit())
    );
    assert!(trace.compute_ns("host").unwrap() > 0);
    assert!(app.runtime.trace(EVALUATE).unwrap().is_none());
}

#[test]
fn scratch_is_forgotten_and_everything_else_is_kept() {
    let mut app = app(config(116 * unit()));
    let scratch = TensorDesc {
        scratch: true,
        ..TensorDesc::new("scratch", Bytes(40 * unit()), TensorKind::Workspace)
    };
    app.create_kept(&scratch);
    app.create_kept(&TensorDesc::new(
        "output",
        Bytes(40 * unit()),
        TensorKind::Buffer,
    ));
    for _ in 0..5 {
        app.iteration(TRAIN, |app| {
            step(app, 2);
            let [scratch, output] = [4, 5].map(|at| app.kept[at]);
            app.op("fill", &[Access::write(scratch)]);
            app.op("finish", &[Access::read(scratch), Access::write(output)]);
        });
        // The next iteration overwrites it, and still it is there.
        app.read(5, 0, 40 * unit());
    }
    assert!(app.runtime.stats().frozen_iterations > 2);
}
