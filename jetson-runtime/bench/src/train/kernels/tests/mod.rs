//! Every gradient against finite differences, every fast kernel against a naive one.

mod convolution;
mod normalisation;
mod others;

use oorandom::Rand32;

/// Numbers between -1 and 1.
fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Rand32::new(seed);
    (0..count)
        .map(|_| random.rand_float() * 2.0 - 1.0)
        .collect()
}

/// A loss that depends on every output, each in its own way.
fn weighted(output: &[f32]) -> f64 {
    let weights = random(output.len(), 99);
    let products = output.iter().zip(weights);
    products.map(|(y, w)| f64::from(*y) * f64::from(w)).sum()
}

/// The gradient of [`weighted`].
fn weights(outputs: usize) -> Vec<f32> {
    random(outputs, 99)
}

/// Compares a gradient with what `loss` does when each number of `at` moves a little both ways.
fn compare(what: &str, at: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
    const STEP: f32 = 1.0 / 128.0;
    assert_eq!(at.len(), gradient.len(), "{what}");
    assert!(gradient.iter().any(|g| *g != 0.0), "{what} has a gradient");
    let mut moved = at.to_vec();
    for (index, expected) in gradient.iter().enumerate() {
        moved[index] = at[index] + STEP;
        let above = loss(&moved);
        moved[index] = at[index] - STEP;
        let below = loss(&moved);
        moved[index] = at[index];
        let found = (above - below) / f64::from(2.0 * STEP);
        let error = (found - f64::from(*expected)).abs();
        let allowed = 2e-3 * (1.0 + f64::from(expected.abs()));
        assert!(
            error <= allowed,
            "{what} {index}: {expected} is the gradient, {found} is the difference"
        );
    }
}

fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-5 * (1.0 + expected.abs()),
            "{index}: {found}, {expected}"
        );
    }
}
