//! Pieces: the page-sized slices of a tensor that move and are mapped on their own (*vTensors*).

use serde::{Deserialize, Serialize};

use crate::bytes::{Bytes, PageBytes};

/// How a tensor of some size is cut into pieces: whole pages, and a last one that may be partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    tensor: Bytes,
    page: PageBytes,
}

/// Consecutive pieces of one tensor: `first .. first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PieceRun {
    /// The first piece.
    pub first: u32,
    /// How many, at least one.
    pub count: u32,
}

impl Pieces {
    /// The pieces of a tensor of `tensor` bytes on pages of `page` bytes.
    #[must_use]
    pub const fn of(tensor: Bytes, page: PageBytes) -> Self {
        Self { tensor, page }
    }

    /// How many pieces there are; 0 for an empty tensor.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.page.pages_for(self.tensor)
    }

    /// The offset of a run inside the tensor. The run must lie in the tensor.
    #[must_use]
    pub const fn offset(self, run: PieceRun) -> Bytes {
        Bytes(run.first as u64 * self.page.get())
    }

    /// The bytes that a run holds of the tensor, the last piece with its own size; `None` if the
    /// run is empty or leaves the tensor.
    #[must_use]
    pub const fn bytes(self, run: PieceRun) -> Option<Bytes> {
        let end = run.first as u64 + run.count as u64;
        if run.count == 0 || end > self.count() {
            return None;
        }
        let start_bytes = run.first as u64 * self.page.get();
        let end_bytes = match end * self.page.get() {
            whole if whole < self.tensor.0 => whole,
            _ => self.tensor.0,
        };
        Some(Bytes(end_bytes - start_bytes))
    }
}

impl PieceRun {
    /// One past the last piece.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.first as u64 + self.count as u64
    }

    /// Whether the run holds that piece.
    #[must_use]
    pub const fn contains(self, piece: u32) -> bool {
        piece >= self.first && (piece as u64) < self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageBytes = PageBytes::MIN;

    #[test]
    fn the_last_piece_has_its_own_size() {
        let pieces = Pieces::of(Bytes(2 * 4096 + 100), PAGE);
        assert_eq!(pieces.count(), 3);
        assert_eq!(
            pieces.bytes(PieceRun { first: 0, count: 3 }),
            Some(Bytes(8292))
        );
        assert_eq!(
            pieces.bytes(PieceRun { first: 2, count: 1 }),
            Some(Bytes(100))
        );
        assert_eq!(
            pieces.bytes(PieceRun { first: 0, count: 2 }),
            Some(Bytes(8192))
        );
    }

    #[test]
    fn a_run_outside_the_tensor_has_no_bytes() {
        let pieces = Pieces::of(Bytes(4096), PAGE);
        for run in [
            PieceRun { first: 0, count: 0 },
            PieceRun { first: 0, count: 2 },
            PieceRun { first: 1, count: 1 },
            PieceRun {
                first: u32::MAX,
                count: u32::MAX,
            },
        ] {
            assert_eq!(pieces.bytes(run), None, "{run:?}");
        }
        assert_eq!(Pieces::of(Bytes(0), PAGE).count(), 0);
    }
}
