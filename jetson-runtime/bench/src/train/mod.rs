//! Training.

pub mod data;
pub mod kernels;
pub mod model;
