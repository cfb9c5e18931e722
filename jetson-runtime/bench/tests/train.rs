//! Real training under a budget is, to the bit, training without one.

mod support;

use jetson_runtime::{Config, ProgramKey, Spill};
use lgm::planner::Methods;
use lgm::policy::Policy;
use lgm::profile::Link;
use support::Folder;
use vtensor::Bytes;
use vtensor_bench::train::budget::TrainBudget;
use vtensor_bench::train::course::Course;
use vtensor_bench::train::data::{Dataset, digits, generated};
use vtensor_bench::train::kernels::sgd::Sgd;
use vtensor_bench::train::model::{Network, zoo};
use vtensor_bench::train::run::{Outcome, Task};
use vtensor_bench::train::step::Batch;
use vtensor_bench::train::trainer::{Done, EVALUATION, ODD_BATCH, TRAINING, Trainer};
use vtensor_bench::value::BudgetArg;

const POLICIES: [Policy; 3] = [Policy::Lru, Policy::Whole, Policy::Vtensor];
const HALF: TrainBudget = TrainBudget::Given(BudgetArg::Percent(50.0));

/// The first images of a dataset: an epoch takes no time.
fn some(data: &Dataset, train: usize, test: usize) -> Dataset {
    let first = |count: usize| (0..count).collect::<Vec<_>>();
    Dataset::new(
        data.name,
        data.shape,
        data.classes,
        data.train.select(&first(train)),
        data.test.select(&first(test)),
    )
}

fn task(network: fn(vtensor_bench::train::model::Shape, usize) -> Network, data: Dataset) -> Task {
    Task {
        network: network(data.shape, data.classes),
        course: Course {
            images: data.train.len(),
            batch: 48,
            steps: 25,
            learning_rate: 0.05,
            seed: 7,
        },
        data,
        seed: 7,
        load: None,
        methods: Methods::Swap,
        check_replays: false,
        spill: Spill::Ram,
        storage: jetson_runtime::StorageOptions::default(),
        keep: None,
        written_per_day_max: None,
        link: None,
        watch_process: false,
    }
}

/// Four full batches and an odd one in each of five epochs.
fn small() -> Task {
    task(zoo::digits, some(&digits::digits(), 200, 60))
}

fn run(task: &Task, policy: Policy, budget: Option<Bytes>) -> (Trainer, Outcome) {
    let done = task.run(policy, budget, &|| ());
    done.unwrap_or_else(|error| panic!("{policy} in {budget:?}: {error}"))
}

/// Trains without a limit, and then by every policy under the budget; returns the outcomes.
fn same_under(task: &Task, budget: TrainBudget) -> Vec<Outcome> {
    let (trainer, reference) = run(task, Policy::None, None);
    let traces = Task::traces(&trainer).expect("recorded");
    let under = POLICIES.map(|policy| {
        let bytes = budget.resolve(&traces, &task.config(policy, None));
        assert!(bytes < reference.peak, "{policy}: {bytes} is a limit");
        let (_, outcome) = run(task, policy, Some(bytes));
        let what = format!("{policy} in {bytes}, {:?}", task.spill);
        assert!(outcome.results == reference.results, "{what}: not the same");
        assert!(outcome.held.arena <= bytes, "{what}: {:?}", outcome.held);
        assert!(outcome.moved.iter().all(|moved| moved.0 > 0), "{what}");
        outcome
    });
    under.into()
}

#[test]
fn digits_are_the_same_in_half_of_the_memory_and_in_the_least() {
    let folder = Folder::new();
    for spill in [Spill::Ram, Spill::File(folder.0.clone())] {
        let task = Task { spill, ..small() };
        for outcome in same_under(&task, HALF) {
            assert!(outcome.refusals.is_empty(), "{:?}", outcome.refusals);
            assert!(outcome.predicted.is_some() && !outcome.steps_took.is_empty());
            let to_file = task.spill != Spill::Ram;
            assert_eq!(
                outcome.kept > Bytes(0),
                to_file,
                "a model is kept beside a file"
            );
            assert_eq!(outcome.written.is_some(), to_file);
            assert_eq!(outcome.predicted_unkept.is_some(), to_file);
        }
        same_under(&task, TrainBudget::Min);
        assert_eq!(folder.entries(), 0, "nothing is left behind");
    }
}

#[test]
fn resnet20_is_the_same_in_half_of_the_memory_and_in_the_least() {
    let mut task = task(zoo::resnet20, some(&generated::generated(), 30, 6));
    task.course.batch = 6;
    task.course.steps = 10;
    same_under(&task, HALF);
    same_under(&task, TrainBudget::Min);
}

/// In half of the memory, and in the least in which moving alone has a plan, results are the same
/// if ops may run again. The link is slow, so that they do where there is room for it.
fn same_when_ops_run_again(task: Task) {
    let (trainer, reference) = run(&task, Policy::None, None);
    let traces = Task::traces(&trainer).expect("recorded");
    let least = TrainBudget::Min.resolve(&traces, &task.config(Policy::Vtensor, None));
    let half = Bytes(reference.peak.0 / 2);
    assert!(least < half, "{least} is a limit");
    for (methods, budget) in [Methods::Swap, Methods::Both]
        .into_iter()
        .flat_map(|methods| [(methods, least), (methods, half)])
    {
        let link = Link {
            out_bps: 5e7,
            in_bps: 5e7,
            copy_latency_ns: 20_000,
            duplex: true,
        };
        let task = Task {
            methods,
            // None is left out: all that run again leave the same bits.
            check_replays: methods == Methods::Both,
            link: Some(link),
            network: task.network.clone(),
            data: task.data.clone(),
            spill: task.spill.clone(),
            load: None,
            ..task
        };
        let (_, outcome) = run(&task, Policy::Vtensor, Some(budget));
        let what = format!("{methods} in {budget}");
        assert!(outcome.results == reference.results, "{what}");
        assert!(outcome.held.arena <= budget, "{what}: {:?}", outcome.held);
        assert!(outcome.refusals.is_empty(), "{:?}", outcome.refusals);
        match (methods, budget == half) {
            (Methods::Swap, _) => assert_eq!(outcome.recomputed, Bytes(0), "{what}"),
            (_, true) => assert!(outcome.recomputed > Bytes(0), "{what}"),
            (_, false) => {}
        }
    }
}

#[test]
fn digits_are_the_same_when_ops_run_again() {
    same_when_ops_run_again(small());
}

#[test]
fn resnet20_is_the_same_when_ops_run_again() {
    let mut task = task(zoo::resnet20, some(&generated::generated(), 30, 6));
    task.course.batch = 6;
    task.course.steps = 10;
    same_when_ops_run_again(task);
}

#[test]
fn digits_are_learnt_in_half_of_the_memory() {
    let mut task = task(zoo::digits, digits::digits());
    task.course.batch = 128;
    task.course.steps = 48;
    let (_, reference) = run(&task, Policy::None, None);
    let budget = HALF.resolve(&[], &Config::default());
    assert_eq!(budget, Bytes(0), "a share of nothing");
    let budget = Bytes(reference.peak.0 / 2);
    let (trainer, outcome) = run(&task, Policy::Vtensor, Some(budget));
    assert!(outcome.results == reference.results);
    let right = outcome.results.correct.last().copied().unwrap_or_default();
    assert!(right * 100 >= 95 * 360, "{right} of 360");
    let programs = trainer.runtime().programs();
    let keys: Vec<ProgramKey> = programs.iter().map(|program| program.key).collect();
    assert_eq!(keys, [TRAINING, ODD_BATCH, EVALUATION]);
    assert!(
        programs.iter().all(|program| program.frozen),
        "{programs:?}"
    );
}

/// A step with the images at `places`, and as far as `learning_rate` goes.
fn step(
    trainer: &mut Trainer,
    data: &Dataset,
    key: ProgramKey,
    places: std::ops::Range<u32>,
    learning_rate: f32,
) -> Done {
    let sgd = Sgd {
        learning_rate,
        momentum: 0.9,
        weight_decay: 0.0,
    };
    let places: Vec<u32> = places.collect();
    let images = &data.train;
    let batch = Batch {
        data,
        images,
        places: &places,
    };
    trainer.train(key, batch, sgd).expect("it trains")
}

/// Runs `script` without a limit and under each policy in half of the memory; what it returns, and
/// what lasts, must be equal. Returns the last trainer.
fn same_for(network: &Network, script: &dyn Fn(&mut Trainer) -> Vec<u32>) -> Trainer {
    let start = |policy, budget| {
        let config = Config {
            budget,
            policy,
            ..Config::default()
        };
        Trainer::new(config, network.clone(), 3).expect("a trainer")
    };
    let mut last = start(Policy::None, None);
    let expected = (script(&mut last), last.digest().expect("readable"));
    let traces = Task::traces(&last).expect("recorded");
    for policy in POLICIES {
        let budget = HALF.resolve(&traces, &Config::default());
        last = start(policy, Some(budget));
        let found = (script(&mut last), last.digest().expect("readable"));
        assert!(found == expected, "{policy} in {budget}: not the same");
        assert!(last.runtime().stats().frozen_iterations > 0, "{policy}");
    }
    last
}

#[test]
fn what_happens_between_steps_makes_no_difference() {
    let data = some(&digits::digits(), 200, 60);
    let network = zoo::digits(data.shape, data.classes);
    let script = |trainer: &mut Trainer| {
        let mut seen = Vec::new();
        for epoch in 0..6_u32 {
            let rate = if epoch < 4 { 0.05 } else { 0.005 };
            for first in [0, 48, 96] {
                let done = step(trainer, &data, TRAINING, first..first + 48, rate);
                seen.push(done.metrics.loss.to_bits());
                // A parameter is read and changed, in the middle of frozen training too.
                let (model, runtime) = trainer.parts();
                let kept = model.state.model().nth(4).expect("a parameter").clone();
                let mut numbers = kept.read(runtime).expect("readable");
                seen.push(numbers[1].to_bits());
                numbers.iter_mut().for_each(|number| *number *= 0.99);
                kept.write(runtime, &numbers).expect("writable");
            }
            let odd = step(trainer, &data, ODD_BATCH, 144..150, rate);
            seen.push(odd.metrics.loss.to_bits());
            let places: Vec<u32> = (0..60).collect();
            let images = &data.test;
            let batch = Batch {
                data: &data,
                images,
                places: &places,
            };
            let done = trainer.evaluate(batch).expect("it evaluates");
            seen.push(done.metrics.correct);
        }
        seen
    };
    let trainer = same_for(&network, &script);
    assert_eq!(trainer.runtime().stats().divergences, 0);
}

#[test]
fn a_step_that_changes_is_reported_and_recorded_anew() {
    let data = some(&digits::digits(), 200, 60);
    let network = zoo::digits(data.shape, data.classes);
    let script = |trainer: &mut Trainer| {
        // The batch grows under the same key, which is another iteration to the runtime.
        let batches = [32, 32, 32, 32, 32, 32, 48, 48, 48, 48, 48, 48];
        let losses = batches.map(|images| {
            let done = step(trainer, &data, TRAINING, 0..images, 0.05);
            done.metrics.loss.to_bits()
        });
        losses.to_vec()
    };
    let trainer = same_for(&network, &script);
    let runtime = trainer.runtime();
    let [divergence] = runtime.divergences() else {
        panic!("one change: {:?}", runtime.divergences());
    };
    let text = divergence.to_string();
    for wanted in [
        "iteration 6 of key 1",
        "images",
        "a new program will be recorded",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in: {text}");
    }
    assert!(divergence.lost.is_empty(), "{text}");
    assert_eq!(runtime.programs().len(), 1);
    assert!(runtime.programs()[0].frozen, "the new step has a program");
}

#[test]
fn a_step_goes_down_the_gradient() {
    const RATE: f32 = 1e-3;
    for (network, data) in [
        (zoo::digits as fn(_, _) -> _, some(&digits::digits(), 32, 1)),
        (zoo::resnet20, some(&generated::generated(), 8, 1)),
    ] {
        let network = network(data.shape, data.classes);
        let mut trainer = Trainer::new(Config::default(), network, 5).expect("a trainer");
        let parameters = |trainer: &mut Trainer| -> Vec<f32> {
            let (model, runtime) = trainer.parts();
            let all = model.state.parameters();
            all.flat_map(|kept| kept.read(runtime).expect("readable"))
                .collect()
        };
        let images = 0..u32::try_from(data.train.len()).expect("few");
        let mut before = parameters(&mut trainer);
        let loss = step(&mut trainer, &data, TRAINING, images.clone(), RATE)
            .metrics
            .loss;
        for (before, after) in before.iter_mut().zip(parameters(&mut trainer)) {
            *before -= after;
        }
        let way: f64 = before.iter().map(|way| f64::from(*way).powi(2)).sum();
        let expected = way / f64::from(RATE);
        let found = f64::from(
            loss - step(&mut trainer, &data, TRAINING, images, 0.0)
                .metrics
                .loss,
        );
        assert!(expected > 1e-4, "{expected}");
        assert!(
            (found / expected - 1.0).abs() < 0.1,
            "the loss fell by {found}, the gradient says {expected}"
        );
    }
}
