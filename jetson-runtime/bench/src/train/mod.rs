//! Training.

pub mod kernels;
pub mod model;
