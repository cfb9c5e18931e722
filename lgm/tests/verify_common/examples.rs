//! Valid programs written by hand, each for one thing that a program may do.

use lgm::program::Program;
use lgm::skeleton::Skeleton;

use super::build::{Builder, PAGE, R, RW, W, pieces};

/// A name, a skeleton, a program.
pub(crate) type Example = (&'static str, Skeleton, Program);

/// All of them.
pub(crate) fn all() -> Vec<Example> {
    let named = |name, (skeleton, program)| (name, skeleton, program);
    vec![
        named("round_trip", round_trip()),
        named("clean_return", clean_return()),
        named("dropped", dropped()),
        named("nowhere", nowhere()),
        named("away", away()),
        named("prefetch", prefetch()),
        named("shared_pages", shared_pages()),
        named("new_window", new_window()),
        named("regroup", regroup()),
        named("slot_reused", slot_reused()),
        named("in_order", in_order()),
        named("still", still()),
    ]
}

/// A tensor leaves at its last write, is read on meanwhile, and returns.
pub(crate) fn round_trip() -> (Skeleton, Program) {
    let mut b = Builder::new(1, 1);
    let a = b.persistent(PAGE);
    let u = b.transient(PAGE);
    let page = b.at(&[0]);
    b.step(&[(a, RW, page)]);
    b.out(a, pieces(0, 1), page, 0);
    b.step(&[(a, R, page)]);
    b.step(&[(u, W, page)]);
    b.needs(1, 0);
    b.copy_in(a, pieces(0, 1), page, 0, 1);
    b.step(&[(a, R, page)]);
    b.needs(1, 1);
    b.home(a, pieces(0, 1), Some(page), None);
    b.finish()
}

/// A tensor that is never written leaves without a copy and returns from its slot.
pub(crate) fn clean_return() -> (Skeleton, Program) {
    let mut b = Builder::new(1, 1);
    let a = b.persistent(PAGE);
    let u = b.transient(PAGE);
    let page = b.at(&[0]);
    b.step(&[(a, R, page)]);
    b.step(&[(u, W, page)]);
    b.copy_in(a, pieces(0, 1), page, 0, 0);
    b.step(&[(a, R, page)]);
    b.needs(0, 1);
    b.home(a, pieces(0, 1), Some(page), Some(0));
    b.finish()
}

/// A tensor whose next access is a write leaves and returns without a copy.
pub(crate) fn dropped() -> (Skeleton, Program) {
    let mut b = Builder::new(1, 0);
    let a = b.persistent(PAGE);
    let u = b.transient(PAGE);
    let page = b.at(&[0]);
    b.step(&[(a, R, page)]);
    b.step(&[(u, W, page)]);
    b.step(&[(a, W, page)]);
    b.home(a, pieces(0, 1), Some(page), None);
    b.finish()
}

/// The same over the boundary: at home it is nowhere. It is written where it was not before, and
/// its old page was taken by nobody.
pub(crate) fn nowhere() -> (Skeleton, Program) {
    let mut b = Builder::new(2, 0);
    let a = b.persistent(PAGE);
    let u = b.transient(PAGE);
    let (first, second) = (b.at(&[0]), b.at(&[1]));
    b.step(&[(u, W, first)]);
    b.step(&[(a, W, first)]);
    b.step(&[(a, R, first)]);
    b.step(&[(a, W, second)]);
    b.step(&[(a, RW, second)]);
    b.home(a, pieces(0, 1), None, None);
    b.finish()
}

/// A tensor is away over the boundary.
pub(crate) fn away() -> (Skeleton, Program) {
    let mut b = Builder::new(1, 1);
    let a = b.persistent(PAGE);
    let u = b.transient(PAGE);
    let page = b.at(&[0]);
    b.step(&[(u, W, page)]);
    b.copy_in(a, pieces(0, 1), page, 0, 0);
    b.step(&[(a, RW, page)]);
    b.needs(0, 1);
    b.out(a, pieces(0, 1), page, 0);
    b.home(a, pieces(0, 1), None, Some(0));
    b.finish()
}

/// Two tensors return for the next iteration; each is waited for where it is used.
pub(crate) fn prefetch() -> (Skeleton, Program) {
    let mut b = Builder::new(2, 2);
    let (a, c) = (b.persistent(PAGE), b.persistent(PAGE));
    let (u, v) = (b.transient(PAGE), b.transient(PAGE));
    let (first, second) = (b.at(&[0]), b.at(&[1]));
    b.step(&[(a, R, first)]);
    b.needs(0, -1);
    b.step(&[(c, R, second)]);
    b.needs(0, 0);
    b.step(&[(u, W, first), (v, W, second)]);
    b.copy_in(a, pieces(0, 1), first, 0, 0);
    b.copy_in(c, pieces(0, 1), second, PAGE, 0);
    b.home(a, pieces(0, 1), Some(first), Some(0));
    b.home(c, pieces(0, 1), Some(second), Some(PAGE));
    b.finish()
}

/// A tail shares its page with small tensors, leaves without them, and returns to another page.
pub(crate) fn shared_pages() -> (Skeleton, Program) {
    let mut b = Builder::new(3, 1);
    let x = b.persistent(1024);
    let z = b.transient(PAGE + 512);
    let y = b.transient(512);
    let pool = b.place(&[0], 512);
    let before = b.at(&[1, 0]);
    let tail_before = b.place(&[1, 0], PAGE);
    let after = b.at(&[1, 2]);
    let tail_after = b.place(&[1, 2], PAGE);
    let corner = b.at(&[0]);
    b.step(&[(z, W, before), (x, RW, pool)]);
    b.out(z, pieces(1, 1), tail_before, 0);
    b.step(&[(x, RW, pool), (z, R, before)]);
    b.step(&[(y, W, corner)]);
    b.needs(1, 0);
    b.copy_in(z, pieces(1, 1), tail_after, 0, 1);
    b.step(&[(z, R, after), (x, R, pool), (y, R, corner)]);
    b.needs(1, 1);
    b.home(x, pieces(0, 1), Some(pool), None);
    b.finish()
}

/// One piece stays, the other returns elsewhere: the tensor is used in a new window.
pub(crate) fn new_window() -> (Skeleton, Program) {
    let mut b = Builder::new(3, 1);
    let a = b.transient(2 * PAGE);
    let u = b.transient(PAGE);
    let (before, after, page) = (b.at(&[0, 1]), b.at(&[0, 2]), b.at(&[1]));
    let (tail_before, tail_after) = (b.place(&[0, 1], PAGE), b.place(&[0, 2], PAGE));
    b.step(&[(a, W, before)]);
    b.out(a, pieces(1, 1), tail_before, 0);
    b.copy_in(a, pieces(1, 1), tail_after, 0, 1);
    b.step(&[(u, W, page)]);
    b.needs(1, 0);
    b.step(&[(a, RW, after)]);
    b.needs(1, 1);
    b.step(&[(u, R, page)]);
    b.finish()
}

/// Two outs to neighbouring slots, one in for both.
pub(crate) fn regroup() -> (Skeleton, Program) {
    let mut b = Builder::new(2, 2);
    let a = b.transient(2 * PAGE);
    let u = b.transient(2 * PAGE);
    let (both, second) = (b.at(&[0, 1]), b.place(&[0, 1], PAGE));
    b.step(&[(a, W, both)]);
    b.out(a, pieces(0, 1), both, 0);
    b.out(a, pieces(1, 1), second, PAGE);
    b.step(&[(u, W, both)]);
    b.needs(2, 0);
    b.copy_in(a, pieces(0, 2), both, 0, 2);
    b.step(&[(a, R, both)]);
    b.needs(2, 1);
    b.finish()
}

/// Two tensors go through one slot, one after the other.
pub(crate) fn slot_reused() -> (Skeleton, Program) {
    let mut b = Builder::new(2, 1);
    let (a, c) = (b.transient(PAGE), b.transient(PAGE));
    let u = b.transient(PAGE);
    let (first, second) = (b.at(&[0]), b.at(&[1]));
    b.step(&[(a, W, first)]);
    b.out(a, pieces(0, 1), first, 0);
    b.step(&[(u, W, first), (c, W, second)]);
    b.needs(1, 0);
    b.copy_in(a, pieces(0, 1), first, 0, 1);
    b.step(&[(a, R, first)]);
    b.needs(1, 1);
    b.out(c, pieces(0, 1), second, 0);
    b.copy_in(c, pieces(0, 1), first, 0, 2);
    b.step(&[(c, R, first)]);
    b.needs(2, 2);
    b.finish()
}

/// An in takes a page whose last reader is an out of the iteration before. Neither its own wait
/// nor its step's covers that out, but the in before it, the last of that iteration, waited for it,
/// and ins start in order.
pub(crate) fn in_order() -> (Skeleton, Program) {
    let mut b = Builder::new(3, 3);
    let (a, c) = (b.persistent(PAGE), b.persistent(PAGE));
    let d = b.persistent(PAGE);
    let (t, u) = (b.transient(PAGE), b.transient(PAGE));
    let (first, second, third) = (b.at(&[0]), b.at(&[1]), b.at(&[2]));
    b.step(&[(t, W, third)]);
    b.needs(-1, -1);
    b.copy_in(c, pieces(0, 1), first, 2 * PAGE, -1);
    b.step(&[(d, RW, second), (c, R, first)]);
    b.needs(-1, 1);
    b.out(d, pieces(0, 1), second, PAGE);
    b.step(&[(a, W, first), (u, W, second)]);
    b.needs(1, 1);
    b.out(a, pieces(0, 1), first, 0);
    b.copy_in(d, pieces(0, 1), second, PAGE, 2);
    b.home(a, pieces(0, 1), None, Some(0));
    b.home(c, pieces(0, 1), None, Some(2 * PAGE));
    b.home(d, pieces(0, 1), Some(second), Some(PAGE));
    b.finish()
}

/// Nothing moves.
pub(crate) fn still() -> (Skeleton, Program) {
    let mut b = Builder::new(2, 0);
    let a = b.persistent(PAGE);
    let t = b.transient(PAGE);
    let (first, second) = (b.at(&[0]), b.at(&[1]));
    b.step(&[(a, R, first), (t, W, second)]);
    b.step(&[(a, RW, first), (t, RW, second)]);
    b.home(a, pieces(0, 1), Some(first), None);
    b.finish()
}
