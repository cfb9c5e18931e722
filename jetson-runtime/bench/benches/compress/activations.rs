//! What waits for the backward pass: the values of a network that has learnt for a while.
//!
//! In: a network, images, a course. Out: the values of one more batch, each made by the kernels of
//! a training step, and made again by them.

use std::collections::HashMap;

use jetson_runtime::{Config, RuntimeError};
use vtensor_bench::train::course::Course;
use vtensor_bench::train::data::Dataset;
use vtensor_bench::train::kernels::{batch_norm, elementwise, pool};
use vtensor_bench::train::model::{Kind, Layer, Network};
use vtensor_bench::train::step::Batch;
use vtensor_bench::train::trainer::{ODD_BATCH, TRAINING, Trainer};

/// Values of a batch, and what they follow from.
pub(crate) struct Activations {
    network: Network,
    weights: HashMap<String, Vec<f32>>,
    values: Vec<Vec<f32>>,
    space: Space,
}

/// What layers write beside a value.
struct Space {
    workspace: Vec<f32>,
    saved: Vec<f32>,
    mean: Vec<f32>,
    variance: Vec<f32>,
}

impl Activations {
    /// Trains without a limit, then makes the values of the first batch.
    pub(crate) fn after(
        network: Network,
        data: &Dataset,
        course: &Course,
    ) -> Result<Self, RuntimeError> {
        let mut trainer = Trainer::new(Config::default(), network.clone(), course.seed)?;
        let mut step = 0;
        for epoch in 0..course.epochs() {
            for places in course.epoch(epoch) {
                let full = places.len() == course.batch;
                let batch = Batch {
                    data,
                    images: &data.train,
                    places: &places,
                };
                let key = if full { TRAINING } else { ODD_BATCH };
                trainer.train(key, batch, course.sgd(step))?;
                step += 1;
            }
        }
        let (model, runtime) = trainer.parts();
        let weights = model.state.parameters().map(|kept| {
            let numbers = kept.read(runtime)?;
            Ok((kept.weights.name.clone(), numbers))
        });
        let weights = weights.collect::<Result<_, RuntimeError>>()?;
        let places = &course.epoch(0)[0];
        let mut pixels = vec![0.0; places.len() * data.shape.floats()];
        let mut labels = vec![0; places.len()];
        data.load(&data.train, places, &mut pixels, &mut labels);
        let mut activations = Self {
            space: Space::new(&network, places.len()),
            network,
            weights,
            values: vec![pixels],
        };
        for value in 1..activations.network.values.len() {
            let floats = places.len() * activations.network.values[value].floats();
            let mut output = vec![0.0; floats];
            activations.make(value, &mut output);
            activations.values.push(output);
        }
        Ok(activations)
    }

    /// The values that the backward pass reads.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> {
        let ends = self.network.ends_in_training();
        let waiting = ends.into_iter().skip(self.network.layers.len());
        waiting.flatten()
    }

    /// The content of a value.
    pub(crate) fn value(&self, value: usize) -> &[f32] {
        &self.values[value]
    }

    /// What makes a value.
    pub(crate) fn makers(&self, value: usize) -> &'static str {
        let kinds: Vec<_> = self.layers(value).map(|layer| layer.kind).collect();
        match &kinds[..] {
            [] => "images",
            [Kind::Convolution(_)] => "convolution",
            [Kind::BatchNorm(_), Kind::Relu] => "normalised, rectified",
            [Kind::BatchNorm(_), Kind::Shortcut { .. }, Kind::Relu] => "sum, rectified",
            [Kind::MaxPool(_)] => "largest of a window",
            _ => "other",
        }
    }

    fn layers(&self, value: usize) -> impl Iterator<Item = &Layer> {
        let layers = self.network.layers.iter();
        layers.filter(move |layer| layer.output == value)
    }

    /// Makes a value from earlier ones.
    pub(crate) fn make(&mut self, value: usize, output: &mut [f32]) {
        let layers = self.network.layers.iter();
        for layer in layers.filter(|layer| layer.output == value) {
            self.space.run(layer, &self.weights, &self.values, output);
        }
    }
}

impl Space {
    fn new(network: &Network, images: usize) -> Self {
        let convolutions = network.layers.iter().map(|layer| match layer.kind {
            Kind::Convolution(convolution) => convolution.workspace(images),
            _ => 0,
        });
        let workspace = convolutions.max().unwrap_or_default();
        let channels = network.values.iter().map(|shape| shape.channels).max();
        let channels = channels.expect("every network has images");
        Self {
            workspace: vec![0.0; workspace],
            saved: vec![0.0; 2 * channels],
            mean: vec![0.0; channels],
            variance: vec![0.0; channels],
        }
    }

    /// A layer's forward pass, as a training step runs it.
    fn run(
        &mut self,
        layer: &Layer,
        weights: &HashMap<String, Vec<f32>>,
        values: &[Vec<f32>],
        output: &mut [f32],
    ) {
        let weights = |what: &str| &weights[&format!("{}.{what}", layer.name)][..];
        // A layer in place reads what it writes.
        let input = values.get(layer.input).map_or(&[][..], |input| input);
        match layer.kind {
            Kind::Convolution(convolution) => {
                let space = &mut self.workspace;
                convolution.forward(input, weights("weight"), output, space);
            }
            Kind::BatchNorm(channels) => batch_norm::Forward {
                input,
                gamma: weights("weight"),
                beta: weights("bias"),
                output,
                saved: &mut self.saved[..2 * channels],
                mean: &mut self.mean[..channels],
                variance: &mut self.variance[..channels],
            }
            .run(),
            Kind::Relu => elementwise::relu_forward(output),
            Kind::Shortcut { from, shortcut } => shortcut.forward(&values[from], output),
            Kind::MaxPool(pool) => pool.forward(input, output),
            Kind::AveragePool(shape) => pool::average_forward(shape, input, output),
            Kind::Linear(linear) => {
                linear.forward(input, weights("weight"), weights("bias"), output);
            }
        }
    }
}
