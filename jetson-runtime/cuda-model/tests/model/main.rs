//! The model, through its C ABI, as a program meets it.

#![allow(clippy::unwrap_used, reason = "a test that panics says where")]

mod api;
mod faults;
mod load;
mod managed;
mod misuse;
mod order;
mod page_table;
mod profiles;
mod registered;
mod smoke;
mod stress;
mod vmm;
