//! What the ops of a training step compute, on slices of 32-bit floats.
//!
//! In: a batch as one image after the other, an image as rows of pixels, a pixel as all its
//! channels; parameters; gradients. Out: written through mutable slices that the caller owns.
//!
//! Guarantees: one thread; the same bits for the same numbers, wherever the slices lie; no memory
//! of their own but the matrix product's ([`matmul`]). Each output that is not said to be updated
//! or added to is overwritten, all of it.
//!
//! *Not here*: which op comes when ([`model`](crate::train::model)), and memory.
//!
//! | module | noun |
//! |---|---|
//! | [`matmul`] | products of matrices |
//! | [`convolution`], `patches` | convolution, and the windows that it looks through |
//! | [`batch_norm`], `columns` | normalisation of channels |
//! | [`elementwise`] | the rectifier, and sums of branches |
//! | [`pool`] | largest numbers and means |
//! | [`linear`] | a linear layer |
//! | [`loss`] | softmax and cross-entropy |
//! | [`sgd`] | the optimizer |

pub mod batch_norm;
mod columns;
pub mod convolution;
pub mod elementwise;
pub mod linear;
pub mod loss;
pub mod matmul;
mod patches;
pub mod pool;
pub mod sgd;

#[cfg(test)]
mod tests;

pub use convolution::Convolution;
