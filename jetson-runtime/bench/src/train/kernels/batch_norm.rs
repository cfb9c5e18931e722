//! Batch normalisation of each channel.
//!
//! In: batches as rows of pixels. Out: in training the normalised batch, what backward needs of it
//! (`saved`: the means of all channels, then their inverse deviations), and running statistics; in
//! evaluation the batch as the running statistics normalise it.
//!
//! Source: Ioffe and Szegedy, *Batch Normalization*, 2015.

use super::columns::{Columns, ForColumns, for_columns};

/// Added to the variance.
const EPSILON: f32 = 1e-5;
/// How much of a batch's statistics goes into the running ones.
const MOMENTUM: f32 = 0.1;

/// Normalises a batch by its own statistics.
#[derive(Debug)]
pub struct Forward<'a> {
    /// The batch.
    pub input: &'a [f32],
    /// What each channel is multiplied by.
    pub gamma: &'a [f32],
    /// What is added then.
    pub beta: &'a [f32],
    /// The normalised batch, overwritten.
    pub output: &'a mut [f32],
    /// Means, then inverse deviations, overwritten.
    pub saved: &'a mut [f32],
    /// The running means, updated.
    pub mean: &'a mut [f32],
    /// The running variances, updated.
    pub variance: &'a mut [f32],
}

impl Forward<'_> {
    /// Does it.
    pub fn run(mut self) {
        for_columns(self.gamma.len(), &mut self);
    }
}

impl ForColumns for Forward<'_> {
    fn run<const N: usize>(&mut self, columns: Columns<N>) {
        let (input, channels) = (self.input, self.gamma.len());
        let count = (input.len() / channels) as f32;
        let mean = columns
            .sum(input, input, |_, x, _| x)
            .map(|sum| sum / count);
        let squares = columns.sum(input, input, |lane, x, _| (x - mean[lane]).powi(2));
        let variance = squares.map(|sum| sum / count);
        let inverse = variance.map(|variance| 1.0 / (variance + EPSILON).sqrt());
        let (means, inverses) = self.saved.split_at_mut(channels);
        *columns.of_mut(means) = mean;
        *columns.of_mut(inverses) = inverse;
        // The running variance is that of a sample.
        let sample = squares.map(|sum| sum / (count - 1.0).max(1.0));
        follow(columns.of_mut(self.mean), &mean);
        follow(columns.of_mut(self.variance), &sample);
        normalise(
            columns,
            [self.gamma, self.beta],
            &mean,
            &inverse,
            input,
            self.output,
        );
    }
}

fn follow<const N: usize>(running: &mut [f32; N], batch: &[f32; N]) {
    for (running, batch) in running.iter_mut().zip(batch) {
        *running += MOMENTUM * (batch - *running);
    }
}

fn normalise<const N: usize>(
    columns: Columns<N>,
    [gamma, beta]: [&[f32]; 2],
    mean: &[f32; N],
    inverse: &[f32; N],
    input: &[f32],
    output: &mut [f32],
) {
    let (gamma, beta) = (columns.of(gamma), columns.of(beta));
    let factor: [f32; N] = std::array::from_fn(|lane| gamma[lane] * inverse[lane]);
    let change = |lane, x, _| (x - mean[lane]) * factor[lane] + beta[lane];
    columns.apply(input, output, change);
}

/// Normalises a batch by the running statistics.
#[derive(Debug)]
pub struct Evaluate<'a> {
    /// The batch.
    pub input: &'a [f32],
    /// What each channel is multiplied by.
    pub gamma: &'a [f32],
    /// What is added then.
    pub beta: &'a [f32],
    /// The normalised batch, overwritten.
    pub output: &'a mut [f32],
    /// The running means.
    pub mean: &'a [f32],
    /// The running variances.
    pub variance: &'a [f32],
}

impl Evaluate<'_> {
    /// Does it.
    pub fn run(mut self) {
        for_columns(self.gamma.len(), &mut self);
    }
}

impl ForColumns for Evaluate<'_> {
    fn run<const N: usize>(&mut self, columns: Columns<N>) {
        let variance = columns.of(self.variance);
        let inverse = variance.map(|variance| 1.0 / (variance + EPSILON).sqrt());
        let (scale, mean) = ([self.gamma, self.beta], columns.of(self.mean));
        normalise(columns, scale, mean, &inverse, self.input, self.output);
    }
}

/// Turns the gradient of a normalised batch into that of the batch.
#[derive(Debug)]
pub struct Backward<'a> {
    /// The batch, as forward read it.
    pub input: &'a [f32],
    /// What each channel was multiplied by.
    pub gamma: &'a [f32],
    /// What forward saved.
    pub saved: &'a [f32],
    /// The gradient of the output; becomes that of the input.
    pub gradient: &'a mut [f32],
    /// The gradient of `gamma`, overwritten.
    pub gamma_gradient: &'a mut [f32],
    /// The gradient of `beta`, overwritten.
    pub beta_gradient: &'a mut [f32],
}

impl Backward<'_> {
    /// Does it.
    pub fn run(mut self) {
        for_columns(self.gamma.len(), &mut self);
    }
}

impl ForColumns for Backward<'_> {
    fn run<const N: usize>(&mut self, columns: Columns<N>) {
        let channels = self.gamma.len();
        let count = (self.input.len() / channels) as f32;
        let (means, inverses) = self.saved.split_at(channels);
        let (mean, inverse) = (columns.of(means), columns.of(inverses));
        let normal = |lane: usize, x: f32| (x - mean[lane]) * inverse[lane];
        let beta = columns.sum(self.gradient, self.gradient, |_, dy, _| dy);
        let term = |lane, x, dy| normal(lane, x) * dy;
        let gamma = columns.sum(self.input, self.gradient, term);
        *columns.of_mut(self.beta_gradient) = beta;
        *columns.of_mut(self.gamma_gradient) = gamma;
        let scale = columns.of(self.gamma);
        let factor: [f32; N] = std::array::from_fn(|lane| scale[lane] * inverse[lane]);
        columns.apply(self.input, self.gradient, |lane, x, dy| {
            let along = (beta[lane] + normal(lane, x) * gamma[lane]) / count;
            factor[lane] * (dy - along)
        });
    }
}
