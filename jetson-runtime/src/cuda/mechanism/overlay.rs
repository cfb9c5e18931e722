//! Addresses for life: each tensor at one, those that never live together at the same.
//!
//! In: a skeleton. Out: an offset for each tensor. What persists comes first; transients are laid
//! first fit, in order of birth, above it. Guarantees: tensors whose lives overlap do not. Limit:
//! quadratic in the number of transients that live near one another.

use lgm::skeleton::Skeleton;
use vtensor::{OpIndex, limits};

/// Offsets of tensors, and what they take in all.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) starts: Vec<u64>,
    pub(super) bytes: u64,
    /// For each op, the transients that no later op uses, or that the next one overwrites.
    pub(super) dead_after: Vec<Vec<usize>>,
}

/// A tensor in the overlay.
struct Laid {
    start: u64,
    end: u64,
    last: usize,
}

impl Overlay {
    /// Lays tensors of `sizes` bytes out; each begins, and takes room, in units of `align[tensor]`.
    pub(super) fn new(skeleton: &Skeleton, sizes: &[u64], align: &[u64]) -> Self {
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; sizes.len()];
        let mut dead_after = vec![Vec::new(); skeleton.ops.len()];
        let mut before: Vec<Option<usize>> = vec![None; sizes.len()];
        for op in 0..skeleton.ops.len() {
            for access in skeleton.accesses_of(OpIndex::from_index(op)) {
                let tensor = access.tensor.index();
                let life = lives[tensor].get_or_insert((op, op));
                life.1 = op;
                if let Some(last) = before[tensor].replace(op)
                    && !access.mode.reads()
                    && !skeleton.tensors[tensor].persistent
                    && last < op
                {
                    dead_after[last].push(tensor);
                }
            }
        }
        let mut starts = vec![0; sizes.len()];
        let mut next: u64 = 0;
        let persistent = |tensor: &usize| skeleton.tensors[*tensor].persistent;
        for tensor in (0..sizes.len()).filter(persistent) {
            starts[tensor] = next.next_multiple_of(align[tensor]);
            next = (starts[tensor] + sizes[tensor]).next_multiple_of(align[tensor]);
        }
        let floor = next;
        let mut bytes = next;
        let mut order: Vec<usize> = (0..sizes.len()).filter(|t| !persistent(t)).collect();
        order.retain(|tensor| lives[*tensor].is_some());
        order.sort_by_key(|tensor| (lives[*tensor], *tensor));
        let mut laid: Vec<Laid> = Vec::new();
        for tensor in order {
            let (first, last) = lives[tensor].expect("only used tensors were kept");
            dead_after[last].push(tensor);
            laid.retain(|other| other.last >= first);
            let at = laid.partition_point(|other| other.start < floor);
            let start = first_fit(&laid[at..], floor, sizes[tensor], align[tensor]);
            let end = (start + sizes[tensor]).next_multiple_of(align[tensor]);
            let position = laid.partition_point(|other| other.start < start);
            laid.insert(position, Laid { start, end, last });
            starts[tensor] = start;
            bytes = bytes.max(end);
        }
        Self {
            starts,
            bytes: bytes.max(limits::TENSOR_ALIGN),
            dead_after,
        }
    }
}

/// The lowest place that is free, between ranges in order.
fn first_fit(laid: &[Laid], floor: u64, bytes: u64, align: u64) -> u64 {
    let mut start = floor.next_multiple_of(align);
    for other in laid {
        if (start + bytes).next_multiple_of(align) <= other.start {
            break;
        }
        start = start.max(other.end).next_multiple_of(align);
    }
    start
}

#[cfg(test)]
mod tests {
    use lgm::synthetic::{Shape, training_step};

    use super::*;

    #[test]
    fn tensors_that_live_together_do_not_overlap() {
        for seed in 0..20 {
            let trace = training_step(seed, &Shape::SMALL);
            let skeleton = trace.skeleton(&trace.devices()[0]).unwrap();
            let sizes: Vec<u64> = skeleton.tensors.iter().map(|t| t.bytes.0).collect();
            let align: Vec<u64> = (0..sizes.len()).map(|t| [512, 4096][t % 2]).collect();
            let overlay = Overlay::new(&skeleton, &sizes, &align);
            let mut lives = vec![None; sizes.len()];
            for op in 0..skeleton.ops.len() {
                for access in skeleton.accesses_of(OpIndex::from_index(op)) {
                    lives[access.tensor.index()].get_or_insert((op, op)).1 = op;
                }
            }
            let together = |a: usize, b: usize| {
                let always = |t: usize| skeleton.tensors[t].persistent;
                match (lives[a], lives[b]) {
                    _ if always(a) || always(b) => lives[a].is_some() && lives[b].is_some(),
                    (Some(a), Some(b)) => a.0 <= b.1 && b.0 <= a.1,
                    _ => false,
                }
            };
            for a in 0..sizes.len() {
                let end = overlay.starts[a] + sizes[a];
                assert!(overlay.starts[a].is_multiple_of(align[a]) && end <= overlay.bytes);
                for b in (0..a).filter(|b| together(a, *b)) {
                    let apart = end <= overlay.starts[b]
                        || overlay.starts[b] + sizes[b] <= overlay.starts[a];
                    assert!(apart, "seed {seed}: tensors {a} and {b}");
                }
            }
            let all: u64 = sizes.iter().sum();
            assert!(
                overlay.bytes < all,
                "seed {seed}: {} of {all}",
                overlay.bytes
            );
        }
    }
}
