//! A software model of the CUDA driver that checks who uses it.
//!
//! In: calls of the driver API, by a program that loaded this library in the driver's place. Out:
//! what the driver would do, on host memory and with threads for streams; and reports of what the
//! program did wrong, even where its timing was lucky. Tests steer it through [`Control`].

mod abi;
mod check;
mod control;
mod driver;
mod engine;
mod error;
mod faults;
mod kernel;
mod library;
mod memory;
mod profile;
mod space;
mod stamp;
mod status;

pub use control::{Control, Failing};
pub use error::ModelError;
pub use library::library;
