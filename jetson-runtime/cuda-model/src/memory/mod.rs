//! Memory as the operating system has it: all that is unsafe about it.
//!
//! | module | noun |
//! |---|---|
//! | `span` | reserved addresses, at which parts of a file can be shown |
//! | `physical` | the device's memory: one memory file, of which allocations are parts |
//! | `bytes` | copying, filling and comparing bytes at addresses |

pub(crate) mod bytes;
pub(crate) mod physical;
pub(crate) mod span;
