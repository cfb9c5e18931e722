//! The frozen step path allocates nothing, on any thread: a counting global allocator watches.
//!
//! A program without the test harness, whose own threads would be counted.
#![allow(clippy::unwrap_used)]

#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "support/model.rs"]
mod model;
#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "support/plans.rs"]
mod plans;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use jetson_runtime::{
    Access, Config, Direction, Errno, Fault, Frozen, Options, Planned, ProgramKey, Runtime,
    RuntimeError, Spill, TensorDesc, cuda,
};
use lgm::plan::Plan;
use lgm::planner::Methods;
use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, Mode, OpIndex, TensorId, TensorKind};

/// Counts the allocations of all threads.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn freeze(plan: Plan, options: Options) -> Frozen {
    let verified = VerifiedPlan::new(plan).unwrap();
    let fill = |tensor, offset, bytes: &mut [u8]| model::fill(tensor, 0, offset, bytes);
    Planned::new(verified, options)
        .unwrap()
        .freeze(fill)
        .unwrap()
}

fn iterations(frozen: &mut Frozen, ops: usize, steps: usize) -> Result<(), RuntimeError> {
    for _ in 0..steps.div_ceil(ops) {
        frozen.iteration_begin()?;
        for op in 0..ops {
            let mut step = frozen.step_begin(OpIndex::from_index(op))?;
            for access in 0..step.len() {
                if step.mode(access).writes() {
                    step.slice_mut(access)[0] ^= 1;
                }
            }
            frozen.step_end()?;
        }
        frozen.iteration_end()?;
    }
    frozen.quiesce()
}

fn main() {
    ten_thousand_steps_allocate_nothing();
    a_failure_allocates_nothing();
    a_frozen_application_allocates_nothing(Methods::Swap);
    a_frozen_application_allocates_nothing(Methods::Recompute);
    a_program_on_a_gpu_allocates_nothing();
    println!("no allocation in the step path");
}

fn ten_thousand_steps_allocate_nothing() {
    const STEPS: usize = 10_000;
    for (name, plan) in plans::all(plans::page()) {
        for spill in [Spill::Ram, Spill::File(env!("CARGO_TARGET_TMPDIR").into())] {
            for duplex in [true, false] {
                let options = Options {
                    spill: spill.clone(),
                    duplex: Some(duplex),
                    ..Options::default()
                };
                let ops = plan.skeleton.ops.len();
                let mut frozen = freeze(plan.clone(), options);
                // Engines allocate while they start: their names, their stacks.
                iterations(&mut frozen, ops, 10 * ops).unwrap();
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                iterations(&mut frozen, ops, STEPS).unwrap();
                let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
                assert_eq!(allocations, 0, "{name} {spill:?} duplex {duplex}");
                // What is read in between goes straight to who asked for it.
                read_all(&mut frozen, &plan);
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                read_all(&mut frozen, &plan);
                let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
                assert_eq!(allocations, 0, "{name} {spill:?} duplex {duplex}, reading");
            }
        }
    }
}

/// Reads every persistent tensor, from a byte on that is not the first of a block.
fn read_all(frozen: &mut Frozen, plan: &Plan) {
    let mut buffer = [0; 1 << 20];
    for (row, tensor) in plan.skeleton.tensors.iter().enumerate() {
        if tensor.persistent {
            let part = &mut buffer[..usize::try_from(tensor.bytes.0).unwrap() - 7];
            let read = frozen.read(TensorId::from_index(row), 7, part);
            // What the next iteration overwrites is not kept.
            let kept = matches!(read, Ok(()) | Err(RuntimeError::Dead { .. }));
            assert!(kept, "{read:?}");
        }
    }
}

fn a_failure_allocates_nothing() {
    let plan = plans::rotation(plans::page(), 6, 2);
    let ops = plan.skeleton.ops.len();
    let fault = Fault {
        direction: Direction::In,
        after_copies: 1000,
        errno: Errno::EIO,
    };
    let options = Options {
        fault: Some(fault),
        ..Options::default()
    };
    let mut frozen = freeze(plan, options);
    iterations(&mut frozen, ops, 100).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let error = iterations(&mut frozen, ops, 2000).unwrap_err();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert!(matches!(error, RuntimeError::CopyFailed(_)), "{error}");
    // The thread of the engine frees what it had; nothing is taken.
    assert_eq!(allocations, 0);
}

fn a_frozen_application_allocates_nothing(methods: Methods) {
    const BYTES: u64 = 64 << 10;
    let mut runtime = Runtime::new(Config {
        budget: Some(Bytes(5 * BYTES)),
        methods,
        ..Config::default()
    })
    .unwrap();
    let forward = |op: &mut jetson_runtime::Op<'_>| {
        let [from, mut to] = op.views();
        to.bytes_mut().copy_from_slice(from.bytes());
    };
    runtime.set_replayer(move |_, op| {
        forward(op);
        Ok(())
    });
    let weight = TensorDesc::new("weight", Bytes(BYTES), TensorKind::Parameter);
    let weight = runtime.create(&weight).unwrap();
    let desc = TensorDesc::new("activation", Bytes(BYTES), TensorKind::Activation);
    let key = ProgramKey(1);
    let iteration = |runtime: &mut Runtime| {
        runtime.iteration_begin(key).unwrap();
        let mut layers = [weight; 6];
        for at in 1..layers.len() {
            layers[at] = runtime.create(&desc).unwrap();
            let accesses = [Access::read(layers[at - 1]), Access::write(layers[at])];
            let ran = runtime.op_replayable("forward", &accesses, [at, 0], forward);
            ran.unwrap();
        }
        for at in (1..layers.len()).rev() {
            // The weight is read again until the end.
            let mode = if at > 1 { Mode::Read } else { Mode::ReadWrite };
            let accesses = [
                Access::read(layers[at]),
                Access {
                    tensor: weight,
                    mode,
                },
            ];
            let backward = |op: &mut jetson_runtime::Op<'_>| {
                let [gradient, mut weight] = op.views();
                if at == 1 {
                    weight.bytes_mut()[at] ^= gradient.bytes()[at];
                }
            };
            runtime.op("backward", &accesses, backward).unwrap();
            runtime.destroy(layers[at]).unwrap();
        }
        runtime.iteration_end().unwrap();
    };
    for _ in 0..20 {
        iteration(&mut runtime);
    }
    assert!(runtime.programs()[0].frozen, "{:?}", runtime.programs());
    let stats = runtime.stats();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..1000 {
        iteration(&mut runtime);
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocations, 0, "a frozen application, {methods}");
    let now = runtime.stats();
    let swaps = methods == Methods::Swap;
    assert_eq!(now.moved_out > stats.moved_out, swaps, "its tensors move");
    assert_eq!(
        now.recomputed > stats.recomputed,
        !swaps,
        "or ops run again"
    );
}

/// The model of the driver has an allocator of its own, as a driver has.
fn a_program_on_a_gpu_allocates_nothing() {
    let control = cuda_model::Control::new("rtx-linux").unwrap();
    control.granularity(plans::page()).unwrap();
    let driver = cuda::Driver::open(control.path()).unwrap();
    let device = cuda::Device::open(&driver, 0).unwrap();
    let file = || Spill::File(env!("CARGO_TARGET_TMPDIR").into());
    for (mechanism, spill) in [
        (cuda::Mechanism::Mapped, Spill::Ram),
        (cuda::Mechanism::Managed, Spill::Ram),
        (cuda::Mechanism::Mapped, file()),
    ] {
        for (name, plan) in plans::all(plans::page()) {
            let ops = plan.skeleton.ops.len();
            let verified = VerifiedPlan::new(plan).unwrap();
            let options = cuda::Options {
                spill: spill.clone(),
                ..cuda::Options::of(mechanism)
            };
            let frozen = cuda::Frozen::freeze(&device, verified, &options, |_, _, _| ());
            let mut frozen = frozen.unwrap();
            let mut run = |iterations: usize| {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                for _ in 0..iterations {
                    frozen.iteration_begin().unwrap();
                    for op in 0..ops {
                        frozen.step_begin(OpIndex::from_index(op)).unwrap();
                        frozen.step_end().unwrap();
                    }
                    frozen.iteration_end().unwrap();
                }
                frozen.quiesce().unwrap();
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            run(3);
            assert_eq!(run(100), 0, "{name}, {mechanism} {spill:?}");
        }
    }
}
