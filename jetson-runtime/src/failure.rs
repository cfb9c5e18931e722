//! A failed copy: which, of what, and why. Plain data without a heap, so that an engine can make
//! it and the step path can return it.

use std::fmt;

use heapless::String;
use nix::errno::Errno;
use vtensor::{Bytes, PieceRun, TensorId};

pub use crate::direction::Direction;

/// How many bytes of a tensor's name a report keeps.
pub const FAILURE_NAME_BYTES: usize = 48;

/// A name without a heap.
pub type ShortName = String<FAILURE_NAME_BYTES, u8>;

/// A failed copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The queue.
    pub direction: Direction,
    /// The command's number in its queue.
    pub command: u32,
    /// The iteration whose step released it, counted from 1.
    pub iteration: u64,
    /// Whose pieces.
    pub tensor: TensorId,
    /// The name of the tensor; a long one is cut.
    pub name: ShortName,
    /// Which pieces.
    pub pieces: PieceRun,
    /// Their bytes, as executed.
    pub bytes: Bytes,
    /// Where in them it failed, as executed: bytes of the copy before.
    pub offset: Bytes,
    /// What the system said. `EBADMSG`: what was read back is not what was written.
    pub errno: Errno,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} of iteration {} failed (tensor {}",
            self.direction, self.command, self.iteration, self.tensor
        )?;
        if !self.name.is_empty() {
            write!(f, " '{}'", self.name)?;
        }
        write!(
            f,
            ", pieces {}..{}, {} bytes, at byte {}): {}; the program cannot go on, abandon it and \
             save what is intact",
            self.pieces.first,
            self.pieces.end(),
            self.bytes.0,
            self.offset.0,
            said(self.errno)
        )
    }
}

/// An error of the system, or of a seal, in words.
pub(crate) fn said(errno: Errno) -> &'static str {
    match errno {
        Errno::EBADMSG => {
            "what was read back is not what was written: the spill file was changed, or its \
             medium fails"
        }
        errno => errno.desc(),
    }
}

/// As much of a name as a report keeps, cut at a character.
pub(crate) fn short_name(name: &str) -> ShortName {
    let mut short = String::new();
    for character in name.chars() {
        if short.push(character).is_err() {
            break;
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let name = "é".repeat(FAILURE_NAME_BYTES);
        assert_eq!(short_name(&name).chars().count(), FAILURE_NAME_BYTES / 2);
        assert_eq!(short_name("weight").as_str(), "weight");
    }
}
