//! One layer: what it computes, what it learns, what it needs again.

use crate::train::kernels::Convolution;
use crate::train::kernels::elementwise::Shortcut;
use crate::train::kernels::linear::Linear;
use crate::train::kernels::pool::MaxPool;
use crate::train::model::Shape;

/// What a layer computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A convolution without a bias.
    Convolution(Convolution),
    /// Normalisation of so many channels.
    BatchNorm(usize),
    /// The rectifier, in place.
    Relu,
    /// The largest number of each window.
    MaxPool(MaxPool),
    /// The mean of an image of that shape.
    AveragePool(Shape),
    /// A linear layer with a bias.
    Linear(Linear),
    /// Another value is added, in place.
    Shortcut {
        /// Which.
        from: usize,
        /// How it fits.
        shortcut: Shortcut,
    },
}

/// A layer of a network. Values are numbers of the network's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// What it computes.
    pub kind: Kind,
    /// The value that it reads.
    pub input: usize,
    /// The value that it writes; the same where it works in place.
    pub output: usize,
}

/// Numbers of a model that last: a parameter, or a statistic.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The layer's name and what they are.
    pub name: String,
    /// Their shape, the last dimension side by side.
    pub shape: Vec<usize>,
    /// What they begin with.
    pub start: Start,
}

/// What weights begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Drawn evenly between plus and minus this.
    Uniform(f32),
    /// All the same.
    Constant(f32),
}

impl Weights {
    /// How many numbers.
    #[must_use]
    pub fn floats(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Layer {
    /// What it learns. Bounds of convolutions are those of He et al. for rectifiers: the variance
    /// of a sum of `inputs` products stays that of one input. Linear layers, after which nothing
    /// is normalised, begin smaller: the first loss is then near that of a guess.
    #[must_use]
    pub fn parameters(&self) -> Vec<Weights> {
        let uniform = |gain: f32, inputs: usize| Start::Uniform((gain / inputs as f32).sqrt());
        match self.kind {
            Kind::Convolution(Convolution {
                input,
                channels,
                kernel,
                ..
            }) => {
                let inputs = kernel * kernel * input.channels;
                let shape = vec![channels, kernel, kernel, input.channels];
                vec![self.weights("weight", shape, uniform(6.0, inputs))]
            }
            Kind::BatchNorm(channels) => vec![
                self.weights("weight", vec![channels], Start::Constant(1.0)),
                self.weights("bias", vec![channels], Start::Constant(0.0)),
            ],
            Kind::Linear(Linear { inputs, outputs }) => vec![
                self.weights("weight", vec![outputs, inputs], uniform(1.0, inputs)),
                self.weights("bias", vec![outputs], Start::Constant(0.0)),
            ],
            Kind::Relu | Kind::MaxPool(_) | Kind::AveragePool(_) | Kind::Shortcut { .. } => {
                Vec::new()
            }
        }
    }

    /// What it counts: running means and variances.
    #[must_use]
    pub fn statistics(&self) -> Vec<Weights> {
        match self.kind {
            Kind::BatchNorm(channels) => vec![
                self.weights("running_mean", vec![channels], Start::Constant(0.0)),
                self.weights("running_var", vec![channels], Start::Constant(1.0)),
            ],
            _ => Vec::new(),
        }
    }

    fn weights(&self, what: &str, shape: Vec<usize>, start: Start) -> Weights {
        Weights {
            name: format!("{}.{what}", self.name),
            shape,
            start,
        }
    }

    /// The values that its forward pass touches.
    pub(super) fn forward_uses(&self) -> Vec<usize> {
        match self.kind {
            Kind::Shortcut { from, .. } => vec![self.input, self.output, from],
            _ => vec![self.input, self.output],
        }
    }

    /// The values whose content its backward pass reads.
    pub(super) fn backward_uses(&self) -> Vec<usize> {
        match self.kind {
            Kind::Convolution(_) | Kind::BatchNorm(_) | Kind::MaxPool(_) | Kind::Linear(_) => {
                vec![self.input]
            }
            Kind::Relu => vec![self.output],
            Kind::AveragePool(_) | Kind::Shortcut { .. } => Vec::new(),
        }
    }
}
