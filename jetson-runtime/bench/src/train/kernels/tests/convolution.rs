//! Convolution, against one number at a time and against finite differences.

use super::{assert_close, compare, random, weighted, weights};
use crate::train::kernels::Convolution;
use crate::train::model::Shape;

const IMAGES: usize = 3;

/// Odd sizes, all paddings and strides that are used, and windows that are larger than the image.
fn samples() -> Vec<Convolution> {
    let sizes = [
        // (height, width, channels, output channels, kernel, stride, padding)
        (5, 4, 3, 2, 3, 1, 1),
        (5, 4, 1, 4, 3, 2, 1),
        (6, 6, 2, 3, 3, 2, 1),
        (4, 7, 9, 2, 1, 1, 0),
        (7, 5, 2, 3, 5, 1, 2),
        (2, 2, 3, 3, 5, 1, 4),
        (6, 5, 17, 2, 3, 3, 0),
    ];
    sizes
        .map(
            |(height, width, channels, filters, kernel, stride, padding)| Convolution {
                input: Shape {
                    height,
                    width,
                    channels,
                },
                channels: filters,
                kernel,
                stride,
                padding,
            },
        )
        .to_vec()
}

fn workspace(convolution: &Convolution) -> Vec<f32> {
    vec![f32::NAN; convolution.workspace(IMAGES)]
}

fn forward(convolution: &Convolution, input: &[f32], weights: &[f32]) -> Vec<f32> {
    let mut output = vec![f32::NAN; IMAGES * convolution.output().floats()];
    convolution.forward(input, weights, &mut output, &mut workspace(convolution));
    output
}

/// The definition, one number at a time.
fn naive(convolution: &Convolution, input: &[f32], weights: &[f32]) -> Vec<f32> {
    let Convolution {
        input: from,
        channels,
        kernel,
        stride,
        padding,
    } = *convolution;
    let to = convolution.output();
    let mut output = Vec::new();
    for (image, y, x, channel) in outputs(to, channels) {
        let mut sum = 0.0;
        for (line, column, below) in window(kernel, from.channels) {
            let (row, pixel) = (y * stride + line, x * stride + column);
            let inside = row >= padding && pixel >= padding;
            if !inside || row - padding >= from.height || pixel - padding >= from.width {
                continue;
            }
            let at = (image * from.height + row - padding) * from.width + pixel - padding;
            let weight = ((channel * kernel + line) * kernel + column) * from.channels + below;
            sum += f64::from(input[at * from.channels + below]) * f64::from(weights[weight]);
        }
        #[allow(clippy::cast_possible_truncation)]
        output.push(sum as f32);
    }
    output
}

fn outputs(to: Shape, channels: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..IMAGES * to.pixels() * channels).map(move |at| {
        let (pixel, channel) = (at / channels, at % channels);
        let (row, x) = (pixel / to.width, pixel % to.width);
        (row / to.height, row % to.height, x, channel)
    })
}

fn window(kernel: usize, channels: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..kernel * kernel * channels).map(move |at| {
        let (pixel, channel) = (at / channels, at % channels);
        (pixel / kernel, pixel % kernel, channel)
    })
}

#[test]
fn forward_is_the_definition() {
    for convolution in samples() {
        let input = random(IMAGES * convolution.input.floats(), 1);
        let parameters = random(convolution.weights(), 2);
        let found = forward(&convolution, &input, &parameters);
        let expected = naive(&convolution, &input, &parameters);
        assert_close(&found, &expected);
    }
}

#[test]
fn blocks_of_rows_make_no_difference() {
    // Large enough for several blocks, the last of them smaller.
    let convolution = Convolution {
        input: Shape {
            height: 19,
            width: 40,
            channels: 24,
        },
        channels: 2,
        kernel: 3,
        stride: 1,
        padding: 1,
    };
    let rows = IMAGES * convolution.input.height;
    let row = convolution.input.width * convolution.window();
    assert!(convolution.workspace(IMAGES) < rows * row / 4);
    let input = random(IMAGES * convolution.input.floats(), 3);
    let parameters = random(convolution.weights(), 4);
    let found = forward(&convolution, &input, &parameters);
    assert_close(&found, &naive(&convolution, &input, &parameters));
    // Backward is linear: the product with any input is the same from both sides.
    let output = weights(found.len());
    let mut gradient = vec![f32::NAN; parameters.len()];
    let mut space = workspace(&convolution);
    convolution.backward_weights(&input, &output, &mut gradient, &mut space);
    let mut back = vec![0.0; input.len()];
    convolution.backward_input(&parameters, &output, &mut back, &mut space);
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    let expected = product(&found, &output);
    for found in [product(&gradient, &parameters), product(&back, &input)] {
        assert!(
            (found - expected).abs() < 1e-3 * expected.abs(),
            "{found}, {expected}"
        );
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for convolution in samples() {
        let input = random(IMAGES * convolution.input.floats(), 5);
        let parameters = random(convolution.weights(), 6);
        let output = weights(IMAGES * convolution.output().floats());
        let mut space = workspace(&convolution);
        let mut gradient = vec![f32::NAN; parameters.len()];
        convolution.backward_weights(&input, &output, &mut gradient, &mut space);
        compare("weight", &parameters, &gradient, |moved| {
            weighted(&forward(&convolution, &input, moved))
        });
        let mut gradient = vec![0.0; input.len()];
        convolution.backward_input(&parameters, &output, &mut gradient, &mut space);
        compare("input", &input, &gradient, |moved| {
            weighted(&forward(&convolution, moved, &parameters))
        });
        // A second gradient is added to the first.
        let first = gradient.clone();
        convolution.backward_input(&parameters, &output, &mut gradient, &mut space);
        let twice: Vec<f32> = first.iter().map(|g| 2.0 * g).collect();
        assert_close(&gradient, &twice);
    }
}
