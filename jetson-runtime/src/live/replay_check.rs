//! A check of an op that says that it may run again: it does so right after it has run, on copies.
//!
//! In: the tensors of an op before and after it ran. Out: whether it leaves the same bits again,
//! from what it found at first; and whether what it overwrites stays the same if what it changes
//! holds something later by then, as when only a part of what it makes is wanted.
//!
//! Limits: the copies are memory beside the budget. An op that seldom differs may pass.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{Ordering, compiler_fence};

use super::op::{Op, Replayer, Row, Token};

/// Memory as tensors are aligned.
#[repr(align(512))]
#[derive(Clone, Copy)]
struct Block(#[expect(dead_code, reason = "its bytes are used by address")] [u8; 512]);

/// A tensor that the op writes, by the address that it has there.
struct Copied {
    original: NonNull<u8>,
    reads: bool,
    /// What it held before the op, if the op reads it.
    before: Vec<u8>,
    blocks: Vec<Block>,
}

// SAFETY: an address that is followed only while the op is open, by who has the runtime.
unsafe impl Send for Copied {}
// SAFETY: as above.
unsafe impl Sync for Copied {}

/// An op that is open, and what it found.
pub(super) struct ReplayCheck {
    token: Token,
    copies: Vec<Copied>,
}

impl ReplayCheck {
    /// Of an op that has not run yet, with its tensors.
    pub(super) fn new(token: Token, rows: &[Row]) -> Self {
        let mut copies: Vec<Copied> = Vec::new();
        for row in rows.iter().filter(|row| row.mode.writes()) {
            if copies.iter().all(|copy| copy.original != row.pointer) {
                let reads = row.mode.reads();
                copies.push(Copied {
                    original: row.pointer,
                    reads,
                    before: if reads {
                        bytes(row).to_vec()
                    } else {
                        Vec::new()
                    },
                    blocks: vec![Block([0xa5; 512]); row.bytes.div_ceil(512)],
                });
            }
        }
        Self { token, copies }
    }

    /// Runs the op again, which has run. The error is a sentence for people.
    pub(super) fn run(mut self, rows: &[Row], replayer: &mut Replayer) -> Result<(), &'static str> {
        self.again(rows, replayer, |copy, _| copy.before.clone())?;
        if self.differs(rows, |_| true) {
            return Err("it left other bits when it ran again");
        }
        let [changes, overwrites] = [true, false].map(|reads| {
            let mut copies = self.copies.iter();
            copies.any(|copy| copy.reads == reads)
        });
        if changes && overwrites {
            self.again(rows, replayer, |_, now| now.to_vec())?;
            if self.differs(rows, |copy| !copy.reads) {
                return Err("what it changes has an influence on what it overwrites");
            }
        }
        Ok(())
    }

    /// Runs the op on copies; `begin` says what those begin with that it changes.
    fn again(
        &mut self,
        rows: &[Row],
        replayer: &mut Replayer,
        begin: impl Fn(&Copied, &[u8]) -> Vec<u8>,
    ) -> Result<(), &'static str> {
        let mut here = rows.to_vec();
        for row in here.iter_mut().filter(|row| row.mode.writes()) {
            let copy = self.copies.iter_mut();
            let copy = copy.into_iter().find(|copy| copy.original == row.pointer);
            let copy = copy.expect("what is written has a copy");
            copy.blocks.fill(Block([0xa5; 512]));
            if copy.reads {
                let content = begin(copy, bytes(row));
                copy.mut_bytes(content.len()).copy_from_slice(&content);
            }
            row.pointer = NonNull::from(&mut *copy.blocks).cast();
        }
        compiler_fence(Ordering::SeqCst);
        let ran = replayer(self.token, &mut Op::new(&here, true));
        compiler_fence(Ordering::SeqCst);
        ran
    }

    /// Whether a copy is not what the op has left, of those that count.
    fn differs(&mut self, rows: &[Row], counts: impl Fn(&Copied) -> bool) -> bool {
        let mut counted = self.copies.iter_mut().filter(|copy| counts(copy));
        counted.any(|copy| {
            let mut rows = rows.iter();
            let row = rows.find(|row| row.pointer == copy.original);
            let left = bytes(row.expect("copies are of tensors of the op"));
            copy.mut_bytes(left.len()) != left
        })
    }
}

impl Copied {
    fn mut_bytes(&mut self, bytes: usize) -> &mut [u8] {
        let blocks: *mut Block = self.blocks.as_mut_ptr();
        // SAFETY: blocks are bytes without padding, and there are as many as the tensor has.
        unsafe { slice::from_raw_parts_mut(blocks.cast(), bytes) }
    }
}

/// The bytes of a tensor of the open op.
fn bytes(row: &Row) -> &[u8] {
    // SAFETY: the op is open, its tensors are in mapped memory, and nobody writes them meanwhile:
    // the application is in a call of the runtime.
    unsafe { slice::from_raw_parts(row.pointer.as_ptr(), row.bytes) }
}
