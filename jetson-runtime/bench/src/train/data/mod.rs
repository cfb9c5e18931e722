//! Images to train with.
//!
//! In: a built-in file, a folder of CIFAR-10, or nothing. Out: a [`Dataset`] in host memory, whole.
//! Guarantees: the same images, split and order each time; nothing that is damaged gets through.
//!
//! | module | noun |
//! |---|---|
//! | [`images`] | labelled images, and how they become numbers |
//! | [`digits`] | real handwritten digits, built in |
//! | [`cifar`] | CIFAR-10, from a folder |
//! | [`generated`] | made-up images of that size |
//! | [`order`] | in which order images are learnt from |
//! | [`error`] | why images cannot be used |

pub mod cifar;
pub mod digits;
pub mod error;
pub mod generated;
pub mod images;
pub mod order;

pub use error::DataError;
pub use images::{Dataset, Images};
use order::shuffled;
