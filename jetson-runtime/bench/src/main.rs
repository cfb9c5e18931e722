//! The on-device benchmark of vTensor.
fn main() {}
