//! What checkpointing practice gives up: a baseline for running ops again alone.
//!
//! In: a skeleton. Out: choices as practice makes them, none of which looks at the budget. *Cheap*:
//! every content of the forward pass that no product (convolution, matrix product) makes.
//! *Segments*: the forward pass is cut into some number of parts that make about as many bytes
//! each; what only ops of one part use before the backward pass is given up, what crosses between
//! parts is kept. The square root of the number of layers is the classic number of parts; all from
//! 2 to 32 are made, each with and without what is cheap in what it keeps.
//!
//! The iteration turns from forward to backward where the most bytes are live.
//!
//! Source: T. Chen, B. Xu, C. Zhang, C. Guestrin, *Training Deep Nets with Sublinear Memory Cost*,
//! 2016.

use std::collections::BTreeSet;

use super::greedy::Given;
use super::history::{History, Use};
use super::rewrite::draft;

/// Parts of the forward pass at most.
const SEGMENTS_MAX: usize = 32;

/// The choices, those that take the least compute first; with a budget of so many bytes.
#[must_use]
pub fn segments(history: &History<'_>, budget: u64) -> Vec<Given> {
    let live = history.skeleton.live_bytes();
    let turn = (0..live.len()).max_by_key(|&op| (live[op], std::cmp::Reverse(op)));
    let turn = turn.unwrap_or(0);
    let waiting = waiting(history, turn);
    let cheap: BTreeSet<usize> = waiting
        .iter()
        .filter(|wait| wait.cheap)
        .map(|wait| wait.row)
        .collect();
    let mut choices = BTreeSet::from([cheap.clone()]);
    let all: u64 = waiting.iter().map(|wait| wait.bytes).sum();
    for parts in 2..=SEGMENTS_MAX {
        let inside = inside(&waiting, all / parts as u64);
        choices.insert(inside.union(&cheap).copied().collect());
        choices.insert(inside);
    }
    let given = choices
        .into_iter()
        .filter_map(|rows| Given::of(history, rows, budget));
    let mut given: Vec<Given> = given.collect();
    given.sort_by_key(|given| given.recompute_ns);
    given
}

/// A content that waits for the backward pass and could be made again.
struct Waiting {
    /// The access that it waits for.
    row: usize,
    bytes: u64,
    /// The op that makes it, and the last one that uses it before it waits.
    made: usize,
    used: usize,
    cheap: bool,
}

/// All of them, by the ops that make them.
fn waiting(history: &History<'_>, turn: usize) -> Vec<Waiting> {
    let skeleton = history.skeleton;
    let mut found = Vec::new();
    for (row, access) in skeleton.accesses.iter().enumerate() {
        let tensor = skeleton.tensor(access.tensor);
        let (this, before) = (history.at(row), history.before(row));
        let waits = |before: &Use| before.op.index() <= turn && this.op.index() > turn;
        let Some(before) = before.filter(waits) else {
            continue;
        };
        let Some(mut makers) = history.makers(access.tensor, this.before) else {
            continue;
        };
        let able = access.mode.reads() && !tensor.persistent;
        if !able || draft(history, [row]).is_none() {
            continue;
        }
        let product = |maker: Use| {
            let name = &skeleton.ops[maker.op.index()].name;
            ["conv", "mm"].iter().any(|part| name.contains(part))
        };
        let made = makers.clone().next().map_or(0, |maker| maker.op.index());
        found.push(Waiting {
            row,
            bytes: tensor.bytes.0,
            made,
            used: before.op.index(),
            cheap: !makers.any(product),
        });
    }
    found.sort_by_key(|wait| (wait.made, wait.row));
    found
}

/// What is made and used inside of one part, the parts having about so many bytes each.
fn inside(waiting: &[Waiting], part_bytes: u64) -> BTreeSet<usize> {
    let mut ends = Vec::new();
    let mut bytes = 0;
    for wait in waiting {
        bytes += wait.bytes;
        if bytes >= part_bytes.max(1) {
            ends.push(wait.made);
            bytes = 0;
        }
    }
    let part = |op: usize| ends.partition_point(|&end| end < op);
    let inner = waiting
        .iter()
        .filter(|wait| part(wait.made) == part(wait.used));
    inner.map(|wait| wait.row).collect()
}
