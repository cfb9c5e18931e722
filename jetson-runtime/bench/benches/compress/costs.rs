//! What the ways of parting with an activation for a while take.
//!
//! In: activations of a network, or a trace with the durations of a device. Out: nanoseconds for
//! each byte of rectified activations.

use std::time::Duration;

use lgm::trace::Trace;
use nix::time::{ClockId, clock_gettime};

use crate::activations::Activations;
use crate::packed::Packed;

/// Runs of each measurement.
pub(crate) const RUNS: usize = 21;

/// Nanoseconds for each byte of an activation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// A bare copy, to compare with.
    copy: f64,
    pub(crate) pack: f64,
    pub(crate) unpack: f64,
    /// Making it again: normalising, adding a shortcut where there is one, rectifying.
    pub(crate) again: f64,
    /// Making the output of a convolution again.
    convolution: f64,
    /// The part of the bytes that packing leaves.
    pub(crate) left: f64,
}

impl Costs {
    /// Measures the ways, each of them in turn.
    pub(crate) fn measured(activations: &mut Activations) -> Self {
        let mut sum = Self::default();
        let mut bytes = [0.0; 2];
        for value in activations.waiting().collect::<Vec<_>>() {
            let content = activations.value(value).to_vec();
            let mut output = vec![f32::NAN; content.len()];
            let makers = activations.makers(value);
            if makers == "convolution" {
                let times = (0..RUNS).map(|_| timed(|| activations.make(value, &mut output)));
                sum.convolution += median(times.collect());
                bytes[1] += size_of_val(&*content) as f64;
            }
            if !makers.ends_with("rectified") {
                continue;
            }
            let mut packed = Packed::new(content.len());
            let mut times = [const { Vec::new() }; 4];
            for _ in 0..RUNS {
                times[0].push(timed(|| output.copy_from_slice(&content)));
                times[1].push(timed(|| packed.pack(&content)));
                output.fill(f32::NAN);
                times[2].push(timed(|| packed.unpack(&mut output)));
                assert!(same(&content, &output), "unpacked");
                output.fill(f32::NAN);
                times[3].push(timed(|| activations.make(value, &mut output)));
                assert!(same(&content, &output), "made again");
            }
            let [copy, pack, unpack, again] = times.map(median);
            sum.copy += copy;
            sum.pack += pack;
            sum.unpack += unpack;
            sum.again += again;
            sum.left += packed.bytes() as f64;
            bytes[0] += size_of_val(&*content) as f64;
        }
        let [rectified, convolutions] = bytes;
        Self {
            copy: sum.copy / rectified,
            pack: sum.pack / rectified,
            unpack: sum.unpack / rectified,
            again: sum.again / rectified,
            convolution: sum.convolution / convolutions,
            left: sum.left / rectified,
        }
    }

    /// Packing for nothing.
    pub(crate) fn none(left: f64) -> Self {
        Self {
            left,
            ..Self::default()
        }
    }

    /// Those of a device on which all but convolutions waits for memory: packing reads a byte and
    /// writes what is left of it, unpacking the other way round; a rectifier in place does both
    /// with all of it. Durations are the trace's, means over all ops of a name.
    pub(crate) fn of_device(trace: &Trace, device: &str, left: f64) -> Self {
        let column = trace.devices().iter().position(|name| name == device);
        let column = column.expect("the traces have all built-in devices");
        // The largest tensor that an op writes is its output.
        let ns = |wanted: &[&str]| {
            let (mut ns, mut bytes) = (0, 0);
            for (row, op) in trace.ops().iter().enumerate() {
                if wanted.contains(&op.name.as_str()) {
                    ns += trace.durations_ns(row)[column];
                    let written = trace.writes(row).iter();
                    let written = written.map(|id| trace.tensors()[*id as usize].bytes.0);
                    bytes += written.max().unwrap_or_default();
                }
            }
            ns as f64 / bytes.max(1) as f64
        };
        let rectify = ns(&["aten.relu_.default", "aten.hardtanh_.default"]);
        let pass = rectify * (1.0 + left) / 2.0;
        Self {
            pack: pass,
            unpack: pass,
            again: ns(&["aten.native_batch_norm.default"]) + rectify,
            left,
            ..Self::default()
        }
    }

    /// Prints what was measured.
    pub(crate) fn print(&self, name: &str) {
        println!(
            "{name:<12}{:>8.3}{:>8.3}{:>8.3}{:>8.3}{:>22.3}",
            self.copy, self.pack, self.unpack, self.again, self.convolution
        );
    }
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// The nanoseconds that this thread computes.
fn timed(run: impl FnOnce()) -> f64 {
    let start = now();
    run();
    now().saturating_sub(start).as_nanos() as f64
}

fn now() -> Duration {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock_gettime(clock)
        .expect("every thread has a clock")
        .into()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
