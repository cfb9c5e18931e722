//! What packing would do for whole plans, if it were there: at no cost, and at what it costs.
//!
//! In: traces, devices, half of a trace's peak. Out: times over that without a limit.
//!
//! The planner is not told about packing; the iteration is rewritten as if whatever was rectified
//! were packed whenever no op uses it: a tensor has only the bytes that packing leaves, and each op
//! that uses it also has the rest, as scratch. So it takes fewer bytes on the link *and*, better
//! than packing for a copy, fewer in memory.

use lgm::planner::Methods;
use lgm::policy::Policy;
use lgm::skeleton::{Access, Op, Skeleton, Tensor};
use lgm::trace::{Phase, Trace};
use vtensor::{Bytes, Mode, OpIndex, TensorId, TensorKind};
use vtensor_bench::args::TaskArgs;
use vtensor_bench::inputs::Inputs;
use vtensor_bench::planning;

use crate::costs::Costs;

const TRACES: [&str; 8] = [
    "resnet18_b32_sgdm",
    "resnet50_b32_sgdm",
    "mobilenet_v2_b32_sgdm",
    "shufflenet_v2_x1_0_b32_sgdm",
    "densenet121_b32_sgdm",
    "unet_256_b8_adam",
    "squeezenet1_1_b32_sgdm",
    "vgg16_b32_sgdm",
];
/// Devices that traces are planned for.
pub(crate) const DEVICES: [&str; 2] = ["agx_orin", "orin_nano_8g"];
const WAYS: usize = 5;

/// Prints all of it. `left` is the part of rectified bytes that packing leaves.
pub(crate) fn print(left: f64) {
    println!(
        "\nplans for half of the peak: time over that without a limit; with rectified bytes packed,\n\
         on the link and in memory, for nothing, or for the time that it takes; and the part of\n\
         what `both` moves that was rectified"
    );
    println!(
        "{:<28}{:<14}{:>8}{:>8}{:>8}{:>8}{:>8}{:>11}",
        "", "", "swap", "free", "both", "free", "paid", "rectified"
    );
    let mut logs = [0.0; WAYS];
    for name in TRACES {
        for device in DEVICES {
            let task = TaskArgs {
                trace: path(name).into(),
                device: device.into(),
                ..TaskArgs::bundled()
            };
            let (times, part) = cell(&task, left);
            let [a, b, c, d, e] = times;
            println!("{name:<28}{device:<14}{a:>8.3}{b:>8.3}{c:>8.3}{d:>8.3}{e:>8.3}{part:>11.3}");
            for (sum, time) in logs.iter_mut().zip(times) {
                *sum += time.ln();
            }
        }
    }
    let cells = (TRACES.len() * DEVICES.len()) as f64;
    let [a, b, c, d, e] = logs.map(|sum| (sum / cells).exp());
    println!(
        "{:<42}{a:>8.3}{b:>8.3}{c:>8.3}{d:>8.3}{e:>8.3}",
        "geometric mean"
    );
}

/// The times of one cell, and the part of moved bytes that was rectified.
fn cell(task: &TaskArgs, left: f64) -> ([f64; WAYS], f64) {
    let mut inputs = Inputs::read(task).expect("the traces have all built-in devices");
    let compute_ns = inputs.skeleton.compute_ns() as f64;
    let mapped = inputs.trace.mapped_skeleton(&task.device);
    let mapped = mapped.expect("the traces have all built-in devices");
    let of_trace = rectified(&inputs.trace);
    let rows = mapped.tensor_rows.iter();
    let rectified: Vec<bool> = rows.map(|row| of_trace[*row as usize]).collect();
    let plan = |inputs: &Inputs, methods| {
        let request = inputs.request(Policy::Vtensor, methods, None);
        planning::plan(&request).expect("half of these peaks is enough")
    };
    let time =
        |inputs: &Inputs, methods| plan(inputs, methods).timeline.iteration_ns as f64 / compute_ns;
    let swap = time(&inputs, Methods::Swap);
    let mixed = plan(&inputs, Methods::Both);
    let both = mixed.timeline.iteration_ns as f64 / compute_ns;
    let (mut moved, mut of_these) = (0, 0);
    let lives = mixed.plan.replays.as_ref().map(|replays| &replays.lives);
    let outs = mixed
        .plan
        .program
        .outs
        .iter()
        .map(|out| (out.tensor, out.bytes));
    let ins = mixed.plan.program.ins.iter().map(|i| (i.tensor, i.bytes));
    for (tensor, bytes) in outs.chain(ins) {
        let own = lives.map_or(tensor, |lives| lives[tensor.index()]);
        moved += bytes.0;
        of_these += if rectified[own.index()] { bytes.0 } else { 0 };
    }
    let costs = Costs::of_device(&inputs.trace, &task.device, left);
    let skeleton = inputs.skeleton.clone();
    inputs.skeleton = packed(&skeleton, &rectified, Costs::none(left));
    let swap_free = time(&inputs, Methods::Swap);
    let both_free = time(&inputs, Methods::Both);
    inputs.skeleton = packed(&skeleton, &rectified, costs);
    let both_paid = time(&inputs, Methods::Both);
    (
        [swap, swap_free, both, both_free, both_paid],
        of_these as f64 / moved.max(1) as f64,
    )
}

/// The iteration with tensors packed whenever they are idle. What waits longest is paid for: packing
/// by the op before, unpacking by the op after.
fn packed(skeleton: &Skeleton, rectified: &[bool], costs: Costs) -> Skeleton {
    let mut packed = Skeleton {
        tensors: skeleton.tensors.clone(),
        ..Skeleton::default()
    };
    for (tensor, _) in packed
        .tensors
        .iter_mut()
        .zip(rectified)
        .filter(|(_, is)| **is)
    {
        tensor.bytes = Bytes(part(tensor.bytes, costs.left).max(1));
    }
    let mut durations_ns: Vec<u64> = skeleton.ops.iter().map(|op| op.duration_ns).collect();
    for (id, tensor) in skeleton
        .tensors
        .iter()
        .enumerate()
        .filter(|(id, _)| rectified[*id])
    {
        let uses = |op: &usize| {
            let accesses = skeleton.accesses_of(OpIndex::from_index(*op)).iter();
            accesses
                .into_iter()
                .any(|access| access.tensor.index() == id)
        };
        let uses: Vec<usize> = (0..skeleton.ops.len()).filter(uses).collect();
        let gaps = uses.windows(2).map(|pair| (pair[0], pair[1]));
        if let Some((before, after)) = gaps.max_by_key(|(before, after)| after - before) {
            durations_ns[before] += part(tensor.bytes, costs.pack);
            durations_ns[after] += part(tensor.bytes, costs.unpack);
        }
    }
    for (index, op) in skeleton.ops.iter().enumerate() {
        let first = packed.accesses.len();
        for access in skeleton.accesses_of(OpIndex::from_index(index)) {
            packed.accesses.push(*access);
            let whole = skeleton.tensor(access.tensor).bytes.0;
            let rest = whole - packed.tensor(access.tensor).bytes.0;
            if rest > 0 {
                let scratch = TensorId::from_index(packed.tensors.len());
                packed.tensors.push(Tensor {
                    name: String::new(),
                    bytes: Bytes(rest),
                    kind: TensorKind::Activation,
                    persistent: false,
                    fixed: false,
                });
                packed.accesses.push(Access {
                    tensor: scratch,
                    mode: Mode::Write,
                });
            }
        }
        let row = |count: usize| u32::try_from(count).expect("twice a trace is within limits");
        packed.ops.push(Op {
            duration_ns: durations_ns[index],
            first_access: row(first),
            access_count: row(packed.accesses.len() - first),
            ..op.clone()
        });
    }
    packed
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn part(bytes: Bytes, factor: f64) -> u64 {
    (bytes.0 as f64 * factor).ceil() as u64
}

/// For each tensor of a trace, whether the forward pass leaves rectified numbers in it: its last
/// writer there is a rectifier, or passes on nothing but what one made.
fn rectified(trace: &Trace) -> Vec<bool> {
    let mut rectified = vec![false; trace.tensors().len()];
    let forward = |op: &usize| trace.ops()[*op].phase == Phase::Forward;
    for op in (0..trace.ops().len()).filter(forward) {
        let name = trace.ops()[op].name.as_str();
        let name = name.split('.').nth(1).unwrap_or(name);
        let reads = trace.reads(op);
        let now = match name {
            "relu" | "relu_" | "hardtanh" | "hardtanh_" => true,
            "cat" | "clone" | "max_pool2d_with_indices" => {
                !reads.is_empty() && reads.iter().all(|read| rectified[*read as usize])
            }
            _ => false,
        };
        for written in trace.writes(op) {
            rectified[*written as usize] = now;
        }
    }
    rectified
}

/// Where a trace of the repository is.
pub(crate) fn path(name: &str) -> String {
    format!("{}/../../traces/{name}.json.gz", env!("CARGO_MANIFEST_DIR"))
}
