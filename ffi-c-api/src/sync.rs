//! What a slot is made of. `jetson-runtime/orders` compiles [`slot`](crate::slot) with a `sync` of
//! its own, and so runs it in every order that the memory model allows.

pub(crate) use core::cell::UnsafeCell;
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
