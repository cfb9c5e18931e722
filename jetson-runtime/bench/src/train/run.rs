//! One training from the first step to the last evaluation, under one policy.
//!
//! In: a task, a policy, a budget. Out: every loss, the digest of what lasts, and what it cost.
//! Guarantees: more memory than the budget, by the arena's blocks or by the process's PSS, is an
//! error. Memory is measured between epochs, outside of what is timed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jetson_runtime::{Config, Spill, StorageOptions, Throttle, predict};
use lgm::planner::Methods;
use lgm::policy::Policy;
use lgm::profile::Link;
use lgm::trace::Trace;
use vtensor::{Bytes, Kinds};

use super::course::Course;
use super::data::order::even_batch;
use super::data::{Dataset, Images};
use super::model::Network;
use super::step::Batch;
use super::trainer::{Done, KEYS, ODD_BATCH, TRAINING, Trainer};
use super::weights;
use crate::error::BenchError;
use crate::watch::{ENGINES, Held, PLANNING_SLACK_BYTES, Watch};

/// What to train.
#[derive(Debug)]
pub struct Task {
    /// The network.
    pub network: Network,
    /// The images.
    pub data: Dataset,
    /// Which images when.
    pub course: Course,
    /// Draws the first parameters.
    pub seed: u64,
    /// A file with other first parameters.
    pub load: Option<PathBuf>,
    /// How room is made: see [`Config::methods`].
    pub methods: Methods,
    /// See [`Config::check_replays`].
    pub check_replays: bool,
    /// Where pieces go.
    pub spill: Spill,
    /// How a spill file is used.
    pub storage: StorageOptions,
    /// What never leaves memory; `None` is the runtime's default.
    pub keep: Option<Kinds>,
    /// What a spill file may be written in a day.
    pub written_per_day_max: Option<Bytes>,
    /// The link that copies are slowed down to.
    pub link: Option<Link>,
    /// Whether to check what the process holds. It must do nothing else meanwhile.
    pub watch_process: bool,
}

/// What a training came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The policy.
    pub policy: Policy,
    /// The budget; `None` is no limit.
    pub budget: Option<Bytes>,
    /// What must be the same under every policy.
    pub results: Results,
    /// How long frozen steps with a full batch took that followed another one.
    pub steps_took: Vec<Duration>,
    /// What all threads computed in each of them.
    pub steps_cpu: Vec<Duration>,
    /// How long the ops of such a step computed when they were recorded.
    pub step_compute: Option<Duration>,
    /// How long the link is busy with the copies of such a step, at its full speed.
    pub step_transfer: Option<Duration>,
    /// How long such a step takes, as the cost model says; `None` if none was frozen.
    pub predicted: Option<Duration>,
    /// Why a kind of iteration was not frozen.
    pub refusals: Vec<String>,
    /// Time in bodies of ops.
    pub compute: Duration,
    /// Time in which ops waited for copies.
    pub stall: Duration,
    /// From an empty runtime to the last evaluation.
    pub total: Duration,
    /// Bytes that left the arena, and that came back.
    pub moved: [Bytes; 2],
    /// Bytes that were computed again for an op that reads them.
    pub recomputed: Bytes,
    /// Time in ops that ran again.
    pub recompute: Duration,
    /// Memory of tensors that never left it.
    pub kept: Bytes,
    /// What a frozen step with a full batch writes to a spill file; `None` without one.
    pub written: Option<Bytes>,
    /// How long such a step would take if nothing were kept, as the cost model says; `None` if
    /// nothing is.
    pub predicted_unkept: Option<Duration>,
    /// Memory that was held, at most.
    pub held: Held,
    /// The largest peak of the recorded iterations.
    pub peak: Bytes,
}

/// What must be the same under every policy, to the bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    /// The bits of the loss of each step.
    pub losses: Vec<u32>,
    /// How many held-out images were right after each epoch.
    pub correct: Vec<u32>,
    /// The SHA-256 of parameters, momenta and running statistics.
    pub state: [u8; 32],
}

impl Task {
    /// The configuration of a runtime for it.
    #[must_use]
    pub fn config(&self, policy: Policy, budget: Option<Bytes>) -> Config {
        Config {
            budget,
            policy,
            methods: self.methods,
            check_replays: self.check_replays,
            spill: self.spill.clone(),
            storage: self.storage,
            keep: self.keep,
            written_per_day_max: self.written_per_day_max,
            throttle: self.link.as_ref().map(|link| Throttle::of(link, 1.0)),
            ..Config::default()
        }
    }

    /// What the process may hold beside arena and spill tier. A spill file has buffers for the
    /// engines of a program, for recording, and for reading and writing between iterations.
    fn slack(&self) -> u64 {
        let buffers = match self.spill {
            Spill::File(_) => (ENGINES + 2) * self.storage.buffer_bytes(),
            Spill::Ram => 0,
        };
        PLANNING_SLACK_BYTES + buffers
    }

    /// Trains. `advance` is called after each step. The trainer is still there then, to read from.
    ///
    /// # Errors
    /// If the runtime or a file fails, or the budget does not hold.
    pub fn run(
        &self,
        policy: Policy,
        budget: Option<Bytes>,
        advance: &dyn Fn(),
    ) -> Result<(Trainer, Outcome), BenchError> {
        let slack = self.watch_process.then(|| self.slack());
        let watch = Watch::new(&self.spill, slack)?;
        let start = Instant::now();
        let config = self.config(policy, budget);
        let mut trainer = Trainer::new(config, self.network.clone(), self.seed)?;
        if let Some(path) = &self.load {
            let (model, runtime) = trainer.parts();
            weights::load(path, model, runtime)?;
        }
        let mut run = Run {
            task: self,
            trainer,
            watch,
            losses: Vec::new(),
            correct: Vec::new(),
            steps_took: Vec::new(),
            steps_cpu: Vec::new(),
            watching: Duration::ZERO,
        };
        for epoch in 0..self.course.epochs() {
            run.epoch(epoch, advance)?;
        }
        let total = start.elapsed().saturating_sub(run.watching);
        run.outcome(policy, budget, total)
    }

    /// The recorded iterations of every kind.
    ///
    /// # Errors
    /// If one exceeds the limits of a trace.
    pub fn traces(trainer: &Trainer) -> Result<Vec<Trace>, BenchError> {
        let mut traces = Vec::new();
        for key in KEYS {
            traces.extend(trainer.runtime().trace(key)?);
        }
        Ok(traces)
    }
}

/// A training under way.
struct Run<'a> {
    task: &'a Task,
    trainer: Trainer,
    watch: Watch,
    losses: Vec<u32>,
    correct: Vec<u32>,
    steps_took: Vec<Duration>,
    steps_cpu: Vec<Duration>,
    /// Time that measuring memory took.
    watching: Duration,
}

impl Run<'_> {
    /// All steps of an epoch, and the evaluation after it.
    fn epoch(&mut self, epoch: usize, advance: &dyn Fn()) -> Result<(), BenchError> {
        let course = &self.task.course;
        // The first step of an epoch has a change of programs in it.
        let mut steady = false;
        for places in course.epoch(epoch) {
            let full = places.len() == course.batch;
            let key = if full { TRAINING } else { ODD_BATCH };
            let sgd = course.sgd(self.losses.len());
            let batch = self.batch(&self.task.data.train, &places);
            let done = self.trainer.train(key, batch, sgd)?;
            self.losses.push(done.metrics.loss.to_bits());
            if steady && full && done.frozen {
                self.steps_took.push(done.took);
                self.steps_cpu.push(done.cpu);
            }
            steady = full && done.frozen;
            advance();
        }
        self.look()?;
        self.evaluate()?;
        self.look()
    }

    fn evaluate(&mut self) -> Result<(), BenchError> {
        let test = &self.task.data.test;
        let places: Vec<u32> = (0..).take(test.len()).collect();
        let mut correct = 0;
        for places in places.chunks(even_batch(test.len(), self.task.course.batch)) {
            let batch = self.batch(test, places);
            let Done { metrics, .. } = self.trainer.evaluate(batch)?;
            correct += metrics.correct;
        }
        self.correct.push(correct);
        Ok(())
    }

    fn batch<'a>(&self, images: &'a Images, places: &'a [u32]) -> Batch<'a>
    where
        Self: 'a,
    {
        Batch {
            data: &self.task.data,
            images,
            places,
        }
    }

    /// Measures the memory that is held.
    fn look(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        let runtime = self.trainer.runtime();
        let steps = self.losses.len() as u64;
        self.watch
            .look(&runtime.usage()?, runtime.arena_bytes(), steps)?;
        self.watching += start.elapsed();
        Ok(())
    }

    fn outcome(
        mut self,
        policy: Policy,
        budget: Option<Bytes>,
        total: Duration,
    ) -> Result<(Trainer, Outcome), BenchError> {
        let results = Results {
            losses: self.losses,
            correct: self.correct,
            state: self.trainer.digest()?,
        };
        let stats = self.trainer.runtime().stats();
        let programs = self.trainer.runtime().programs();
        let training = programs.iter().find(|program| program.key == TRAINING);
        let refusals = programs.iter().filter_map(|program| {
            let why = program.refusal.as_ref()?;
            Some(format!(
                "iterations of kind {} run on demand: {why}",
                program.key
            ))
        });
        let traces = Task::traces(&self.trainer)?;
        let to_file = matches!(self.task.spill, Spill::File(_));
        let written = training.and_then(|program| program.moved);
        let unkept = || {
            let trace = self.trainer.runtime().trace(TRAINING).ok().flatten()?;
            let config = Config {
                keep: Some(Kinds::NONE),
                link: Some(self.trainer.runtime().link()),
                ..self.task.config(policy, budget)
            };
            predict(&trace, &config).ok().map(Duration::from_nanos)
        };
        let outcome = Outcome {
            policy,
            budget,
            results,
            steps_took: self.steps_took,
            steps_cpu: self.steps_cpu,
            step_compute: training
                .filter(|program| program.frozen)
                .map(|program| Duration::from_nanos(program.compute_ns)),
            step_transfer: training
                .and_then(|program| program.moved)
                .map(|moved| busy(&self.trainer.runtime().link(), moved)),
            predicted: training
                .and_then(|program| program.predicted_ns)
                .map(Duration::from_nanos),
            refusals: refusals.collect(),
            compute: self.trainer.compute(),
            stall: Duration::from_nanos(stats.stall_ns),
            total,
            moved: [stats.moved_out, stats.moved_in],
            recomputed: stats.recomputed,
            recompute: Duration::from_nanos(stats.recompute_ns),
            kept: stats.pinned,
            written: written.filter(|_| to_file).map(|[out, _]| out),
            predicted_unkept: (stats.pinned > Bytes(0)).then(unkept).flatten(),
            held: self.watch.held(),
            peak: traces
                .iter()
                .map(Trace::peak_bytes)
                .max()
                .unwrap_or_default(),
        };
        Ok((self.trainer, outcome))
    }
}

/// How long a link is busy with so many bytes out and in.
fn busy(link: &Link, [out, r#in]: [Bytes; 2]) -> Duration {
    let out_s = out.0 as f64 / link.out_bps;
    let in_s = r#in.0 as f64 / link.in_bps;
    let seconds = if link.duplex {
        out_s.max(in_s)
    } else {
        out_s + in_s
    };
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
