//! What lasts from step to step: parameters, momenta, running statistics, and the numbers that a
//! step leaves behind. All of it is persistent memory of the runtime.

use jetson_runtime::{Runtime, RuntimeError, Tensor, TensorDesc};
use oorandom::Rand64;
use sha2::{Digest, Sha256};
use vtensor::{Bytes, TensorKind};

use crate::train::kernels::loss::Metrics;
use crate::train::model::{Network, Start, Weights};

/// Numbers that last, and where they are.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What they are.
    pub weights: Weights,
    pub(super) tensor: Tensor,
}

/// A parameter.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) kept: Kept,
    pub(super) momentum: Kept,
    /// What its gradient and its update are called.
    pub(super) gradient_name: String,
    pub(super) update_name: String,
}

/// What lasts, layer by layer.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) parameters: Vec<Vec<Parameter>>,
    pub(super) statistics: Vec<Vec<Kept>>,
    pub(super) metrics: Tensor,
}

impl State {
    /// Makes everything, with the parameters that `seed` draws.
    ///
    /// # Errors
    /// If the runtime refuses.
    pub fn new(runtime: &mut Runtime, network: &Network, seed: u64) -> Result<Self, RuntimeError> {
        let mut random = Rand64::new(seed.into());
        let (mut parameters, mut statistics) = (Vec::new(), Vec::new());
        for layer in &network.layers {
            let mut learnt = Vec::new();
            for weights in layer.parameters() {
                let momentum = Weights {
                    name: format!("{}.momentum", weights.name),
                    shape: weights.shape.clone(),
                    start: Start::Constant(0.0),
                };
                learnt.push(Parameter {
                    gradient_name: format!("{}.gradient", weights.name),
                    update_name: format!("{}.update", weights.name),
                    kept: create(runtime, weights, TensorKind::Parameter, &mut random)?,
                    momentum: create(runtime, momentum, TensorKind::Optimizer, &mut random)?,
                });
            }
            parameters.push(learnt);
            let mut counted = Vec::new();
            for weights in layer.statistics() {
                counted.push(create(runtime, weights, TensorKind::Buffer, &mut random)?);
            }
            statistics.push(counted);
        }
        let metrics = TensorDesc::new("metrics", Bytes(8), TensorKind::Buffer);
        let metrics = runtime.create(&metrics)?;
        Ok(Self {
            parameters,
            statistics,
            metrics,
        })
    }

    /// What is learnt.
    pub fn parameters(&self) -> impl Iterator<Item = &Kept> {
        self.parameters
            .iter()
            .flatten()
            .map(|parameter| &parameter.kept)
    }

    /// What makes up the model: parameters and running statistics.
    pub fn model(&self) -> impl Iterator<Item = &Kept> {
        self.parameters().chain(self.statistics.iter().flatten())
    }

    /// The SHA-256 of all numbers that last, momenta included.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn digest(&self, runtime: &mut Runtime) -> Result<[u8; 32], RuntimeError> {
        let momenta = self
            .parameters
            .iter()
            .flatten()
            .map(|parameter| &parameter.momentum);
        let mut hash = Sha256::new();
        for kept in self.model().chain(momenta) {
            hash.update(&kept.weights.name);
            hash.update(bytemuck::cast_slice::<f32, u8>(&kept.read(runtime)?));
        }
        Ok(hash.finalize().into())
    }

    /// What the last step came to.
    pub(crate) fn metrics(&self, runtime: &mut Runtime) -> Result<Metrics, RuntimeError> {
        let mut words = [0_u32; 2];
        runtime.read(self.metrics, 0, bytemuck::cast_slice_mut(&mut words))?;
        let [loss, correct] = words;
        let loss = f32::from_bits(loss);
        Ok(Metrics { loss, correct })
    }
}

impl Kept {
    /// Its numbers.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(&self, runtime: &mut Runtime) -> Result<Vec<f32>, RuntimeError> {
        let mut numbers = vec![0.0; self.weights.floats()];
        runtime.read(self.tensor, 0, bytemuck::cast_slice_mut(&mut numbers))?;
        Ok(numbers)
    }

    /// Overwrites its first numbers.
    ///
    /// # Errors
    /// If they are too many, or cannot be written.
    pub fn write(&self, runtime: &mut Runtime, numbers: &[f32]) -> Result<(), RuntimeError> {
        runtime.write(self.tensor, 0, bytemuck::cast_slice(numbers))
    }
}

fn create(
    runtime: &mut Runtime,
    weights: Weights,
    kind: TensorKind,
    random: &mut Rand64,
) -> Result<Kept, RuntimeError> {
    let start: Vec<f32> = (0..weights.floats())
        .map(|_| match weights.start {
            Start::Constant(value) => value,
            #[allow(clippy::cast_possible_truncation)]
            Start::Uniform(bound) => (random.rand_float() * 2.0 - 1.0) as f32 * bound,
        })
        .collect();
    let bytes: &[u8] = bytemuck::cast_slice(&start);
    let desc = TensorDesc::new(&weights.name, Bytes(bytes.len() as u64), kind);
    let tensor = runtime.create(&desc)?;
    runtime.write(tensor, 0, bytes)?;
    Ok(Kept { weights, tensor })
}
