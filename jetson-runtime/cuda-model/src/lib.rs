//! A software model of the CUDA driver that checks who uses it.
//!
//! In: calls of the driver API, by a program that loaded this library in the driver's place. Out:
//! what the driver would do, on host memory and with threads for streams; and reports of what the
//! program did wrong, even where its timing was lucky. Tests steer it through [`Control`].
//!
//! | module | noun |
//! |---|---|
//! | `abi` | the C functions: the driver's, and the model's own |
//! | `driver` | the driver's objects, and what each call does to them |
//! | `check` | what is ordered before what: pure, compared with a naive model |
//! | `space`, `residency` | addresses and what is behind them; where managed bytes are; both pure |
//! | `engine` | streams as threads, records, copy engines |
//! | `kernel` | the kernels that are known by name |
//! | `memory` | the system's memory: mapping, copying, filling |
//! | `profile`, `status` | the devices; the codes |
//! | `faults` | which calls fail, and how |
//! | `control`, `library`, `error`, `stamp` | what tests hold: the library found, copied, steered |
//!
//! The README beside this says what is modelled, what is checked by which rule, and what is not.
//!
//! Unsafe code is where C calls in (`abi`), where memory is (`memory` and its callers, who say why
//! their addresses are mapped), and where a library is loaded (`control`).

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
mod residency;
mod space;
mod stamp;
mod status;

pub use control::{Control, Failing, Managed};
pub use error::ModelError;
pub use library::library;
