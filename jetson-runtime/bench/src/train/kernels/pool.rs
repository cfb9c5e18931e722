//! Pooling: the largest number of a window, and the mean of an image.

use crate::train::model::Shape;

/// The largest number of each channel in windows of `size` by `size` pixels that do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool {
    /// What it reads; `size` divides both sides.
    pub input: Shape,
    /// Rows and columns of a window.
    pub size: usize,
}

impl MaxPool {
    /// What it writes.
    #[must_use]
    pub const fn output(&self) -> Shape {
        Shape {
            height: self.input.height / self.size,
            width: self.input.width / self.size,
            channels: self.input.channels,
        }
    }

    /// `output <- the largest of each window`.
    pub fn forward(&self, input: &[f32], output: &mut [f32]) {
        output.fill(f32::NEG_INFINITY);
        self.each_pixel(output.len(), |from, to| {
            let window = &mut output[to..to + self.input.channels];
            for (largest, x) in window.iter_mut().zip(&input[from..]) {
                *largest = if *x > *largest { *x } else { *largest };
            }
        });
    }

    /// `gradient <- gradient of the input`, from that of the output: all of it goes to the first of
    /// the largest numbers of a window.
    pub fn backward(&self, input: &[f32], output: &[f32], gradient: &mut [f32]) {
        let channels = self.input.channels;
        gradient.fill(0.0);
        let shape = self.output();
        let line = self.input.width * channels;
        for (window, dy) in output.chunks_exact(channels).enumerate() {
            let (row, column) = (window / shape.width, window % shape.width);
            let corner = (row * self.input.width + column) * self.size * channels;
            for (channel, dy) in dy.iter().enumerate() {
                let mut first = corner + channel;
                for y in 0..self.size {
                    for x in 0..self.size {
                        let at = corner + y * line + x * channels + channel;
                        first = if input[at] > input[first] { at } else { first };
                    }
                }
                gradient[first] = *dy;
            }
        }
    }

    /// Calls `visit` for each pixel of each window with where pixel and output of the window are.
    fn each_pixel(&self, output_floats: usize, mut visit: impl FnMut(usize, usize)) {
        let channels = self.input.channels;
        let (shape, size) = (self.output(), self.size);
        for window in 0..output_floats / channels {
            let (row, column) = (window / shape.width, window % shape.width);
            for y in 0..size {
                let start = (row * size + y) * self.input.width + column * size;
                for x in 0..size {
                    visit((start + x) * channels, window * channels);
                }
            }
        }
    }
}

/// `output <- the mean of each channel over an image of that shape`.
pub fn average_forward(shape: Shape, input: &[f32], output: &mut [f32]) {
    let count = shape.pixels() as f32;
    output.fill(0.0);
    let images = input.chunks_exact(shape.floats());
    for (image, mean) in images.zip(output.chunks_exact_mut(shape.channels)) {
        for pixel in image.chunks_exact(shape.channels) {
            for (sum, x) in mean.iter_mut().zip(pixel) {
                *sum += x;
            }
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
    }
}

/// `input <- gradient of the input`, from the gradient of the means.
pub fn average_backward(shape: Shape, output: &[f32], input: &mut [f32]) {
    let count = shape.pixels() as f32;
    let images = input.chunks_exact_mut(shape.floats());
    for (image, mean) in images.zip(output.chunks_exact(shape.channels)) {
        for pixel in image.chunks_exact_mut(shape.channels) {
            for (dx, dy) in pixel.iter_mut().zip(mean) {
                *dx = dy / count;
            }
        }
    }
}
