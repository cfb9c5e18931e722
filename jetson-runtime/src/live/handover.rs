//! Handing a tensor over: its bytes go from a frozen program to the heap.
//!
//! In: a program at rest, or one that was stopped in the middle, and the heap, which knows the
//! tensor. Out: the heap holds what the program held; of a stopped one, what is gone is marked as
//! lost. Guarantees: the program keeps what it holds.

use vtensor::TensorId;

use super::executor::Executor;
use super::heap::Heap;
use super::losses::Loss;
use super::tensor::Key;
use crate::content::{Content, Segment};
use crate::error::RuntimeError;
use crate::private::PrivateBuffer;

/// Contents are carried in parts of this size.
const BUFFER_BYTES: usize = 1 << 20;

/// Carries one tensor from a program at rest to the heap. Scratch that the program holds nothing of
/// is as if it had never been written.
pub(super) fn carry(
    heap: &mut Heap,
    frozen: &Executor,
    (id, key): (TensorId, Key),
) -> Result<(), RuntimeError> {
    let content = frozen.content();
    let segments = content.of(id);
    if segments.is_empty() || segments.iter().any(|segment| !segment.kept()) {
        return Ok(());
    }
    let mut buffer = PrivateBuffer::new(BUFFER_BYTES)?;
    heap.deposit(key, &mut buffer, |offset, part| {
        frozen.fetch(content, id, offset, part)
    })
}

/// Carries what is left of one tensor from a program that was stopped in the middle to the heap.
/// What it holds nothing of is lost, be it that a copy failed, or that the recording would have
/// overwritten it, or never used it again: the application may think otherwise.
pub(super) fn salvage(
    heap: &mut Heap,
    frozen: &Executor,
    content: &Content,
    (id, key): (TensorId, Key),
) {
    let segments = content.of(id);
    if segments.is_empty() {
        return;
    }
    if !segments.iter().any(Segment::kept) {
        heap.lose(key, Loss::Lost);
        return;
    }
    let Ok(mut buffer) = PrivateBuffer::new(BUFFER_BYTES) else {
        heap.lose(key, Loss::Lost);
        return;
    };
    let runs = segments.chunk_by(|one, next| one.kept() == next.kept());
    let kept = runs.filter(|run| run[0].kept());
    let kept = kept.map(|run| (run[0].start, run[run.len() - 1].end));
    heap.salvage(key, &mut buffer, kept, |offset, part| {
        frozen.fetch(content, id, offset, part)
    });
}
