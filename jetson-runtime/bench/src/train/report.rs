//! What a training says, as JSON with fixed keys. The text is in `table`.
//!
//! The keys and their units are a contract with programs that read them: seconds and bytes. Nothing
//! is ever renamed. What was not measured is `null`.

use std::time::Duration;

use jetson_runtime::written_per_day;
use serde::Serialize;
use sha2::{Digest, Sha256};
use vtensor::Bytes;

use super::run::{Outcome, Task};

/// What `train` says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainReport {
    /// One for each policy, the reference without a limit first.
    pub runs: Vec<RunReport>,
}

/// The training under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// What chose the moves.
    pub policy: String,
    /// The budget; `null` is no limit.
    pub budget_bytes: Option<u64>,
    /// Images of a full batch over `measured_step_s`.
    pub images_per_s: Option<f64>,
    /// The loss of the first step.
    pub loss_first: f32,
    /// The loss of the last step.
    pub loss_last: f32,
    /// SHA-256, in hexadecimal, of the bits of all losses, in the order of steps.
    pub losses_digest: String,
    /// Whether losses, accuracies, final parameters, momenta and running statistics are those of
    /// the first run without a limit, in every repeat.
    pub bit_identical: bool,
    /// The share of held-out images that the final model has right.
    pub test_accuracy: f64,
    /// Memory that the arena held, at most.
    pub peak_device_bytes: u64,
    /// Memory of the process, less what it had before and less a spill tier in memory, at most.
    pub peak_pss_bytes: Option<u64>,
    /// Bytes that left the arena in the whole training.
    pub moved_out_bytes: u64,
    /// Bytes that came back.
    pub moved_in_bytes: u64,
    /// Memory of tensors that never leave it.
    pub kept_bytes: u64,
    /// What a frozen step with a full batch writes to the spill file; `null` without a file.
    pub written_per_step_bytes: Option<u64>,
    /// What that is in a day of such steps.
    pub written_per_day_bytes: Option<u64>,
    /// Seconds in which ops waited for copies, in the whole training.
    pub stall_s: f64,
    /// Seconds in bodies of ops, in the whole training.
    pub compute_s: f64,
    /// Seconds of the whole training, with recording, planning and evaluation.
    pub total_s: f64,
    /// Seconds of a frozen step with a full batch, as the cost model says.
    pub predicted_step_s: Option<f64>,
    /// The same if nothing were kept in memory; `null` if nothing is, or it has no plan.
    pub predicted_step_unkept_s: Option<f64>,
    /// Seconds of a frozen step with a full batch after another one, the median.
    pub measured_step_s: Option<f64>,
    /// CPU seconds of all threads in such a step, the median.
    pub measured_step_cpu_s: Option<f64>,
    /// Seconds that the ops of such a step computed when they were recorded.
    pub step_compute_s: Option<f64>,
    /// Seconds that the link is busy with its copies, at full speed.
    pub step_transfer_s: Option<f64>,
    /// How many steps that is the median of, in one repeat.
    pub measured_steps: u64,
    /// Steps of the training.
    pub steps: u64,
    /// Trainings whose times the medians are of.
    pub repeats: u64,
    /// Why a kind of iteration had no program and ran on demand; empty if all had.
    pub refusals: Vec<String>,
    /// How room was made: swap, recompute or both. Only the policy vtensor runs ops again.
    pub methods: String,
    /// Seconds in ops that ran again, in the whole training.
    pub recompute_s: f64,
    /// Bytes that were computed again for an op that reads them, in the whole training.
    pub recomputed_bytes: u64,
}

impl RunReport {
    /// Sums up the repeats of one policy; times are their medians. `identical` says whether the
    /// results of all of them are the reference's.
    ///
    /// # Panics
    /// If there is no repeat, or a training had no step; command lines ask for at least one.
    #[must_use]
    pub fn new(task: &Task, repeats: &[Outcome], identical: bool) -> Self {
        let first = &repeats[0];
        let over = |time: &dyn Fn(&Outcome) -> Duration| {
            let mut seconds: Vec<f64> = repeats.iter().map(|r| time(r).as_secs_f64()).collect();
            median(&mut seconds).expect("there is a repeat")
        };
        let some = |time: &dyn Fn(&Outcome) -> Option<f64>| {
            let mut seconds: Vec<f64> = repeats.iter().filter_map(time).collect();
            median(&mut seconds)
        };
        let of_steps = |times: &dyn Fn(&Outcome) -> &[Duration]| {
            some(&|repeat| {
                let steps = times(repeat).iter();
                median(&mut steps.map(Duration::as_secs_f64).collect::<Vec<_>>())
            })
        };
        let measured_step_s = of_steps(&|repeat| &repeat.steps_took);
        let step = measured_step_s.map(Duration::from_secs_f64);
        let ns = |step: Duration| u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        let per_day = first.written.zip(step);
        let per_day = per_day.map(|(written, step)| written_per_day(written, ns(step)));
        let losses = &first.results.losses;
        let loss = |bits: Option<&u32>| f32::from_bits(*bits.expect("a training has a step"));
        let correct = first.results.correct.last().copied().unwrap_or_default();
        let most = |bytes: &dyn Fn(&Outcome) -> Option<Bytes>| {
            let held = repeats.iter().filter_map(bytes).max();
            held.map(|bytes| bytes.0)
        };
        Self {
            policy: first.policy.name().into(),
            budget_bytes: first.budget.map(|budget| budget.0),
            images_per_s: measured_step_s.map(|seconds| task.course.batch as f64 / seconds),
            loss_first: loss(losses.first()),
            loss_last: loss(losses.last()),
            losses_digest: digest(losses),
            bit_identical: identical,
            test_accuracy: f64::from(correct) / task.data.test.len().max(1) as f64,
            peak_device_bytes: most(&|repeat| Some(repeat.held.arena)).unwrap_or_default(),
            peak_pss_bytes: most(&|repeat| repeat.held.process),
            moved_out_bytes: first.moved[0].0,
            moved_in_bytes: first.moved[1].0,
            kept_bytes: first.kept.0,
            written_per_step_bytes: first.written.map(|bytes| bytes.0),
            written_per_day_bytes: per_day.map(|bytes| bytes.0),
            stall_s: over(&|repeat| repeat.stall),
            compute_s: over(&|repeat| repeat.compute),
            total_s: over(&|repeat| repeat.total),
            predicted_step_s: some(&|repeat| Some(repeat.predicted?.as_secs_f64())),
            predicted_step_unkept_s: some(&|repeat| Some(repeat.predicted_unkept?.as_secs_f64())),
            measured_step_s,
            measured_step_cpu_s: of_steps(&|repeat| &repeat.steps_cpu),
            step_compute_s: some(&|repeat| Some(repeat.step_compute?.as_secs_f64())),
            step_transfer_s: some(&|repeat| Some(repeat.step_transfer?.as_secs_f64())),
            measured_steps: first.steps_took.len() as u64,
            steps: losses.len() as u64,
            repeats: repeats.len() as u64,
            refusals: first.refusals.clone(),
            methods: task.methods.name().into(),
            recompute_s: over(&|repeat| repeat.recompute),
            recomputed_bytes: first.recomputed.0,
        }
    }
}

fn digest(losses: &[u32]) -> String {
    let mut hash = Sha256::new();
    for loss in losses {
        hash.update(loss.to_le_bytes());
    }
    let sum = hash.finalize();
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The median; of two in the middle their mean.
fn median(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    let even = numbers.len().is_multiple_of(2);
    let lower = if even { numbers[middle - 1] } else { upper };
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in crate::train) fn run(policy: &str, images_per_s: f64) -> RunReport {
        RunReport {
            policy: policy.into(),
            budget_bytes: Some(3 << 20),
            images_per_s: Some(images_per_s),
            loss_first: 2.5,
            loss_last: 0.01,
            losses_digest: "00ff".into(),
            bit_identical: true,
            test_accuracy: 0.975,
            peak_device_bytes: 3 << 20,
            peak_pss_bytes: Some(4 << 20),
            moved_out_bytes: 5 << 20,
            moved_in_bytes: 6 << 20,
            kept_bytes: 0,
            written_per_step_bytes: None,
            written_per_day_bytes: None,
            stall_s: 0.25,
            compute_s: 1.5,
            total_s: 2.0,
            predicted_step_s: Some(0.02),
            predicted_step_unkept_s: None,
            measured_step_s: Some(0.025),
            measured_step_cpu_s: Some(0.04),
            step_compute_s: Some(0.018),
            step_transfer_s: Some(0.012),
            measured_steps: 80,
            steps: 96,
            repeats: 1,
            refusals: Vec::new(),
            methods: "both".into(),
            recompute_s: 0.125,
            recomputed_bytes: 2 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::to_json;

    #[test]
    fn keys_are_fixed() {
        let report = TrainReport {
            runs: vec![samples::run("vtensor", 100.0)],
        };
        let json: serde_json::Value =
            serde_json::from_str(&to_json(&report)).expect("reports are JSON");
        let run = json["runs"][0].as_object().expect("an object");
        for key in [
            "policy",
            "budget_bytes",
            "images_per_s",
            "loss_first",
            "loss_last",
            "losses_digest",
            "bit_identical",
            "test_accuracy",
            "peak_device_bytes",
            "peak_pss_bytes",
            "moved_out_bytes",
            "moved_in_bytes",
            "kept_bytes",
            "written_per_step_bytes",
            "written_per_day_bytes",
            "stall_s",
            "compute_s",
            "total_s",
            "predicted_step_s",
            "predicted_step_unkept_s",
            "measured_step_s",
            "measured_step_cpu_s",
            "step_compute_s",
            "step_transfer_s",
            "measured_steps",
            "steps",
            "repeats",
            "refusals",
            "methods",
            "recompute_s",
            "recomputed_bytes",
        ] {
            assert!(run.contains_key(key), "{key}");
        }
        assert_eq!(run.len(), 31);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn the_digest_depends_on_every_bit() {
        assert_ne!(digest(&[1, 2]), digest(&[1, 3]));
        assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
        assert_eq!(digest(&[]).len(), 64);
    }
}
