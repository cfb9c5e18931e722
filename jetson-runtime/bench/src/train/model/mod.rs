//! Networks: their layers, and what these need.
//!
//! *Not here*: memory and ops ([`step`](crate::train::step)), arithmetic
//! ([`kernels`](crate::train::kernels)).
//!
//! | module | noun |
//! |---|---|
//! | `shape` | one image at a place of the network |
//! | `layer` | what a layer computes, learns, needs again |
//! | `network` | layers and the values between them |
//! | [`zoo`] | the networks that can be trained |

mod layer;
mod network;
mod shape;
pub mod zoo;

pub use layer::{Kind, Layer, Start, Weights};
pub use network::Network;
pub use shape::Shape;
