//! Convolution, as products with the matrix of its windows.
//!
//! In: batches as rows of pixels, weights as one row of `kernel × kernel × channels` numbers for
//! each output channel. Out: output, gradient of the weights, gradient of the input. The windows of
//! some output rows at a time are gathered in a workspace, so that it stays small and in cache.

use std::ops::Range;

use super::matmul::{matrix, multiply};
use crate::train::model::Shape;

/// Bytes that the windows may take at a time, if one row of the output does not need more. Measured
/// on the shapes of ResNet-20: 128 KiB to 1 MiB make no difference, 64 KiB is a tenth slower.
const WORKSPACE_BYTES: usize = 256 << 10;

/// A square convolution without a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// What it reads.
    pub input: Shape,
    /// Channels that it writes.
    pub channels: usize,
    /// Rows and columns of its window.
    pub kernel: usize,
    /// Pixels from one window to the next.
    pub stride: usize,
    /// Pixels around the image that count as zero, less than `kernel`.
    pub padding: usize,
}

impl Convolution {
    /// What it writes.
    #[must_use]
    pub fn output(&self) -> Shape {
        let fit = |size: usize| (size + 2 * self.padding - self.kernel) / self.stride + 1;
        Shape {
            height: fit(self.input.height),
            width: fit(self.input.width),
            channels: self.channels,
        }
    }

    /// Numbers of one window.
    #[must_use]
    pub const fn window(&self) -> usize {
        self.kernel * self.kernel * self.input.channels
    }

    /// Numbers of the weights.
    #[must_use]
    pub const fn weights(&self) -> usize {
        self.channels * self.window()
    }

    /// Numbers of the workspace for that many images.
    #[must_use]
    pub fn workspace(&self, images: usize) -> usize {
        let rows = self.rows_at_a_time().min(images * self.output().height);
        rows * self.output().width * self.window()
    }

    /// Output rows whose windows are gathered at a time.
    fn rows_at_a_time(&self) -> usize {
        let row_bytes = self.output().width * self.window() * size_of::<f32>();
        (WORKSPACE_BYTES / row_bytes).max(1)
    }

    /// The output rows of a batch, some at a time, and for each the pixels of the output.
    fn blocks(&self, output: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let width = self.output().width;
        let (rows, step) = (output / (width * self.channels), self.rows_at_a_time());
        (0..rows).step_by(step).map(move |first| {
            let end = (first + step).min(rows);
            (first..end, first * width..end * width)
        })
    }

    /// `output <- convolution of input`.
    pub fn forward(
        &self,
        input: &[f32],
        weights: &[f32],
        output: &mut [f32],
        workspace: &mut [f32],
    ) {
        let weights = matrix(weights, self.channels, self.window());
        for (rows, pixels) in self.blocks(output.len()) {
            let patches = &mut workspace[..pixels.len() * self.window()];
            self.gather(rows, input, patches);
            let patches = matrix(patches, pixels.len(), self.window());
            let output = &mut output[pixels.start * self.channels..pixels.end * self.channels];
            multiply(&patches, &weights.t(), false, output);
        }
    }

    /// `weights <- gradient of the weights`, from the gradient of the output.
    pub fn backward_weights(
        &self,
        input: &[f32],
        output: &[f32],
        weights: &mut [f32],
        workspace: &mut [f32],
    ) {
        for (rows, pixels) in self.blocks(output.len()) {
            let accumulate = rows.start > 0;
            let patches = &mut workspace[..pixels.len() * self.window()];
            self.gather(rows, input, patches);
            let patches = matrix(patches, pixels.len(), self.window());
            let output = &output[pixels.start * self.channels..pixels.end * self.channels];
            let output = matrix(output, pixels.len(), self.channels);
            multiply(&output.t(), &patches, accumulate, weights);
        }
    }

    /// `input <- input + gradient of the input`, from the gradient of the output.
    pub fn backward_input(
        &self,
        weights: &[f32],
        output: &[f32],
        input: &mut [f32],
        workspace: &mut [f32],
    ) {
        let weights = matrix(weights, self.channels, self.window());
        for (rows, pixels) in self.blocks(output.len()) {
            let patches = &mut workspace[..pixels.len() * self.window()];
            let output = &output[pixels.start * self.channels..pixels.end * self.channels];
            let output = matrix(output, pixels.len(), self.channels);
            multiply(&output, &weights, false, patches);
            self.add_back(rows, patches, input);
        }
    }
}
