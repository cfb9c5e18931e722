//! The other layers: rectifier, shortcut, pooling, linear, loss, optimizer.

use super::{compare, random, weighted, weights};
use crate::train::kernels::elementwise::{Shortcut, relu_backward, relu_forward};
use crate::train::kernels::linear::Linear;
use crate::train::kernels::pool::{MaxPool, average_backward, average_forward};
use crate::train::kernels::{loss, sgd::Sgd};
use crate::train::model::Shape;

const IMAGES: usize = 3;

/// Numbers that no step of a finite difference takes over a bend.
fn apart(count: usize) -> Vec<f32> {
    let order = random(count, 7);
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| order[*a].total_cmp(&order[*b]));
    places
        .iter()
        .map(|p| (*p as f32 - count as f32 / 2.0 + 0.5) / 16.0)
        .collect()
}

#[test]
fn the_rectifier() {
    let input = apart(50);
    let forward = |input: &[f32]| {
        let mut output = input.to_vec();
        relu_forward(&mut output);
        output
    };
    let output = forward(&input);
    assert!(output.iter().zip(&input).all(|(y, x)| *y == x.max(0.0)));
    let mut gradient = weights(50);
    relu_backward(&output, &mut gradient);
    compare("input", &input, &gradient, |moved| {
        weighted(&forward(moved))
    });
}

#[test]
fn shortcuts() {
    let shape = |side, channels| Shape {
        height: side,
        width: side,
        channels,
    };
    for (input, output, stride) in [
        (shape(3, 4), shape(3, 4), 1),
        (shape(4, 2), shape(2, 4), 2),
        (shape(5, 2), shape(3, 8), 2),
    ] {
        let shortcut = Shortcut {
            input,
            output,
            stride,
        };
        let numbers = random(IMAGES * input.floats(), 1);
        let base = random(IMAGES * output.floats(), 2);
        let forward = |input: &[f32]| {
            let mut sum = base.clone();
            shortcut.forward(input, &mut sum);
            sum
        };
        let changed = forward(&numbers)
            .iter()
            .zip(&base)
            .filter(|(a, b)| a != b)
            .count();
        assert_eq!(changed, IMAGES * output.pixels() * input.channels);
        let mut gradient = vec![f32::NAN; numbers.len()];
        shortcut.backward(&weights(base.len()), &mut gradient);
        compare("input", &numbers, &gradient, |moved| {
            weighted(&forward(moved))
        });
    }
}

#[test]
fn largest_numbers() {
    let pool = MaxPool {
        input: Shape {
            height: 4,
            width: 6,
            channels: 3,
        },
        size: 2,
    };
    let input = apart(IMAGES * pool.input.floats());
    let forward = |input: &[f32]| {
        let mut output = vec![f32::NAN; IMAGES * pool.output().floats()];
        pool.forward(input, &mut output);
        output
    };
    let output = forward(&input);
    // The last window of the last image, its last channel.
    let pixel = |y: usize, x: usize| input[(((IMAGES - 1) * 4 + y) * 6 + x) * 3 + 2];
    let expected = pixel(2, 4)
        .max(pixel(2, 5))
        .max(pixel(3, 4))
        .max(pixel(3, 5));
    assert_eq!(output.last(), Some(&expected));
    let mut gradient = vec![f32::NAN; input.len()];
    pool.backward(&input, &weights(output.len()), &mut gradient);
    compare("input", &input, &gradient, |moved| {
        weighted(&forward(moved))
    });
    // Of equal numbers one gets all.
    let flat = vec![1.0; input.len()];
    pool.backward(&flat, &vec![1.0; output.len()], &mut gradient);
    assert_eq!(gradient.iter().filter(|g| **g != 0.0).count(), output.len());
}

#[test]
fn means() {
    let shape = Shape {
        height: 3,
        width: 2,
        channels: 5,
    };
    let input = random(IMAGES * shape.floats(), 4);
    let forward = |input: &[f32]| {
        let mut output = vec![f32::NAN; IMAGES * shape.channels];
        average_forward(shape, input, &mut output);
        output
    };
    let first: f32 = input[..shape.floats()].iter().step_by(5).sum();
    assert!((forward(&input)[0] - first / 6.0).abs() < 1e-6);
    let mut gradient = vec![f32::NAN; input.len()];
    average_backward(shape, &weights(IMAGES * shape.channels), &mut gradient);
    compare("input", &input, &gradient, |moved| {
        weighted(&forward(moved))
    });
}

#[test]
fn a_linear_layer() {
    let linear = Linear {
        inputs: 7,
        outputs: 4,
    };
    let input = random(IMAGES * 7, 1);
    let (parameters, bias) = (random(28, 2), random(4, 3));
    let forward = |input: &[f32], parameters: &[f32], bias: &[f32]| {
        let mut output = vec![f32::NAN; IMAGES * 4];
        linear.forward(input, parameters, bias, &mut output);
        output
    };
    let output = weights(IMAGES * 4);
    let (mut by_weights, mut by_bias) = (vec![f32::NAN; 28], vec![f32::NAN; 4]);
    linear.backward_weights(&input, &output, &mut by_weights, &mut by_bias);
    compare("weight", &parameters, &by_weights, |moved| {
        weighted(&forward(&input, moved, &bias))
    });
    compare("bias", &bias, &by_bias, |moved| {
        weighted(&forward(&input, &parameters, moved))
    });
    let mut by_input = vec![f32::NAN; input.len()];
    linear.backward_input(&parameters, &output, &mut by_input);
    compare("input", &input, &by_input, |moved| {
        weighted(&forward(moved, &parameters, &bias))
    });
}

#[test]
fn the_loss() {
    let logits: Vec<f32> = random(IMAGES * 5, 1).iter().map(|x| 3.0 * x).collect();
    let labels = [4, 0, 2];
    let loss_of = |logits: &[f32]| f64::from(loss::forward(&labels, &mut logits.to_vec()).loss);
    let mut rows = logits.clone();
    let metrics = loss::forward(&labels, &mut rows);
    for row in rows.chunks_exact(5) {
        assert!(
            (row.iter().sum::<f32>() - 1.0).abs() < 1e-6,
            "probabilities"
        );
    }
    let expected = labels
        .iter()
        .enumerate()
        .map(|(i, l)| -rows[i * 5 + *l as usize].ln());
    assert!((metrics.loss - expected.sum::<f32>() / 3.0).abs() < 1e-6);
    loss::backward(&labels, &mut rows);
    compare("logit", &logits, &rows, loss_of);
    // Logits of any size are no trouble, and the right ones are counted.
    let mut rows = vec![1e30, -1e30, 0.0, 0.0, 0.0, 1e30, 1e30, 2e30, 0.0, 0.0];
    let metrics = loss::forward(&[0, 1], &mut rows);
    assert_eq!(metrics.correct, 1);
    assert!(rows.iter().all(|p| p.is_finite()));
}

#[test]
fn the_optimizer() {
    let sgd = Sgd {
        learning_rate: 0.5,
        momentum: 0.9,
        weight_decay: 0.1,
    };
    let (mut parameter, mut momentum) = ([1.0, -2.0], [0.0, 0.0]);
    sgd.step(&[1.0, 1.0], &mut parameter, &mut momentum);
    assert_eq!(momentum, [1.1, 0.8]);
    assert_eq!(parameter, [1.0 - 0.55, -2.4]);
    sgd.step(&[0.0, 0.0], &mut parameter, &mut momentum);
    let expected = 0.9 * 1.1 + 0.1 * (1.0 - 0.55);
    assert!((momentum[0] - expected).abs() < 1e-6);
}
