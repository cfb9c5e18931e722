//! The loop, and what came of it.

use std::time::{Duration, Instant};

use jetson_runtime::{Frozen, Planned, pattern};
use lgm::cost::Load;
use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use vtensor::{OpIndex, TensorId};

use super::address::AddressMap;
use super::content::read_back;
use super::ops::{Mismatch, Ops};
use super::pace::Pace;
use super::settings::{Executed, Settings};
use super::versions::Versions;
use super::witness::Witness;
use crate::error::BenchError;
use crate::watch::{Held, Watch};

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The size at which it was executed.
    pub executed: Executed,
    /// Planned bytes over executed bytes.
    pub ratio: u64,
    /// Training steps.
    pub steps: u64,
    /// Seconds that one took, the median.
    pub measured_s: f64,
    /// Wrong bytes.
    pub mismatches: u64,
    /// The first of them.
    pub first_mismatch: Option<Mismatch>,
    /// The digest: see [`ReplayReport`](crate::report::ReplayReport).
    pub digest: String,
    /// Whether all training steps had the same.
    pub digests_equal: bool,
    /// Memory that was held.
    pub held: Held,
    /// What a paced replay has to compare with.
    pub paced: Option<Paced>,
}

/// What the cost model says about a paced replay, in seconds of its time scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paced {
    /// With the durations of the trace.
    pub predicted_s: f64,
    /// With ops as long as they took here: where checks are slower than the ops that they stand
    /// for, this is what the program can be held to.
    pub with_ops_as_executed_s: f64,
    /// Ops that took longer than their scaled duration, because their checks did.
    pub slower_ops: usize,
}

/// Executes a plan. `advance` is called after each training step.
///
/// # Errors
/// If the machine refuses what the plan needs, a copy fails, or more memory is held than the arena
/// has. Wrong bytes are no error: they are counted.
///
/// # Panics
/// If the runtime contradicts its own plan: another address, another size, other copies.
pub fn replay(
    plan: VerifiedPlan,
    settings: &Settings,
    advance: &mut dyn FnMut(),
) -> Result<Outcome, BenchError> {
    let fill = |tensor: TensorId, offset, bytes: &mut [u8]| {
        pattern::fill(bytes, tensor.0, 0, offset);
    };
    execute(plan, settings, fill, advance)
}

/// The same with initial contents of the caller's choice, wrong ones in tests.
fn execute(
    plan: VerifiedPlan,
    settings: &Settings,
    fill: impl FnMut(TensorId, u64, &mut [u8]),
    advance: &mut dyn FnMut(),
) -> Result<Outcome, BenchError> {
    let kept = Plan::clone(&plan);
    let planned = Planned::new(plan, settings.options(&kept))?;
    let page = Executed::page_of(kept.program.page_bytes, settings.scale);
    let executed = Executed {
        page,
        arena: planned.arena_bytes(),
        spill: planned.spill_bytes(),
    };
    let slack = settings
        .watch_process
        .then(|| settings.slack(executed.spill));
    let mut watch = Watch::new(&settings.spill, slack)?;
    let mut frozen = planned.freeze(fill)?;
    watch.look(&frozen.usage()?, frozen.arena_bytes(), 0)?;
    let ratio = kept.program.page_bytes.get() / page.get();
    let piece = kept.program.piece_bytes.get() / ratio;
    let mut ops = Ops {
        skeleton: &kept.skeleton,
        versions: Versions::new(&kept),
        witness: Witness::new(&kept, ratio, AddressMap::read()?),
        mismatches: 0,
        first: None,
        step: 0,
    };
    let mut pace = settings
        .paced
        .then(|| Pace::new(&kept.skeleton, settings.time_scale));
    let mut took = Vec::new();
    for step in 1..=u64::from(settings.steps.get()) {
        ops.step = step;
        took.push(iteration(&mut ops, &mut frozen, &mut pace)?);
        // A look takes time, in which copies run on: a paced replay has one at the end only.
        if step.is_power_of_two() && pace.is_none() {
            watch.look(&frozen.usage()?, frozen.arena_bytes(), step)?;
        }
        advance();
    }
    let content = read_back(&mut ops, &mut frozen, &kept.program.homes, piece)?;
    watch.look(&frozen.usage()?, frozen.arena_bytes(), ops.step)?;
    moved_as_planned(&frozen, &kept, ratio, ops.step);
    Ok(Outcome {
        executed,
        ratio,
        steps: ops.step,
        measured_s: median(&mut took).as_secs_f64(),
        mismatches: ops.mismatches,
        digest: ops.witness.digest(content),
        digests_equal: ops.witness.equal(),
        first_mismatch: ops.first,
        held: watch.held(),
        paced: pace.map(|pace| compare(&kept, &pace, settings.time_scale)),
    })
}

/// Executes one training step; returns how long it took.
fn iteration(
    ops: &mut Ops<'_>,
    frozen: &mut Frozen,
    pace: &mut Option<Pace>,
) -> Result<Duration, BenchError> {
    let start = Instant::now();
    ops.versions.begin();
    frozen.iteration_begin()?;
    for op in 0..ops.skeleton.ops.len() {
        let (before, begin) = (frozen.stats(), Instant::now());
        ops.execute(frozen, OpIndex::from_index(op))?;
        if let Some(pace) = pace {
            // A wait is the first thing that a step does.
            let stats = frozen.stats();
            let waited = Duration::from_nanos(stats.stall_ns - before.stall_ns);
            pace.finish(op, begin + waited, stats.stalls > before.stalls);
        }
        frozen.step_end()?;
    }
    frozen.iteration_end()?;
    let took = start.elapsed();
    ops.witness.iteration_end();
    Ok(took)
}

/// Bytes that were copied are bytes that the plan copies.
fn moved_as_planned(frozen: &Frozen, plan: &Plan, ratio: u64, steps: u64) {
    let scaled = |bytes: u64| bytes.div_ceil(ratio);
    let outs: u64 = plan
        .program
        .outs
        .iter()
        .map(|out| scaled(out.bytes.0))
        .sum();
    let ins: u64 = plan.program.ins.iter().map(|i| scaled(i.bytes.0)).sum();
    let stats = frozen.stats();
    assert_eq!(
        [stats.moved_out.0, stats.moved_in.0],
        [outs * steps, ins * steps],
        "the runtime copies what the plan says"
    );
}

fn compare(plan: &Plan, pace: &Pace, scale: f64) -> Paced {
    let mut load = Load::of_program(&plan.skeleton, &plan.program, &plan.profile.link);
    let predicted_s = load.simulate().iteration_ns as f64 * 1e-9 * scale;
    let mut slower_ops = 0;
    for (op, occupancy) in pace.occupancy.iter().enumerate() {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let ns = (occupancy.as_secs_f64() * 1e9 / scale) as u64;
        // Rounding to nanoseconds of the scaled clock is not slowness.
        let planned_s = plan.skeleton.ops[op].duration_ns as f64 * 1e-9 * scale;
        slower_ops += usize::from(occupancy.as_secs_f64() > planned_s + 1e-8);
        load.steps_ns[op] = ns;
    }
    Paced {
        predicted_s,
        with_ops_as_executed_s: load.simulate().iteration_ns as f64 * 1e-9 * scale,
        slower_ops,
    }
}

/// The median; the later one of two in the middle.
fn median(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use lgm::planner::{self, Methods, Request};
    use lgm::policy::Policy;
    use lgm::profile::Profiles;
    use lgm::synthetic::{Shape, training_step};
    use vtensor::{Bytes, PageBytes};

    use super::*;

    /// A random step at half of its memory.
    fn plan() -> VerifiedPlan {
        let trace = training_step(4, &Shape::SMALL);
        let skeleton = trace.skeleton(&trace.devices()[0]).expect("sound");
        let profiles = Profiles::builtin();
        let request = Request {
            skeleton: &skeleton,
            profile: profiles.get("rtx3060").expect("built in"),
            budget: Bytes(trace.peak_bytes().0 / 2),
            policy: Policy::Vtensor,
            methods: Methods::Swap,
            page: Some(PageBytes::new(8 << 10).expect("a page")),
            trace_digest: trace.digest(),
            model: trace.model(),
        };
        let planned = planner::plan(&request).expect("it fits");
        VerifiedPlan::new(planned.plan).expect("it holds")
    }

    /// The first access of the step that finds content from before it.
    fn first_read(plan: &Plan) -> (OpIndex, TensorId) {
        for op in 0..plan.skeleton.ops.len() {
            let op = OpIndex::from_index(op);
            for access in plan.skeleton.accesses_of(op) {
                let tensor = plan.skeleton.tensor(access.tensor);
                if tensor.persistent && access.mode.reads() && tensor.bytes.0 > 4096 {
                    return (op, access.tensor);
                }
            }
        }
        panic!("a training step reads parameters");
    }

    #[test]
    fn one_wrong_byte_is_found_by_the_op_that_reads_it() {
        let plan = plan();
        let (op, wrong) = first_read(&plan);
        let settings = Settings {
            scale: 1.0,
            steps: NonZeroU32::MIN,
            ..Settings::quick()
        };
        let outcome = |spoiled: u64| {
            let fill = |tensor: TensorId, offset: u64, bytes: &mut [u8]| {
                pattern::fill(bytes, tensor.0, 0, offset);
                let at = spoiled.checked_sub(offset).map(usize::try_from);
                if tensor == wrong
                    && let Some(Ok(at)) = at
                    && let Some(byte) = bytes.get_mut(at)
                {
                    *byte ^= 1;
                }
            };
            execute(plan.clone(), &settings, fill, &mut || ()).expect("it runs")
        };
        let good = outcome(u64::MAX);
        assert_eq!((good.mismatches, good.first_mismatch), (0, None));
        let bad = outcome(4097);
        let first = bad.first_mismatch.expect("found");
        assert_eq!((first.op, first.tensor, first.wrong), (Some(op), wrong, 1));
        assert!(bad.mismatches >= 1);
        assert_ne!(bad.digest, good.digest);
    }

    #[test]
    fn a_step_that_finds_something_else_has_another_digest() {
        // The first step finds a wrong byte and overwrites it, the second one finds none; or it
        // stays, and both find it, but the contents at the end are wrong too.
        let plan = plan();
        let stale = |tensor: TensorId, offset: u64, bytes: &mut [u8]| {
            pattern::fill(bytes, tensor.0, 1, offset);
        };
        let outcome = execute(plan, &Settings::quick(), stale, &mut || ()).expect("it runs");
        assert!(outcome.mismatches > 0);
        assert!(!outcome.digests_equal, "updates of parameters overwrite");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let ms = Duration::from_millis;
        assert_eq!(median(&mut [ms(9), ms(1), ms(2)]), ms(2));
        assert_eq!(median(&mut [ms(3), ms(1)]), ms(3));
        assert_eq!(median(&mut []), Duration::ZERO);
    }
}
