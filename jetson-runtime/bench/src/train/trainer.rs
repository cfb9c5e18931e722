//! A model in training: whole iterations of the runtime, and what lies between them.
//!
//! In: batches. Out: what each came to. Guarantees: an iteration that fails is aborted, so what
//! lasts is as the ops before have left it, and can be read.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use jetson_runtime::{Config, ProgramKey, Runtime, RuntimeError};

use super::kernels::loss::Metrics;
use super::kernels::sgd::Sgd;
use super::model::Network;
use super::step::{Batch, Model, Step};

/// Steps with a full batch.
pub const TRAINING: ProgramKey = ProgramKey(1);
/// Steps with the batch that an epoch leaves over.
pub const ODD_BATCH: ProgramKey = ProgramKey(2);
/// Evaluations.
pub const EVALUATION: ProgramKey = ProgramKey(3);
/// Every kind of iteration.
pub const KEYS: [ProgramKey; 3] = [TRAINING, ODD_BATCH, EVALUATION];

/// A model in training.
pub struct Trainer {
    runtime: Runtime,
    model: Model,
    compute: Duration,
}

/// What an iteration came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// The batch.
    pub metrics: Metrics,
    /// How long the iteration took, from before its beginning until its metrics were read.
    pub took: Duration,
    /// What all threads of the process computed meanwhile.
    pub cpu: Duration,
    /// Whether a frozen program ran it.
    pub frozen: bool,
}

impl Trainer {
    /// A runtime with a model, whose parameters `seed` draws.
    ///
    /// # Errors
    /// If the runtime refuses.
    pub fn new(config: Config, network: Network, seed: u64) -> Result<Self, RuntimeError> {
        let mut runtime = Runtime::new(config)?;
        let model = Model::new(&mut runtime, network, seed)?;
        Ok(Self {
            runtime,
            model,
            compute: Duration::ZERO,
        })
    }

    /// A step of training, as an iteration of the kind `key`.
    ///
    /// # Errors
    /// If the runtime fails.
    pub fn train(
        &mut self,
        key: ProgramKey,
        batch: Batch<'_>,
        sgd: Sgd,
    ) -> Result<Done, RuntimeError> {
        self.iteration(key, |runtime, model| {
            Step::train(runtime, model, batch, sgd)
        })
    }

    /// A batch is evaluated.
    ///
    /// # Errors
    /// If the runtime fails.
    pub fn evaluate(&mut self, batch: Batch<'_>) -> Result<Done, RuntimeError> {
        self.iteration(EVALUATION, |runtime, model| {
            Step::evaluate(runtime, model, batch)
        })
    }

    fn iteration(
        &mut self,
        key: ProgramKey,
        body: impl FnOnce(&mut Runtime, &Model) -> Result<Duration, RuntimeError>,
    ) -> Result<Done, RuntimeError> {
        let cpu = cpu_time();
        let frozen_before = self.runtime.stats().frozen_iterations;
        let start = Instant::now();
        self.runtime.iteration_begin(key)?;
        match body(&mut self.runtime, &self.model) {
            Ok(compute) => self.compute += compute,
            Err(error) => {
                // The first error is the one to tell.
                let _ = self.runtime.iteration_abort();
                return Err(error);
            }
        }
        self.runtime.iteration_end()?;
        let metrics = self.model.state.metrics(&mut self.runtime)?;
        Ok(Done {
            metrics,
            took: start.elapsed(),
            cpu: cpu_time().saturating_sub(cpu),
            frozen: self.runtime.stats().frozen_iterations > frozen_before,
        })
    }

    /// The SHA-256 of parameters, momenta and running statistics.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn digest(&mut self) -> Result<[u8; 32], RuntimeError> {
        self.model.state.digest(&mut self.runtime)
    }

    /// The time in bodies of ops so far.
    #[must_use]
    pub const fn compute(&self) -> Duration {
        self.compute
    }

    /// The runtime, to ask it.
    #[must_use]
    pub const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The model and the runtime that holds it, to read and write between iterations.
    #[must_use]
    pub const fn parts(&mut self) -> (&Model, &mut Runtime) {
        (&self.model, &mut self.runtime)
    }
}

/// What all threads of this process have computed.
fn cpu_time() -> Duration {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
