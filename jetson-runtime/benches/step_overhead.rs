//! What a step of the frozen path costs where nothing has to be waited for, in nanoseconds.
//!
//! `cargo bench -p jetson-runtime`. Prints the median of many iterations; the goal is below 200.

#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "../tests/support/plans.rs"]
mod plans;

use std::hint::black_box;
use std::time::Instant;

use jetson_runtime::{Options, Planned, RuntimeError};
use lgm::verify::VerifiedPlan;
use vtensor::OpIndex;

const OPS: usize = 1000;
const ITERATIONS: usize = 2000;
const GOAL_NS: f64 = 200.0;

fn main() -> Result<(), RuntimeError> {
    let plan = VerifiedPlan::new(plans::resident(plans::page(), OPS)).expect("the plan holds");
    let mut frozen = Planned::new(plan, Options::default())?.freeze(|_, _, _| {})?;
    let mut times = Vec::with_capacity(ITERATIONS);
    for _ in 0..ITERATIONS {
        let start = Instant::now();
        frozen.iteration_begin()?;
        for op in 0..OPS {
            let step = frozen.step_begin(OpIndex::from_index(op))?;
            black_box(step.pointer(0));
            frozen.step_end()?;
        }
        frozen.iteration_end()?;
        times.push(start.elapsed().as_nanos() as f64 / OPS as f64);
    }
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[(ITERATIONS - 1) * percent / 100];
    println!(
        "step_begin + step_end, {OPS} steps x {ITERATIONS} iterations: median {:.1} ns, \
         99 % {:.1} ns (goal: below {GOAL_NS} ns)",
        at(50),
        at(99)
    );
    assert!(at(50) < GOAL_NS, "the step path has become slow");
    Ok(())
}
