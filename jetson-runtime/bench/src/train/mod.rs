//! Real training inside too little memory, and what it costs.
//!
//! In: a model, images, a budget, policies. Out: for each policy what the training came to and
//! whether it is, to the bit, what it is without a limit.
//!
//! | module | noun |
//! |---|---|
//! | [`data`] | images |
//! | [`kernels`] | what ops compute |
//! | [`model`] | networks |
//! | [`step`] | one iteration: its ops, and tensors in memory of the runtime |
//! | [`trainer`] | a model in training |
//! | [`weights`] | a model as a file |
//! | [`course`] | which images when |

pub mod course;
pub mod data;
pub mod kernels;
pub mod model;
pub mod step;
pub mod trainer;
pub mod weights;
