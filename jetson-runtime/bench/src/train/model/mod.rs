//! Networks: their layers, and what these need.

mod shape;

pub use shape::Shape;
