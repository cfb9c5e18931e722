//! Batch normalisation, against its definition and against finite differences.

use super::{assert_close, compare, random, weighted, weights};
use crate::train::kernels::batch_norm::{Backward, Evaluate, Forward};

const PIXELS: usize = 150;

struct Sample {
    channels: usize,
    input: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
}

struct Outcome {
    output: Vec<f32>,
    saved: Vec<f32>,
    mean: Vec<f32>,
    variance: Vec<f32>,
}

impl Sample {
    fn new(channels: usize, pixels: usize) -> Self {
        Self {
            channels,
            input: random(channels * pixels, 1),
            gamma: random(channels, 2),
            beta: random(channels, 3),
        }
    }

    fn forward(&self) -> Outcome {
        let channels = self.channels;
        let mut outcome = Outcome {
            output: vec![f32::NAN; self.input.len()],
            saved: vec![f32::NAN; 2 * channels],
            mean: vec![0.5; channels],
            variance: vec![2.0; channels],
        };
        Forward {
            input: &self.input,
            gamma: &self.gamma,
            beta: &self.beta,
            output: &mut outcome.output,
            saved: &mut outcome.saved,
            mean: &mut outcome.mean,
            variance: &mut outcome.variance,
        }
        .run();
        outcome
    }

    /// Mean and sum of squared differences from it, of a channel.
    fn statistics(&self, channel: usize) -> (f32, f32) {
        let numbers = self.input.iter().skip(channel).step_by(self.channels);
        let numbers: Vec<f64> = numbers.map(|x| f64::from(*x)).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
        #[allow(clippy::cast_possible_truncation)]
        (mean as f32, squares as f32)
    }
}

#[test]
fn statistics_are_those_of_each_channel() {
    for channels in [1, 3, 16, 21] {
        let sample = Sample::new(channels, PIXELS);
        let found = sample.forward();
        for channel in 0..channels {
            let (mean, squares) = sample.statistics(channel);
            let running = 0.5 + 0.1 * (mean - 0.5);
            assert!((found.mean[channel] - running).abs() < 1e-5);
            let running = 2.0 + 0.1 * (squares / (PIXELS - 1) as f32 - 2.0);
            assert!((found.variance[channel] - running).abs() < 1e-5);
            let inverse = 1.0 / (squares / PIXELS as f32 + 1e-5).sqrt();
            let at = (PIXELS - 1) * channels + channel;
            let expected = (sample.input[at] - mean) * inverse;
            let expected = expected * sample.gamma[channel] + sample.beta[channel];
            assert!((found.output[at] - expected).abs() < 1e-5);
        }
        let mut evaluated = vec![f32::NAN; sample.input.len()];
        let variance: Vec<f32> = found.saved[channels..]
            .iter()
            .map(|i| i.powi(-2) - 1e-5)
            .collect();
        Evaluate {
            input: &sample.input,
            gamma: &sample.gamma,
            beta: &sample.beta,
            output: &mut evaluated,
            mean: &found.saved[..channels],
            variance: &variance,
        }
        .run();
        assert_close(&evaluated, &found.output);
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for channels in [3, 16, 18] {
        let sample = Sample::new(channels, 7);
        let saved = sample.forward().saved;
        let mut gradient = weights(sample.input.len());
        let (mut gamma, mut beta) = (vec![f32::NAN; channels], vec![f32::NAN; channels]);
        Backward {
            input: &sample.input,
            gamma: &sample.gamma,
            saved: &saved,
            gradient: &mut gradient,
            gamma_gradient: &mut gamma,
            beta_gradient: &mut beta,
        }
        .run();
        let loss = |sample: &Sample| weighted(&sample.forward().output);
        compare("input", &sample.input, &gradient, |moved| {
            loss(&Sample {
                input: moved.to_vec(),
                ..Sample::new(channels, 7)
            })
        });
        compare("gamma", &sample.gamma, &gamma, |moved| {
            loss(&Sample {
                gamma: moved.to_vec(),
                ..Sample::new(channels, 7)
            })
        });
        compare("beta", &sample.beta, &beta, |moved| {
            loss(&Sample {
                beta: moved.to_vec(),
                ..Sample::new(channels, 7)
            })
        });
    }
}
