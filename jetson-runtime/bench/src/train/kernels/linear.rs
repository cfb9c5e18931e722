//! A linear layer with a bias: a row of weights for each output.

use super::matmul::{matrix, multiply};

/// Sizes of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Numbers of an image that it reads.
    pub inputs: usize,
    /// Numbers of an image that it writes.
    pub outputs: usize,
}

impl Linear {
    /// `output <- input × weights + bias`.
    pub fn forward(&self, input: &[f32], weights: &[f32], bias: &[f32], output: &mut [f32]) {
        for row in output.chunks_exact_mut(self.outputs) {
            row.copy_from_slice(bias);
        }
        let images = output.len() / self.outputs;
        let input = matrix(input, images, self.inputs);
        let weights = matrix(weights, self.outputs, self.inputs);
        multiply(&input, &weights.t(), true, output);
    }

    /// `weights, bias <- their gradients`, from the gradient of the output.
    pub fn backward_weights(
        &self,
        input: &[f32],
        output: &[f32],
        weights: &mut [f32],
        bias: &mut [f32],
    ) {
        let images = output.len() / self.outputs;
        bias.fill(0.0);
        for row in output.chunks_exact(self.outputs) {
            for (sum, dy) in bias.iter_mut().zip(row) {
                *sum += dy;
            }
        }
        let output = matrix(output, images, self.outputs);
        multiply(
            &output.t(),
            &matrix(input, images, self.inputs),
            false,
            weights,
        );
    }

    /// `input <- gradient of the input`, from the gradient of the output.
    pub fn backward_input(&self, weights: &[f32], output: &[f32], input: &mut [f32]) {
        let images = output.len() / self.outputs;
        let output = matrix(output, images, self.outputs);
        multiply(
            &output,
            &matrix(weights, self.outputs, self.inputs),
            false,
            input,
        );
    }
}
