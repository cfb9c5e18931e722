//! The forward pass of a layer, in training and in evaluation.
//!
//! A layer's op computes by [`compute`] alone, on the tensors that it is given: so the runtime can
//! run it again, on other memory.

use std::time::Instant;

use jetson_runtime::{Access, Op, RuntimeError};
use vtensor::TensorKind;

use super::{Step, floats, floats_mut};
use crate::train::kernels::{batch_norm, elementwise, pool};
use crate::train::model::{Kind, Layer};

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
        self.op_of_layer(index, &accesses)
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
        let input = self.value(layer.input);
        match layer.kind {
            Kind::Convolution(convolution) => {
                let output = self.create_value(layer.output)?;
                let floats_of_space = convolution.workspace(self.images);
                let name = &model.names[index].workspace;
                let space = self.create(name, floats_of_space, TensorKind::Workspace)?;
                let [weights] = self.parameters(index);
                let accesses = [
                    Access::read(input),
                    Access::read(weights),
                    Access::write(output),
                    Access::write(space),
                ];
                self.op_of_layer(index, &accesses)?;
                self.destroy(Some(space))
            }
            Kind::Relu => self.op_of_layer(index, &[Access::read_write(input)]),
            Kind::MaxPool(_) | Kind::AveragePool(_) => {
                let output = self.create_value(layer.output)?;
                self.op_of_layer(index, &[Access::read(input), Access::write(output)])
            }
            Kind::Linear(_) => {
                let output = self.create_value(layer.output)?;
                let [weights, bias] = self.parameters(index);
                let accesses = [
                    Access::read(input),
                    Access::read(weights),
                    Access::read(bias),
                    Access::write(output),
                ];
                self.op_of_layer(index, &accesses)
            }
            Kind::Shortcut { from, .. } => {
                let from = self.value(from);
                self.op_of_layer(index, &[Access::read(from), Access::read_write(input)])
            }
            Kind::BatchNorm(_) => unreachable!("training and evaluation differ; callers know"),
        }
    }

    /// The op of a layer, which may run again.
    fn op_of_layer(&mut self, index: usize, accesses: &[Access]) -> Result<(), RuntimeError> {
        let model = self.model;
        let spent = &mut self.compute;
        let name = &model.names[index].forward;
        self.runtime
            .op_replayable(name, accesses, [index, 0], |op| {
                let start = Instant::now();
                compute(&model.network.layers[index], op);
                *spent += start.elapsed();
            })
    }
}

/// What a layer computes forward in training, and in evaluation unless it normalises.
pub(super) fn compute(layer: &Layer, op: &mut Op<'_>) {
    match layer.kind {
        Kind::Convolution(convolution) => {
            let [input, weights, output, space] = op.views();
            let (input, weights) = (floats(input), floats(weights));
            convolution.forward(input, weights, floats_mut(output), floats_mut(space));
        }
        Kind::BatchNorm(_) => {
            let [input, gamma, beta, output, saved, mean, variance] = op.views();
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
        }
        Kind::Relu => {
            let [batch] = op.views();
            elementwise::relu_forward(floats_mut(batch));
        }
        Kind::MaxPool(pool) => {
            let [input, output] = op.views();
            pool.forward(floats(input), floats_mut(output));
        }
        Kind::AveragePool(shape) => {
            let [input, output] = op.views();
            pool::average_forward(shape, floats(input), floats_mut(output));
        }
        Kind::Linear(linear) => {
            let [input, weights, bias, output] = op.views();
            let (weights, bias) = (floats(weights), floats(bias));
            linear.forward(floats(input), weights, bias, floats_mut(output));
        }
        Kind::Shortcut { shortcut, .. } => {
            let [from, sum] = op.views();
            shortcut.forward(floats(from), floats_mut(sum));
        }
    }
}
