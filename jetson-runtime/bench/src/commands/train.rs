//! `train`: real training inside too little memory, by several policies.

use lgm::policy::Policy;
use lgm::profile::Link;

use crate::args::{ModelArg, TrainArgs};
use crate::commands::Answer;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::report::to_json;
use crate::train::course::Course;
use crate::train::data::{Dataset, cifar, digits, generated};
use crate::train::model::{Network, zoo};
use crate::train::rounds::Plan;
use crate::train::run::Task;
use crate::train::table::table;

/// What each copy takes on a slow link beside its bytes.
const LINK_LATENCY_NS: u64 = 20_000;

/// What a model is trained with unless something else is asked for.
struct Defaults {
    network: fn(crate::train::model::Shape, usize) -> Network,
    batch: u32,
    learning_rate: f32,
    /// Steps for so many images.
    steps: fn(usize) -> usize,
}

const DIGITS: Defaults = Defaults {
    network: zoo::digits,
    batch: 128,
    learning_rate: 0.05,
    steps: |of_epoch| 10 * of_epoch,
};
const RESNET20: Defaults = Defaults {
    network: zoo::resnet20,
    batch: 64,
    learning_rate: 0.05,
    steps: |_| 32,
};

pub(super) fn run(args: &TrainArgs, json: bool) -> Result<Answer, BenchError> {
    let task = task(args)?;
    let plan = Plan {
        policies: {
            let mut policies = args.policy.0.clone();
            policies.retain(|policy| *policy != Policy::None);
            policies
        },
        budget: args.budget,
        repeats: args.repeat.get(),
        save: args.save.as_deref(),
    };
    let steps = plan.runs() * task.course.steps;
    let bar = Progress::new("training", steps as u64, !json);
    let report = plan.run(&task, &|| bar.advance())?;
    drop(bar);
    let text = if json {
        to_json(&report)
    } else {
        table(&task, args.budget, &report)
    };
    let good = report.runs.iter().all(|run| run.bit_identical);
    Ok(Answer { text, good })
}

fn task(args: &TrainArgs) -> Result<Task, BenchError> {
    let defaults = match args.model {
        ModelArg::Digits => DIGITS,
        ModelArg::Resnet20 => RESNET20,
    };
    let data = data(args)?;
    let batch = args.batch.map_or(defaults.batch, |batch| batch.get()) as usize;
    if batch > data.train.len() {
        let images = data.train.len();
        return Err(BenchError::FewImages { batch, images });
    }
    let of_epoch = data.train.len().div_ceil(batch);
    let steps = match (args.steps, args.epochs) {
        (Some(steps), _) => steps.get() as usize,
        (None, Some(epochs)) => epochs.get() as usize * of_epoch,
        (None, None) => (defaults.steps)(of_epoch),
    };
    Ok(Task {
        network: (defaults.network)(data.shape, data.classes),
        course: Course {
            images: data.train.len(),
            batch,
            steps,
            learning_rate: defaults.learning_rate,
            seed: args.seed,
        },
        data,
        seed: args.seed,
        load: args.load.clone(),
        methods: args.methods,
        check_replays: args.check_replays,
        spill: args.spill.tier(),
        storage: args.spill.storage(),
        keep: args.keep,
        written_per_day_max: args.max_write_gb_per_day,
        link: args.link_gbps.map(|gbps| Link {
            out_bps: gbps * 1e9,
            in_bps: gbps * 1e9,
            copy_latency_ns: LINK_LATENCY_NS,
            duplex: true,
        }),
        watch_process: true,
    })
}

fn data(args: &TrainArgs) -> Result<Dataset, BenchError> {
    match (args.model, &args.data) {
        (ModelArg::Digits, None) => Ok(digits::digits()),
        (ModelArg::Digits, Some(_)) => Err(BenchError::DataUnused),
        (ModelArg::Resnet20, Some(folder)) => Ok(cifar::cifar10(folder)?),
        (ModelArg::Resnet20, None) => Ok(generated::generated()),
    }
}
