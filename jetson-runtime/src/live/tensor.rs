//! Tensors as an application names them.

use std::fmt;

use vtensor::{Bytes, Mode, TensorKind};

/// A kind of iteration: the application's own number for it. Iterations of one kind are expected to
/// run the same ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramKey(pub u64);

impl fmt::Display for ProgramKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A handle. It is a plain number; one that is used after its tensor was destroyed is refused.
///
/// Persistent: generation in bits 32..63, row in bits 0..32. Transient: bit 63, the iteration in
/// bits 32..63, the number of its creation in the iteration in bits 0..32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tensor(u64);

const TRANSIENT: u64 = 1 << 63;
const MIDDLE: u64 = 0x7fff_ffff;

impl Tensor {
    /// The handle as a number, for foreign interfaces.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// A handle that came from [`Self::to_bits`]. Any other number is refused where it is used.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn persistent(row: u32, generation: u32) -> Self {
        Self(((generation as u64 & MIDDLE) << 32) | row as u64)
    }

    /// The tensor that is created as number `number` of the iteration with serial number `serial`.
    pub(super) const fn transient(number: u32, serial: u32) -> Self {
        Self(TRANSIENT | ((serial as u64 & MIDDLE) << 32) | number as u64)
    }

    pub(super) const fn is_transient(self) -> bool {
        self.0 & TRANSIENT != 0
    }

    /// The row, or the number in the iteration.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) const fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:#x})", self.0)
    }
}

/// A tensor in recordings: as its handle, but the same in every iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(Tensor);

impl Key {
    /// The key of a persistent tensor.
    pub(super) const fn persistent(tensor: Tensor) -> Self {
        Self(tensor)
    }

    /// The key of the tensor that an iteration creates as number `number`.
    pub(super) const fn transient(number: u32) -> Self {
        Self(Tensor::transient(number, 0))
    }

    pub(super) const fn is_transient(self) -> bool {
        self.0.is_transient()
    }

    pub(super) const fn index(self) -> usize {
        self.0.index()
    }

    /// The handle in the iteration with serial number `serial`.
    pub(super) const fn handle(self, serial: u32) -> Tensor {
        if self.is_transient() {
            Tensor(self.0.0 | ((serial as u64 & MIDDLE) << 32))
        } else {
            self.0
        }
    }
}

/// A tensor to be created.
#[derive(Clone, Copy, Debug)]
pub struct TensorDesc<'a> {
    /// The application's name for it, for reports; may be empty.
    pub name: &'a str,
    /// Its size; not 0.
    pub bytes: Bytes,
    /// What it is for.
    pub kind: TensorKind,
    /// Whether its content may be forgotten at the end of an iteration. Only counts for tensors
    /// that outlive one; those are kept by default, even if the next iteration overwrites them,
    /// because the application may read them in between, and another kind of iteration may come
    /// next.
    pub scratch: bool,
    /// Whether its address never changes, in ops and between them. It then takes whole pages of the
    /// system.
    pub fixed: bool,
}

impl<'a> TensorDesc<'a> {
    /// A tensor that is not scratch, and not fixed.
    #[must_use]
    pub const fn new(name: &'a str, bytes: Bytes, kind: TensorKind) -> Self {
        Self {
            name,
            bytes,
            kind,
            scratch: false,
            fixed: false,
        }
    }
}

/// How an op uses a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which.
    pub tensor: Tensor,
    /// How.
    pub mode: Mode,
}

impl Access {
    /// The op reads the tensor.
    #[must_use]
    pub const fn read(tensor: Tensor) -> Self {
        Self {
            tensor,
            mode: Mode::Read,
        }
    }

    /// The op overwrites the whole tensor.
    #[must_use]
    pub const fn write(tensor: Tensor) -> Self {
        Self {
            tensor,
            mode: Mode::Write,
        }
    }

    /// The op changes the tensor, or writes a part of it.
    #[must_use]
    pub const fn read_write(tensor: Tensor) -> Self {
        Self {
            tensor,
            mode: Mode::ReadWrite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_handles_without_the_iteration() {
        let handle = Tensor::transient(7, 0x8000_0005);
        assert_eq!(Key::transient(7).handle(0x8000_0005), handle);
        assert_ne!(Key::transient(7).handle(6), handle);
        assert!(handle.is_transient() && handle.index() == 7);
        let kept = Tensor::persistent(u32::MAX, u32::MAX);
        assert!(!kept.is_transient() && kept.index() == u32::MAX as usize);
        assert_eq!(Key::persistent(kept).handle(9), kept);
    }
}
