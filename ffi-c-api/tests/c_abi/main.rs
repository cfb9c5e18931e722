//! The C ABI from outside: headers, exports, layouts, symbols, and C programs that use them.
//!
//! | module | noun |
//! |---|---|
//! | `api` | an interface: functions, structs, callbacks, numbers |
//! | `header` | the interface that the C headers declare |
//! | `exports` | the interface that the Rust sources export |
//! | `drift` | header and exports held together, and both with the committed symbols |
//! | `layout` | sizes and offsets, as Rust, C and the committed list have them |
//! | `compiler` | C and C++ compilers, and what they link with |
//! | `programs` | C programs, built and run |
//!
//! Without a compiler the tests that need one are skipped, which they say on the terminal.

mod api;
mod compiler;
mod drift;
mod exports;
mod header;
mod layout;
mod programs;
