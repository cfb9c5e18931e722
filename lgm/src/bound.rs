//! A simple lower bound on the iteration time of any swap-only plan.
//!
//! In: the skeleton, the link, and a budget. Out: nanoseconds that no plan can beat which keeps the
//! order of the ops. Counted in bytes without rounding, so it holds for every page size.
//!
//! Three bounds, of which the largest counts:
//! - *compute*: the durations of all ops;
//! - *volume*: where a step has more live bytes than the budget, the excess has to be away there.
//!   What is overwritten next needs no copy, and what is never written needs no copy out; the rest
//!   passes the link in both directions, once an iteration;
//! - *split*: of that rest, what is transient has to pass the link out between the start of the
//!   iteration and this step, and back in between this step and the end.
//!
//! A link that is not duplex is bounded by the sum of both directions.

use vtensor::Bytes;

use crate::profile::Link;
use crate::skeleton::Skeleton;

/// What idles at a step, in bytes, by what its way out and back costs.
#[derive(Clone, Copy, Debug, Default)]
struct Idle {
    live: i128,
    /// Overwritten next: no copies.
    free: i128,
    /// Persistent and never written: a copy in only.
    clean: i128,
    /// Persistent: may be copied out in the iteration before.
    persistent: i128,
}

/// Nanoseconds that no swap-only plan can beat.
#[must_use]
pub fn lower_bound_ns(skeleton: &Skeleton, link: &Link, budget: Bytes) -> u64 {
    let compute = skeleton.compute_ns();
    let mut bound = compute as f64;
    let mut before = 0_u64;
    for (idle, op) in idle_by_step(skeleton).into_iter().zip(&skeleton.ops) {
        let behind = compute - before - op.duration_ns;
        let excess = (idle.live - i128::from(budget.0)).max(0);
        let moved = (excess - idle.free).max(0);
        let (out, back) = ((moved - idle.clean).max(0), moved);
        let (out_ns, in_ns) = (
            nanoseconds(out, link.out_bps),
            nanoseconds(back, link.in_bps),
        );
        let volume = if link.duplex {
            out_ns.max(in_ns)
        } else {
            out_ns + in_ns
        };
        let transient = (moved - idle.clean - idle.persistent).max(0);
        let split = nanoseconds(transient, link.out_bps).max(before as f64)
            + op.duration_ns as f64
            + nanoseconds(transient, link.in_bps).max(behind as f64);
        bound = bound.max(volume).max(split);
        before += op.duration_ns;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let floor = bound.floor() as u64;
    floor.max(compute)
}

fn nanoseconds(bytes: i128, bps: f64) -> f64 {
    bytes as f64 / bps * 1e9
}

/// Sums over the tensors that are idle at each step.
fn idle_by_step(skeleton: &Skeleton) -> Vec<Idle> {
    let steps = skeleton.ops.len();
    let mut change = vec![Idle::default(); steps + 1];
    let mut add = |from: usize, to: usize, change_by: fn(&mut Idle) -> &mut i128, bytes: i128| {
        *change_by(&mut change[from]) += bytes;
        *change_by(&mut change[to]) -= bytes;
    };
    let mut uses = vec![Vec::new(); skeleton.tensors.len()];
    for (step, op) in skeleton.ops.iter().enumerate() {
        let first = op.first_access as usize;
        for access in &skeleton.accesses[first..first + op.access_count as usize] {
            uses[access.tensor.index()].push((step, access.mode));
        }
    }
    for (tensor, uses) in skeleton.tensors.iter().zip(&uses) {
        let bytes = i128::from(tensor.bytes.0);
        let never_written = uses.iter().all(|(_, mode)| !mode.writes());
        let (first, last) = match (uses.first(), uses.last()) {
            (Some(&(first, _)), Some(&(last, _))) => (first, last),
            // Unused and persistent: it may be away for good.
            _ => continue,
        };
        let kind: fn(&mut Idle) -> &mut i128 = match (tensor.persistent, never_written) {
            (true, true) => |idle| &mut idle.clean,
            _ => |idle| &mut idle.persistent,
        };
        if tensor.persistent {
            add(0, steps, |idle| &mut idle.live, bytes);
            let around: fn(&mut Idle) -> &mut i128 = if uses[0].1.reads() {
                kind
            } else {
                |idle| &mut idle.free
            };
            add(0, first, around, bytes);
            add(last + 1, steps, around, bytes);
        } else {
            add(first, last + 1, |idle| &mut idle.live, bytes);
        }
        for pair in uses.windows(2) {
            let ((before, _), (behind, mode)) = (pair[0], pair[1]);
            if !mode.reads() {
                add(before + 1, behind, |idle| &mut idle.free, bytes);
            } else if tensor.persistent {
                add(before + 1, behind, kind, bytes);
            }
        }
    }
    let mut sum = Idle::default();
    change[..steps]
        .iter()
        .map(|c| {
            sum.live += c.live;
            sum.free += c.free;
            sum.clean += c.clean;
            sum.persistent += c.persistent;
            sum
        })
        .collect()
}
