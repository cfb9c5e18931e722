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
//! | [`run`] | one training under one policy |
//! | [`budget`] | which budget a policy gets |
//! | [`rounds`] | all runs of a comparison |
//! | [`report`], [`table`] | what they say, as JSON and as text |

pub mod budget;
pub mod course;
pub mod data;
pub mod kernels;
pub mod model;
pub mod report;
pub mod rounds;
pub mod run;
pub mod step;
pub mod table;
pub mod trainer;
pub mod weights;
