//! A training step, an evaluation: the ops and tensors of one iteration of the runtime.
//!
//! In: a network, what lasts, and a batch. Out: ops on memory of the runtime, whose bodies are the
//! [`kernels`](crate::train::kernels). Guarantees: every tensor of the step is the runtime's, the
//! batch, gradients and workspaces included; each is made just before its first use and destroyed
//! right after its last, in the same order in every iteration of a kind.
//!
//! *Not here*: which steps come when ([`trainer`](crate::train::trainer)).
//!
//! | module | noun |
//! |---|---|
//! | `state` | what lasts from step to step |
//! | `names` | what tensors and ops are called |
//! | `forward`, `backward` | the ops of layers |
//! | `optimizer` | the updates of parameters |

mod backward;
mod forward;
mod names;
mod optimizer;
mod state;

use std::time::{Duration, Instant};

use jetson_runtime::{Access, Runtime, RuntimeError, Tensor, TensorDesc, View};
use lgm::trace::Phase;
use vtensor::{Bytes, TensorKind};

use crate::train::data::{Dataset, Images};
use crate::train::kernels::loss::{self, Metrics};
use crate::train::kernels::sgd::Sgd;
use crate::train::model::Network;
use names::Names;
pub use state::{Kept, State};

/// A network with what lasts of it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The network.
    pub network: Network,
    /// What lasts.
    pub state: State,
    names: Vec<Names>,
    gradient_names: Vec<String>,
    ends_in_training: Vec<Vec<usize>>,
    ends_in_evaluation: Vec<Vec<usize>>,
}

impl Model {
    /// Makes what lasts, with the parameters that `seed` draws. The runtime can run the forward ops
    /// of layers again from now on.
    ///
    /// # Errors
    /// If the runtime refuses.
    pub fn new(runtime: &mut Runtime, network: Network, seed: u64) -> Result<Self, RuntimeError> {
        let layers = network.layers.clone();
        runtime.set_replayer(move |[layer, _], op| {
            forward::compute(&layers[layer], op);
            Ok(())
        });
        let gradient_names = network.value_names.iter();
        Ok(Self {
            state: State::new(runtime, &network, seed)?,
            names: network.layers.iter().map(Names::new).collect(),
            gradient_names: gradient_names
                .map(|name| format!("{name}.gradient"))
                .collect(),
            ends_in_training: network.ends_in_training(),
            ends_in_evaluation: network.ends_in_evaluation(),
            network,
        })
    }
}

/// Which images of a dataset.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The dataset.
    pub data: &'a Dataset,
    /// Its part.
    pub images: &'a Images,
    /// Which of these.
    pub places: &'a [u32],
}

/// An open iteration.
pub(crate) struct Step<'a> {
    runtime: &'a mut Runtime,
    model: &'a Model,
    images: usize,
    /// The tensors of the network's values, where they exist now.
    values: Vec<Option<Tensor>>,
    labels: Tensor,
    /// The gradients of the values.
    gradients: Vec<Option<Tensor>>,
    /// What layers keep for their backward pass.
    saved: Vec<Option<Tensor>>,
    /// The gradients of each layer's parameters.
    parameter_gradients: Vec<Vec<Tensor>>,
    /// Time in bodies of ops.
    compute: Duration,
}

impl<'a> Step<'a> {
    /// The first op: the batch arrives.
    fn load(
        runtime: &'a mut Runtime,
        model: &'a Model,
        batch: Batch<'_>,
    ) -> Result<Self, RuntimeError> {
        let (network, images) = (&model.network, batch.places.len());
        let bytes = images * network.values[0].floats() * size_of::<f32>();
        let name = &network.value_names[0];
        let pixels = runtime.create(&TensorDesc::new(
            name,
            Bytes(bytes as u64),
            TensorKind::Input,
        ))?;
        let bytes = Bytes((images * size_of::<u32>()) as u64);
        let labels = runtime.create(&TensorDesc::new("labels", bytes, TensorKind::Input))?;
        let mut step = Step {
            runtime,
            model,
            images,
            values: vec![None; network.values.len()],
            labels,
            gradients: vec![None; network.values.len()],
            saved: vec![None; network.layers.len()],
            parameter_gradients: vec![Vec::new(); network.layers.len()],
            compute: Duration::ZERO,
        };
        step.values[0] = Some(pixels);
        step.runtime.phase(Phase::Load);
        let accesses = [Access::write(pixels), Access::write(labels)];
        step.op("load", accesses, |[pixels, labels]| {
            let labels = bytemuck::cast_slice_mut(labels.into_bytes_mut());
            batch
                .data
                .load(batch.images, batch.places, floats_mut(pixels), labels);
        })?;
        Ok(step)
    }

    /// One step of training. Returns the time in bodies of ops.
    pub(crate) fn train(
        runtime: &'a mut Runtime,
        model: &'a Model,
        batch: Batch<'_>,
        sgd: Sgd,
    ) -> Result<Duration, RuntimeError> {
        let mut step = Self::load(runtime, model, batch)?;
        let layers = model.network.layers.len();
        step.runtime.phase(Phase::Forward);
        for layer in 0..layers {
            step.forward(layer)?;
            step.end(&model.ends_in_training[layer])?;
        }
        step.score()?;
        step.runtime.phase(Phase::Backward);
        step.backward_of_loss()?;
        for layer in (0..layers).rev() {
            step.backward(layer)?;
            step.end(&model.ends_in_training[2 * layers - 1 - layer])?;
        }
        step.runtime.phase(Phase::Optimizer);
        step.update(sgd)?;
        Ok(step.compute)
    }

    /// A batch is evaluated. Returns the time in bodies of ops.
    pub(crate) fn evaluate(
        runtime: &'a mut Runtime,
        model: &'a Model,
        batch: Batch<'_>,
    ) -> Result<Duration, RuntimeError> {
        let mut step = Self::load(runtime, model, batch)?;
        step.runtime.phase(Phase::Forward);
        for layer in 0..model.network.layers.len() {
            step.evaluate_layer(layer)?;
            step.end(&model.ends_in_evaluation[layer])?;
        }
        step.score()?;
        let logits = step.values[model.network.last()].take();
        step.destroy(logits)?;
        let labels = step.labels;
        step.destroy(Some(labels))?;
        Ok(step.compute)
    }

    /// Logits become probabilities, and the step's metrics are written down.
    fn score(&mut self) -> Result<(), RuntimeError> {
        let logits = self.value(self.model.network.last());
        let accesses = [
            Access::read_write(logits),
            Access::read(self.labels),
            Access::write(self.model.state.metrics),
        ];
        self.op("loss.forward", accesses, |[logits, labels, metrics]| {
            let labels = bytemuck::cast_slice(labels.into_bytes());
            let Metrics { loss, correct } = loss::forward(labels, floats_mut(logits));
            let words: &mut [u32] = bytemuck::cast_slice_mut(metrics.into_bytes_mut());
            words.copy_from_slice(&[loss.to_bits(), correct]);
        })
    }

    /// Probabilities become the gradient of the logits, in place.
    fn backward_of_loss(&mut self) -> Result<(), RuntimeError> {
        let logits = self.model.network.last();
        let accesses = [
            Access::read_write(self.value(logits)),
            Access::read(self.labels),
        ];
        self.op("loss.backward", accesses, |[rows, labels]| {
            loss::backward(bytemuck::cast_slice(labels.into_bytes()), floats_mut(rows));
        })?;
        self.gradients[logits] = self.values[logits].take();
        let labels = self.labels;
        self.destroy(Some(labels))
    }

    /// Destroys values.
    fn end(&mut self, values: &[usize]) -> Result<(), RuntimeError> {
        for &value in values {
            let tensor = self.values[value].take();
            self.destroy(tensor)?;
        }
        Ok(())
    }

    fn value(&self, value: usize) -> Tensor {
        self.values[value].expect("the network's order makes values before they are read")
    }

    /// Makes the tensor of a value.
    fn create_value(&mut self, value: usize) -> Result<Tensor, RuntimeError> {
        let network = &self.model.network;
        let floats = self.images * network.values[value].floats();
        let tensor = self.create(&network.value_names[value], floats, TensorKind::Activation)?;
        self.values[value] = Some(tensor);
        Ok(tensor)
    }

    fn create(
        &mut self,
        name: &str,
        floats: usize,
        kind: TensorKind,
    ) -> Result<Tensor, RuntimeError> {
        let bytes = Bytes((floats * size_of::<f32>()) as u64);
        self.runtime.create(&TensorDesc::new(name, bytes, kind))
    }

    fn destroy(&mut self, tensor: Option<Tensor>) -> Result<(), RuntimeError> {
        match tensor {
            Some(tensor) => self.runtime.destroy(tensor),
            None => Ok(()),
        }
    }

    /// Runs an op and counts the time of its body.
    fn op<const N: usize>(
        &mut self,
        name: &str,
        accesses: [Access; N],
        body: impl FnOnce([View<'_>; N]),
    ) -> Result<(), RuntimeError> {
        let compute = &mut self.compute;
        self.runtime.op(name, &accesses, |op| {
            let start = Instant::now();
            body(op.views());
            *compute += start.elapsed();
        })
    }
}

/// A tensor as numbers.
fn floats(view: View<'_>) -> &[f32] {
    bytemuck::cast_slice(view.into_bytes())
}

/// A tensor as numbers, to write.
fn floats_mut(view: View<'_>) -> &mut [f32] {
    bytemuck::cast_slice_mut(view.into_bytes_mut())
}
