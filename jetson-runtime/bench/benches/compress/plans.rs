//! What packing would do for whole plans, if it were there: at no cost, and at what it costs.
//!
//! In: traces, devices, half of a trace's peak. Out: times over that without a limit, printed.
//!
//! The planner is not told about packing; the iteration is rewritten as if whatever was rectified
//! were packed whenever no op uses it: a tensor has only the bytes that packing leaves, and each op
//! that uses it also has the rest, as scratch. So it takes fewer bytes on the link *and* in memory,
//! which no frozen program could promise: how many zeros there are is known too late. For copies
//! alone, only what moves in such a plan is packed.

use lgm::plan::Plan;
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
const WAYS: usize = 6;
/// How often at most packing is taken back from what does not move.
const ROUNDS: usize = 6;

/// Prints all of it. `left` is the part of rectified bytes that packing leaves.
pub(crate) fn print(left: f64) {
    println!(
        "\nplans for half of the peak, time over that without a limit: by swapping, by both\n\
         methods, and by both with rectified bytes packed: copies alone, or all of them while\n\
         idle, in memory too; for the time that it takes, or for nothing"
    );
    println!("{:<42}{:>16}{:>16}{:>16}", "", "", "copies", "all");
    println!(
        "{:<42}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "", "swap", "both", "paid", "free", "paid", "free"
    );
    let mut logs = [0.0; WAYS];
    for name in TRACES {
        for device in DEVICES {
            let task = TaskArgs {
                trace: path(name).into(),
                device: device.into(),
                ..TaskArgs::bundled()
            };
            let times = cell(&task, left);
            println!("{name:<28}{device:<14}{}", row(times));
            for (sum, time) in logs.iter_mut().zip(times) {
                *sum += time.ln();
            }
        }
    }
    let cells = (TRACES.len() * DEVICES.len()) as f64;
    let means = logs.map(|sum| (sum / cells).exp());
    println!("{:<42}{}", "geometric mean", row(means));
}

fn row(times: [f64; WAYS]) -> String {
    times.map(|time| format!("{time:>8.3}")).concat()
}

/// The times of one cell. A planner need not pack, so none of them is worse than by both methods.
fn cell(task: &TaskArgs, left: f64) -> [f64; WAYS] {
    let mut inputs = Inputs::read(task).expect("the traces have all built-in devices");
    let compute_ns = inputs.skeleton.compute_ns() as f64;
    let mapped = inputs.trace.mapped_skeleton(&task.device);
    let mapped = mapped.expect("the traces have all built-in devices");
    let of_trace = rectified(&inputs.trace);
    let rows = mapped.tensor_rows.iter();
    let rectified: Vec<bool> = rows.map(|row| of_trace[*row as usize]).collect();
    let costs = Costs::of_device(&inputs.trace, &task.device, left);
    let own = mapped.skeleton;
    let mut plan = |skeleton: Skeleton, methods| {
        inputs.skeleton = skeleton;
        let request = inputs.request(Policy::Vtensor, methods, None);
        let planned = planning::plan(&request).expect("half of these peaks is enough");
        let time = planned.timeline.iteration_ns as f64 / compute_ns;
        (time, planned.plan)
    };
    let (swap, _) = plan(own.clone(), Methods::Swap);
    let (both, _) = plan(own.clone(), Methods::Both);
    let mut with = |costs| {
        let mut chosen = rectified.clone();
        let (all, mut now) = plan(packed(&own, &chosen, costs), Methods::Both);
        // What is packed and does not move had that for nothing in memory: once more without.
        for _ in 0..ROUNDS {
            for (chosen, moves) in chosen.iter_mut().zip(moving(&now)) {
                *chosen &= moves;
            }
            let (copies, next) = plan(packed(&own, &chosen, costs), Methods::Both);
            now = next;
            let mut both_ways = chosen.iter().zip(moving(&now));
            if both_ways.all(|(chosen, moves)| !chosen || moves) {
                return [copies.min(both), all.min(both)];
            }
        }
        [both, all.min(both)]
    };
    let [copies, all] = with(costs);
    let [copies_free, all_free] = with(Costs::none(left));
    [swap, both, copies, copies_free, all, all_free]
}

/// For each tensor of the application, whether at least half of it comes in.
fn moving(plan: &Plan) -> Vec<bool> {
    let mut bytes = vec![0; plan.skeleton.tensors.len()];
    let lives = plan.replays.as_ref().map(|replays| &replays.lives);
    for queued in &plan.program.ins {
        let tensor = lives.map_or(queued.tensor, |lives| lives[queued.tensor.index()]);
        bytes[tensor.index()] += queued.bytes.0;
    }
    let tensors = plan.skeleton.tensors.iter();
    let moves = tensors
        .zip(bytes)
        .map(|(tensor, bytes)| 2 * bytes >= tensor.bytes.0);
    moves.collect()
}

/// The iteration with tensors packed whenever they are idle. The longest wait of each is paid for:
/// the op before it packs, the op after it unpacks.
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
