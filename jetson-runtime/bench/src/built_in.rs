//! The trace that is built in.

/// Its name.
pub(crate) const NAME: &str = "resnet50_b32_sgdm";

/// Its file.
pub(crate) const FILE: &[u8] = include_bytes!("../../../traces/resnet50_b32_sgdm.json.gz");
