//! Random training steps, for property tests and for benchmarks of scale.
//!
//! In: a seed and a [`Shape`]. Out: a [`Trace`] with what real steps have: activations kept for the
//! backward pass, temporaries, ops in place, several readers, gradients, persistent parameters
//! with momenta, buffers, inputs that are overwritten whole, sizes from one byte to many pages,
//! tensors without bytes, ops that take no time, and ops that use nothing.
//!
//! Guarantees: the same seed and shape give the same trace on every machine (integers only, from
//! a generator with a fixed algorithm); the trace has exactly the ops that were asked for.
//!
//! *Not here*: realism. Sizes and durations are drawn, no model is behind them.

mod finish;
mod generator;

use generator::Generator;

use crate::trace::Trace;

/// What a random step looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many ops; at least [`Shape::OPS_MIN`].
    pub ops: usize,
    /// The smallest size of an ordinary tensor; not 0. One in ten is tiny all the same.
    pub bytes_min: u64,
    /// The largest size; not below the smallest.
    pub bytes_max: u64,
    /// How many of 100 layers have a parameter, and so a momentum and a gradient.
    pub parameter_percent: u64,
    /// How many of 100 layers keep their activation for the backward pass.
    pub kept_percent: u64,
    /// Whether one op updates all parameters at once, as multi-tensor optimizers do.
    pub fused_optimizer: bool,
}

impl Shape {
    /// The fewest ops of a step.
    pub const OPS_MIN: usize = 8;

    /// A step for property tests: small enough to be executed, with sizes around small pages.
    pub const SMALL: Self = Self {
        ops: 60,
        bytes_min: 1 << 10,
        bytes_max: 1 << 18,
        parameter_percent: 50,
        kept_percent: 75,
        fused_optimizer: false,
    };

    /// A step for benchmarks of scale: 10,000 ops and more than 5,000 gaps.
    pub const LARGE: Self = Self {
        ops: 10_000,
        bytes_min: 1 << 12,
        bytes_max: 1 << 27,
        ..Self::SMALL
    };
}

/// A random training step.
///
/// # Panics
/// If `shape` breaks its own bounds, or asks for more than [`vtensor::limits`] allow.
#[must_use]
pub fn training_step(seed: u64, shape: &Shape) -> Trace {
    assert!(
        shape.ops >= Shape::OPS_MIN,
        "a step has at least {} ops",
        Shape::OPS_MIN
    );
    assert!(
        0 < shape.bytes_min && shape.bytes_min <= shape.bytes_max,
        "sizes are a range above 0"
    );
    let mut generator = Generator::new(seed, shape);
    generator.step();
    generator.finish(seed)
}
