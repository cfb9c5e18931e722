//! Effective speed of a training step's matrix products, over the product crate's own best.
//!
//! `cargo bench -p vtensor-bench --bench matmul`. For each convolution of ResNet-20 the products of
//! one block, as the kernels multiply them; then the whole kernels, which also gather windows and
//! add them back. The crate's best is the fastest of some square products. The goal is 0.7 for the
//! products of all convolutions together.

use std::time::Instant;

use vtensor_bench::train::kernels::Convolution;
use vtensor_bench::train::kernels::matmul::{matrix, multiply};
use vtensor_bench::train::model::{Kind, Shape, zoo};

const IMAGES: usize = 8;
const SQUARES: [usize; 4] = [128, 256, 512, 1024];
const GOAL: f64 = 0.7;
/// Runs of each measurement, of which the fastest counts: the rest is other work on the machine.
const RUNS: usize = 40;

fn main() {
    let best = SQUARES.map(square).into_iter().fold(0.0, f64::max);
    println!("best square product: {:.1} GFLOP/s", best / 1e9);
    println!(
        "{:<26}{:>3}  {:>22}{:>10}  {:>22}",
        "convolution", "n", "forward weights  input", "products", "whole kernels"
    );
    let mut seconds = [0.0; 2];
    let mut flops = 0.0;
    for (convolution, count) in shapes() {
        let products = products(&convolution);
        let kernels = kernels(&convolution);
        let output = convolution.output();
        let own = 2.0 * (output.pixels() * convolution.weights()) as f64;
        for (sum, rates) in seconds.iter_mut().zip([products, kernels]) {
            *sum += rates
                .iter()
                .map(|rate| count as f64 * own / rate)
                .sum::<f64>();
        }
        flops += 3.0 * count as f64 * own;
        let [forward, weights, input] = products.map(|rate| rate / best);
        let together = 3.0 / products.iter().map(|rate| best / rate).sum::<f64>();
        let [f, w, i] = kernels.map(|rate| rate / best);
        println!(
            "{:<26}{count:>3}  {forward:>8.2}{weights:>7.2}{input:>7.2}{together:>10.2}  \
             {f:>8.2}{w:>7.2}{i:>7.2}",
            format!(
                "{}x{}x{} to {}x{}x{}",
                convolution.input.height,
                convolution.input.width,
                convolution.input.channels,
                output.height,
                output.width,
                output.channels
            ),
        );
    }
    let [products, kernels] = seconds.map(|seconds| flops / seconds / best);
    println!(
        "all, over the best: products {products:.3} (goal {GOAL}), whole kernels {kernels:.3}"
    );
    assert!(products >= GOAL, "the products have become slow");
}

/// Each convolution of ResNet-20 with how often it is there.
fn shapes() -> Vec<(Convolution, usize)> {
    let images = Shape {
        height: 32,
        width: 32,
        channels: 3,
    };
    let mut shapes: Vec<(Convolution, usize)> = Vec::new();
    for layer in zoo::resnet20(images, 10).layers {
        let Kind::Convolution(convolution) = layer.kind else {
            continue;
        };
        match shapes.iter_mut().find(|(known, _)| *known == convolution) {
            Some((_, count)) => *count += 1,
            None => shapes.push((convolution, 1)),
        }
    }
    shapes
}

/// FLOP/s of a square product.
fn square(size: usize) -> f64 {
    let (left, right) = (numbers(size * size), numbers(size * size));
    let mut result = numbers(size * size);
    let flops = 2.0 * size.pow(3) as f64;
    flops
        / fastest(|| {
            let (left, right) = (matrix(&left, size, size), matrix(&right, size, size));
            multiply(&left, &right, false, &mut result);
        })
}

/// FLOP/s of the three products of one block.
fn products(convolution: &Convolution) -> [f64; 3] {
    let (window, channels) = (convolution.window(), convolution.channels);
    let pixels = convolution.workspace(IMAGES) / window;
    let mut patches = numbers(pixels * window);
    let mut output = numbers(pixels * channels);
    let mut weights = numbers(convolution.weights());
    let flops = 2.0 * (pixels * convolution.weights()) as f64;
    let forward = fastest(|| {
        let weights = matrix(&weights, channels, window);
        multiply(
            &matrix(&patches, pixels, window),
            &weights.t(),
            false,
            &mut output,
        );
    });
    let by_weights = fastest(|| {
        let output = matrix(&output, pixels, channels);
        multiply(
            &output.t(),
            &matrix(&patches, pixels, window),
            true,
            &mut weights,
        );
    });
    let by_input = fastest(|| {
        let output = matrix(&output, pixels, channels);
        multiply(
            &output,
            &matrix(&weights, channels, window),
            false,
            &mut patches,
        );
    });
    [forward, by_weights, by_input].map(|seconds| flops / seconds)
}

/// FLOP/s of the three kernels.
fn kernels(convolution: &Convolution) -> [f64; 3] {
    let mut input = numbers(IMAGES * convolution.input.floats());
    let mut output = numbers(IMAGES * convolution.output().floats());
    let mut weights = numbers(convolution.weights());
    let mut space = numbers(convolution.workspace(IMAGES));
    let pixels = IMAGES * convolution.output().pixels();
    let flops = 2.0 * (pixels * convolution.weights()) as f64;
    let forward = fastest(|| convolution.forward(&input, &weights, &mut output, &mut space));
    let by_weights =
        fastest(|| convolution.backward_weights(&input, &output, &mut weights, &mut space));
    // Gradients would grow from run to run.
    weights.fill(1e-3);
    let by_input = fastest(|| {
        input.fill(0.0);
        convolution.backward_input(&weights, &output, &mut input, &mut space);
    });
    [forward, by_weights, by_input].map(|seconds| flops / seconds)
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at % 13) as f32 / 1e3).collect()
}

fn fastest(mut run: impl FnMut()) -> f64 {
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}
