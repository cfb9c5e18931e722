//! The process holds the budget once, in however many windows its pages are mapped.
#![allow(clippy::unwrap_used)]

#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "support/model.rs"]
mod model;
#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "support/plans.rs"]
mod plans;

use std::fs;

use jetson_runtime::{Options, Planned, process_pss};
use lgm::verify::VerifiedPlan;
use vtensor::Bytes;

const WINDOWS: usize = 32;
const PAGE: u64 = 64 << 10;

/// `VmRSS` in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kib * 1024
}

/// Mappings of this process.
fn mappings() -> u64 {
    fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count() as u64
}

#[test]
fn pss_counts_the_budget_once_where_rss_counts_every_window() {
    // Two tensors of 128 pages take turns in one frame; every page is in many windows.
    let plan = plans::aliased(PAGE, 128, WINDOWS);
    let arena = 128 * PAGE;
    let mut model = model::Model::new(&plan);
    let verified = VerifiedPlan::new(plan).unwrap();
    let (pss_before, rss_before) = (process_pss().unwrap(), resident());
    let mappings_before = mappings();
    let planned = Planned::new(verified, Options::default()).unwrap();
    assert_eq!(planned.arena_bytes(), Bytes(arena));
    let mut frozen = planned
        .freeze(|tensor, offset, bytes| model::fill(tensor, 0, offset, bytes))
        .unwrap();
    // Beside the windows: two engines' stacks with their guards, the spill tier, the heap.
    let mapped = mappings() - mappings_before;
    let said = frozen.stats().mappings;
    assert!(
        mapped <= said + 16 && said <= mapped,
        "{mapped} mappings are there, {said} counted"
    );
    model.iteration(&mut frozen).unwrap();
    let usage = frozen.usage().unwrap();
    assert_eq!(usage.arena_allocated, Bytes(arena));
    let held = usage.pss.0 - pss_before.0;
    let budgeted = arena + usage.spill_allocated.0;
    // Stacks, tables and the buffer of the freeze are small beside the budget.
    let small = 2 << 20;
    assert!(
        held < budgeted + small,
        "{held} bytes are held, {budgeted} are budgeted"
    );
    assert!(
        held > budgeted - small,
        "{held} bytes are held, {budgeted} are budgeted"
    );
    let shown = resident() - rss_before;
    assert!(shown > 16 * arena, "VmRSS shows {shown} bytes");
}
