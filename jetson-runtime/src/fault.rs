//! An adaptor that fails one copy with a chosen error. For tests of applications, and of this
//! crate: a disk that fails on demand is hard to come by.

use std::time::Instant;

use nix::errno::Errno;

use crate::copier::{Copier, Transfer};
use crate::failure::Direction;
use crate::storage::TransferError;

/// Which copy fails, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The queue.
    pub direction: Direction,
    /// How many copies of the queue succeed before, counted from the freeze on.
    pub after_copies: u64,
    /// What the copy answers.
    pub errno: Errno,
}

/// The adaptor.
pub(crate) struct Faulty<C> {
    inner: C,
    fault: Fault,
    copies: u64,
}

impl<C> Faulty<C> {
    pub(crate) const fn new(inner: C, fault: Fault) -> Self {
        Self {
            inner,
            fault,
            copies: 0,
        }
    }
}

impl<C: Copier> Copier for Faulty<C> {
    unsafe fn copy(
        &mut self,
        transfer: &Transfer,
        ready: Option<Instant>,
    ) -> Result<(), TransferError> {
        if transfer.direction == self.fault.direction {
            self.copies += 1;
            if self.copies == self.fault.after_copies + 1 {
                return Err(self.fault.errno.into());
            }
        }
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { self.inner.copy(transfer, ready) }
    }

    unsafe fn announce(&mut self, transfer: &Transfer) -> bool {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { self.inner.announce(transfer) }
    }
}
