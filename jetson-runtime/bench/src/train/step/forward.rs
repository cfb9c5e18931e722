//! The forward pass of a layer, in training and in evaluation.

use jetson_runtime::{Access, RuntimeError};
use vtensor::TensorKind;

use super::{Step, floats, floats_mut};
use crate::train::kernels::{batch_norm, elementwise, pool};
use crate::train::model::Kind;

impl Step<'_> {
    /// In training: batch normalisation uses and saves the batch's own statistics.
    pub(super) fn forward(&mut self, index: usize) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        let Kind::BatchNorm(channels) = layer.kind else {
            return self.forward_of_any(index);
        };
        let names = &model.names[index];
        let input = self.value(layer.input);
        let output = self.create_value(layer.output)?;
        let saved = self.create(&names.saved, 2 * channels, TensorKind::Activation)?;
        self.saved[index] = Some(saved);
        let [gamma, beta] = self.parameters(index);
        let [mean, variance] = self.statistics(index);
        let accesses = [
            Access::read(input),
            Access::read(gamma),
            Access::read(beta),
            Access::write(output),
            Access::write(saved),
            Access::read_write(mean),
            Access::read_write(variance),
        ];
        self.op(
            &names.forward,
            accesses,
            |[input, gamma, beta, output, saved, mean, variance]| {
                batch_norm::Forward {
                    input: floats(input),
                    gamma: floats(gamma),
                    beta: floats(beta),
                    output: floats_mut(output),
                    saved: floats_mut(saved),
                    mean: floats_mut(mean),
                    variance: floats_mut(variance),
                }
                .run();
            },
        )
    }

    /// In evaluation: batch normalisation uses the running statistics.
    pub(super) fn evaluate_layer(&mut self, index: usize) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        if !matches!(layer.kind, Kind::BatchNorm(_)) {
            return self.forward_of_any(index);
        }
        let input = self.value(layer.input);
        let output = self.create_value(layer.output)?;
        let [gamma, beta] = self.parameters(index);
        let [mean, variance] = self.statistics(index);
        let accesses = [
            Access::read(input),
            Access::read(gamma),
            Access::read(beta),
            Access::write(output),
            Access::read(mean),
            Access::read(variance),
        ];
        self.op(
            &model.names[index].forward,
            accesses,
            |[input, gamma, beta, output, mean, variance]| {
                batch_norm::Evaluate {
                    input: floats(input),
                    gamma: floats(gamma),
                    beta: floats(beta),
                    output: floats_mut(output),
                    mean: floats(mean),
                    variance: floats(variance),
                }
                .run();
            },
        )
    }

    /// What is the same in training and evaluation.
    fn forward_of_any(&mut self, index: usize) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        let names = &model.names[index];
        let input = self.value(layer.input);
        match layer.kind {
            Kind::Convolution(convolution) => {
                let output = self.create_value(layer.output)?;
                let floats_of_space = convolution.workspace(self.images);
                let space =
                    self.create(&names.workspace, floats_of_space, TensorKind::Workspace)?;
                let [weights] = self.parameters(index);
                let accesses = [
                    Access::read(input),
                    Access::read(weights),
                    Access::write(output),
                    Access::write(space),
                ];
                self.op(
                    &names.forward,
                    accesses,
                    |[input, weights, output, space]| {
                        let (input, weights) = (floats(input), floats(weights));
                        convolution.forward(input, weights, floats_mut(output), floats_mut(space));
                    },
                )?;
                self.destroy(Some(space))
            }
            Kind::Relu => self.op(&names.forward, [Access::read_write(input)], |[batch]| {
                elementwise::relu_forward(floats_mut(batch));
            }),
            Kind::MaxPool(pool) => self.forward_of_one(index, |input, output| {
                pool.forward(input, output);
            }),
            Kind::AveragePool(shape) => self.forward_of_one(index, |input, output| {
                pool::average_forward(shape, input, output);
            }),
            Kind::Linear(linear) => {
                let output = self.create_value(layer.output)?;
                let [weights, bias] = self.parameters(index);
                let accesses = [
                    Access::read(input),
                    Access::read(weights),
                    Access::read(bias),
                    Access::write(output),
                ];
                self.op(
                    &names.forward,
                    accesses,
                    |[input, weights, bias, output]| {
                        let (weights, bias) = (floats(weights), floats(bias));
                        linear.forward(floats(input), weights, bias, floats_mut(output));
                    },
                )
            }
            Kind::Shortcut { from, shortcut } => {
                let accesses = [Access::read(self.value(from)), Access::read_write(input)];
                self.op(&names.forward, accesses, |[from, sum]| {
                    shortcut.forward(floats(from), floats_mut(sum));
                })
            }
            Kind::BatchNorm(_) => unreachable!("training and evaluation differ; callers know"),
        }
    }

    /// A layer with one input, one output and nothing else.
    fn forward_of_one(
        &mut self,
        index: usize,
        body: impl FnOnce(&[f32], &mut [f32]),
    ) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        let input = self.value(layer.input);
        let output = self.create_value(layer.output)?;
        let accesses = [Access::read(input), Access::write(output)];
        self.op(&model.names[index].forward, accesses, |[input, output]| {
            body(floats(input), floats_mut(output));
        })
    }
}
