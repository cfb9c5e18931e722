//! What changes number by number: the rectifier, and sums of branches.

use crate::train::model::Shape;

/// `batch <- max(batch, 0)`.
pub fn relu_forward(batch: &mut [f32]) {
    for x in batch {
        // Not `max`, whose rule for NaN costs more than a comparison.
        *x = if *x > 0.0 { *x } else { 0.0 };
    }
}

/// `gradient <- gradient` where the output was above 0, else 0.
pub fn relu_backward(output: &[f32], gradient: &mut [f32]) {
    for (y, dy) in output.iter().zip(gradient) {
        *dy = if *y > 0.0 { *dy } else { 0.0 };
    }
}

/// A shortcut around some layers: its input, taken at every `stride`-th pixel, joins the middle of
/// the output's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcut {
    /// What is taken.
    pub input: Shape,
    /// What it joins, with at least as many channels, and pixels that `stride` leads to.
    pub output: Shape,
    /// From a pixel that is taken to the next, in both directions.
    pub stride: usize,
}

impl Shortcut {
    /// `output <- output + shortcut of input`.
    pub fn forward(&self, input: &[f32], output: &mut [f32]) {
        self.each_pixel(input.len(), |from, to| {
            for (sum, add) in output[to..]
                .iter_mut()
                .zip(&input[from..from + self.input.channels])
            {
                *sum += add;
            }
        });
    }

    /// `input <- gradient of the input`, from the gradient of the output.
    pub fn backward(&self, output: &[f32], input: &mut [f32]) {
        let channels = self.input.channels;
        if self.stride > 1 {
            input.fill(0.0);
        }
        self.each_pixel(input.len(), |from, to| {
            input[from..from + channels].copy_from_slice(&output[to..to + channels]);
        });
    }

    /// Calls `visit` with where the pixels that are taken are, in the input and in the output.
    fn each_pixel(&self, input_floats: usize, mut visit: impl FnMut(usize, usize)) {
        let (input, output) = (self.input, self.output);
        let middle = (output.channels - input.channels) / 2;
        let mut to = middle;
        for image in 0..input_floats / input.floats() {
            for y in (0..input.height).step_by(self.stride) {
                for x in (0..input.width).step_by(self.stride) {
                    let pixel = (image * input.height + y) * input.width + x;
                    visit(pixel * input.channels, to);
                    to += output.channels;
                }
            }
        }
    }
}
