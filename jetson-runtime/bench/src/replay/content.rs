//! The persistent tensors, read back between iterations and checked.

use jetson_runtime::{Frozen, RuntimeError, pattern};
use lgm::program::Home;
use sha2::{Digest, Sha256};

use super::ops::Ops;
use super::witness::Sum;
use crate::error::BenchError;

/// Tensors are read in parts of this size.
const PART_BYTES: usize = 256 << 10;

/// Reads every byte that HOME keeps, counts the wrong ones, and returns the digest of what was
/// found, in planned units. What HOME says is dead must be refused by the runtime.
pub(super) fn read_back(
    ops: &mut Ops<'_>,
    frozen: &mut Frozen,
    homes: &[Home],
    piece: u64,
) -> Result<Sum, BenchError> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; PART_BYTES];
    for home in homes {
        let tensor = home.tensor;
        let bytes = frozen.tensor_bytes(tensor).map_or(0, |bytes| bytes.0);
        let start = u64::from(home.pieces.first) * piece;
        let end = bytes.min(home.pieces.end() * piece);
        let kept = home.place.is_some() || home.slot.is_some();
        let last = ops.versions.last(tensor);
        let mut wrong = 0;
        let mut offset = start;
        while kept && offset < end {
            let part =
                usize::try_from(end - offset).map_or(PART_BYTES, |left| left.min(PART_BYTES));
            frozen.read(tensor, offset, &mut buffer[..part])?;
            let version = ops.versions.version(last);
            wrong += pattern::check(&buffer[..part], tensor.0, version, offset);
            offset += part as u64;
        }
        if !kept {
            let found = frozen.read(tensor, start, &mut buffer[..1]);
            assert!(
                matches!(found, Err(RuntimeError::Dead { .. })),
                "tensor {tensor} holds nothing at byte {start}, reading it gave {found:?}"
            );
        }
        ops.found(wrong, bytes, None, tensor);
        hash.update(tensor.0.to_le_bytes());
        hash.update(home.pieces.first.to_le_bytes());
        hash.update(home.pieces.count.to_le_bytes());
        hash.update([u8::from(kept)]);
        hash.update(last.writes.to_le_bytes());
        hash.update(wrong.to_le_bytes());
    }
    Ok(hash.finalize().into())
}
