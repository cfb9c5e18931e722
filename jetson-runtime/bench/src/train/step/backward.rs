//! The backward pass of a layer.
//!
//! The gradient of a layer's output is there when its backward pass begins, and gone or turned into
//! that of its input when it ends. The first reader of a value whose backward pass runs makes the
//! value's gradient; another one, beside a shortcut, adds to it.

use jetson_runtime::{Access, RuntimeError, Tensor};
use vtensor::TensorKind;

use super::{Step, floats, floats_mut};
use crate::train::kernels::linear::Linear;
use crate::train::kernels::{Convolution, batch_norm, elementwise, pool};
use crate::train::model::Kind;

impl Step<'_> {
    pub(super) fn backward(&mut self, index: usize) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        let names = &model.names[index];
        match layer.kind {
            Kind::Convolution(convolution) => self.backward_of_convolution(index, convolution),
            Kind::BatchNorm(_) => self.backward_of_batch_norm(index),
            Kind::Linear(linear) => self.backward_of_linear(index, linear),
            Kind::Relu => {
                let gradient = self.gradient(layer.output);
                let accesses = [
                    Access::read(self.value(layer.output)),
                    Access::read_write(gradient),
                ];
                self.op(&names.backward, accesses, |[output, gradient]| {
                    elementwise::relu_backward(floats(output), floats_mut(gradient));
                })
            }
            Kind::MaxPool(pool) => {
                let output = self.take_gradient(layer.output);
                let gradient = self.create_gradient(layer.input)?;
                let accesses = [
                    Access::read(self.value(layer.input)),
                    Access::read(output),
                    Access::write(gradient),
                ];
                self.op(&names.backward, accesses, |[input, output, gradient]| {
                    pool.backward(floats(input), floats(output), floats_mut(gradient));
                })?;
                self.destroy(Some(output))
            }
            Kind::AveragePool(shape) => {
                let output = self.take_gradient(layer.output);
                let gradient = self.create_gradient(layer.input)?;
                let accesses = [Access::read(output), Access::write(gradient)];
                self.op(&names.backward, accesses, |[output, gradient]| {
                    pool::average_backward(shape, floats(output), floats_mut(gradient));
                })?;
                self.destroy(Some(output))
            }
            Kind::Shortcut { from, shortcut } => {
                // The gradient of the sum is that of the branch, in place; the shortcut gets its
                // own, for later layers change the branch's.
                let sum = self.gradient(layer.output);
                let gradient = self.create_gradient(from)?;
                let accesses = [Access::read(sum), Access::write(gradient)];
                self.op(&names.backward, accesses, |[sum, gradient]| {
                    shortcut.backward(floats(sum), floats_mut(gradient));
                })
            }
        }
    }

    fn backward_of_convolution(
        &mut self,
        index: usize,
        convolution: Convolution,
    ) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        let names = &model.names[index];
        let output = self.take_gradient(layer.output);
        let space_floats = convolution.workspace(self.images);
        let [by_weights] = self.create_parameter_gradients(index)?;
        let space = self.create(&names.workspace, space_floats, TensorKind::Workspace)?;
        let accesses = [
            Access::read(self.value(layer.input)),
            Access::read(output),
            Access::write(by_weights),
            Access::write(space),
        ];
        self.op(
            &names.backward,
            accesses,
            |[input, output, weights, space]| {
                let (weights, space) = (floats_mut(weights), floats_mut(space));
                convolution.backward_weights(floats(input), floats(output), weights, space);
            },
        )?;
        self.destroy(Some(space))?;
        // Nobody asks for the gradient of the images.
        if layer.input > 0 {
            let there = self.gradients[layer.input];
            let gradient = match there {
                Some(gradient) => Access::read_write(gradient),
                None => Access::write(self.create_gradient(layer.input)?),
            };
            let space = self.create(&names.workspace, space_floats, TensorKind::Workspace)?;
            let [weights] = self.parameters(index);
            let accesses = [
                Access::read(weights),
                Access::read(output),
                gradient,
                Access::write(space),
            ];
            self.op(
                &names.backward_input,
                accesses,
                |[weights, output, input, space]| {
                    let (input, space) = (floats_mut(input), floats_mut(space));
                    if there.is_none() {
                        input.fill(0.0);
                    }
                    convolution.backward_input(floats(weights), floats(output), input, space);
                },
            )?;
            self.destroy(Some(space))?;
        }
        self.destroy(Some(output))
    }

    fn backward_of_batch_norm(&mut self, index: usize) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        let gradient = self.take_gradient(layer.output);
        let saved = self.saved[index].take().expect("forward saved it");
        let [by_gamma, by_beta] = self.create_parameter_gradients(index)?;
        let [gamma, _] = self.parameters(index);
        let accesses = [
            Access::read(self.value(layer.input)),
            Access::read(gamma),
            Access::read(saved),
            Access::read_write(gradient),
            Access::write(by_gamma),
            Access::write(by_beta),
        ];
        self.op(
            &model.names[index].backward,
            accesses,
            |[input, gamma, saved, gradient, by_gamma, by_beta]| {
                batch_norm::Backward {
                    input: floats(input),
                    gamma: floats(gamma),
                    saved: floats(saved),
                    gradient: floats_mut(gradient),
                    gamma_gradient: floats_mut(by_gamma),
                    beta_gradient: floats_mut(by_beta),
                }
                .run();
            },
        )?;
        self.put_gradient(layer.input, gradient);
        self.destroy(Some(saved))
    }

    fn backward_of_linear(&mut self, index: usize, linear: Linear) -> Result<(), RuntimeError> {
        let model = self.model;
        let layer = &model.network.layers[index];
        let names = &model.names[index];
        let output = self.take_gradient(layer.output);
        let [by_weights, by_bias] = self.create_parameter_gradients(index)?;
        let accesses = [
            Access::read(self.value(layer.input)),
            Access::read(output),
            Access::write(by_weights),
            Access::write(by_bias),
        ];
        self.op(
            &names.backward,
            accesses,
            |[input, output, weights, bias]| {
                let (weights, bias) = (floats_mut(weights), floats_mut(bias));
                linear.backward_weights(floats(input), floats(output), weights, bias);
            },
        )?;
        let gradient = self.create_gradient(layer.input)?;
        let [weights, _] = self.parameters(index);
        let accesses = [
            Access::read(weights),
            Access::read(output),
            Access::write(gradient),
        ];
        self.op(
            &names.backward_input,
            accesses,
            |[weights, output, input]| {
                linear.backward_input(floats(weights), floats(output), floats_mut(input));
            },
        )?;
        self.destroy(Some(output))
    }

    fn gradient(&self, value: usize) -> Tensor {
        self.gradients[value].expect("the reader of a value makes its gradient")
    }

    fn take_gradient(&mut self, value: usize) -> Tensor {
        let gradient = self.gradients[value].take();
        gradient.expect("the reader of a value makes its gradient")
    }

    fn put_gradient(&mut self, value: usize, gradient: Tensor) {
        let before = self.gradients[value].replace(gradient);
        assert!(before.is_none(), "only convolutions add to a gradient");
    }

    fn create_gradient(&mut self, value: usize) -> Result<Tensor, RuntimeError> {
        let model = self.model;
        let floats = self.images * model.network.values[value].floats();
        let name = &model.gradient_names[value];
        let gradient = self.create(name, floats, TensorKind::Gradient)?;
        self.put_gradient(value, gradient);
        Ok(gradient)
    }
}
