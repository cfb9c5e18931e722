//! The replay on a GPU: the same ops, as kernels, which check every byte on the device.
//!
//! In: a proven plan, an open device, and [`GpuSettings`]. Out: a [`GpuOutcome`]. Each access of
//! each op has a counter on the device, so a wrong byte is found by the op that read it; counters
//! are read once, at the end, so that nothing waits for them meanwhile.
//!
//! Limits: which training step found a wrong byte is not known; without a witness of addresses
//! there is no digest.

use std::num::NonZeroU32;
use std::time::Instant;

use jetson_runtime::cuda::{CudaError, Device, Frozen, Kernels, Mechanism, Options, Stats};
use jetson_runtime::cuda::{Taken, Tally};
use jetson_runtime::{RuntimeError, Spill, StorageOptions, pattern};
use lgm::plan::Plan;
use lgm::skeleton::Skeleton;
use lgm::verify::VerifiedPlan;
use vtensor::{Mode, OpIndex, PageBytes, TensorId};

use super::settings::Executed;
use super::versions::{Row, Versions};
use crate::error::BenchError;

/// Persistent tensors are read back in parts of this size.
const PART_BYTES: u64 = 1 << 20;

/// How to execute a plan on a GPU.
#[derive(Clone, Debug)]
pub struct GpuSettings {
    /// Where tensors lie, and how copies are made.
    pub mechanism: Mechanism,
    /// Where pieces go.
    pub spill: Spill,
    /// How a spill file is used. At a smaller scale it goes through the page cache, unsealed.
    pub storage: StorageOptions,
    /// Spill to the host although that frees nothing.
    pub force_host_spill: bool,
    /// Training steps.
    pub steps: NonZeroU32,
    /// Executed size over planned size, above 0 and at most 1; see [`Executed::page_of`].
    pub scale: f64,
    /// What the durations of ops are multiplied by where each op takes at least its own; `None`
    /// for ops that take as long as their checks.
    pub paced: Option<f64>,
}

/// What came of a replay on a GPU.
#[derive(Clone, Debug)]
pub struct GpuOutcome {
    /// The executed page.
    pub page: PageBytes,
    /// Planned bytes over executed bytes.
    pub ratio: u64,
    /// Training steps.
    pub steps: u64,
    /// Seconds that one took, on average, from the first to the last byte.
    pub measured_s: f64,
    /// Seconds of one step in which the host enqueued, its waits for the GPU and for copies not
    /// counted.
    pub host_s: f64,
    /// Wrong bytes.
    pub mismatches: u64,
    /// The first access that found some, or what was wrong at the end.
    pub first: Option<WrongBytes>,
    /// What the program did.
    pub stats: Stats,
    /// What it took.
    pub taken: Taken,
}

/// Bytes that were not their last writer's, in all training steps together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongBytes {
    /// The op that read them; `None` for the check of persistent tensors at the end.
    pub op: Option<OpIndex>,
    /// The tensor.
    pub tensor: TensorId,
    /// How many.
    pub wrong: u64,
}

/// Executes a plan on a GPU. `advance` is called after each training step is enqueued.
///
/// # Errors
/// If the device refuses what the plan needs, or fails. Wrong bytes are no error: they are counted.
///
/// # Panics
/// If the runtime contradicts its own plan.
pub fn replay_on_gpu(
    plan: VerifiedPlan,
    device: &Device,
    settings: &GpuSettings,
    advance: &mut dyn FnMut(),
) -> Result<GpuOutcome, BenchError> {
    let fill = |tensor: TensorId, offset, bytes: &mut [u8]| {
        pattern::fill(bytes, tensor.0, 0, offset);
    };
    let kept = Plan::clone(&plan);
    let page = Executed::page_of(kept.program.page_bytes, settings.scale);
    let options = Options {
        executed_page: Some(page),
        spill: settings.spill.clone(),
        storage: settings.storage,
        force_host_spill: settings.force_host_spill,
        ..Options::of(settings.mechanism)
    };
    let mut run = Run {
        frozen: Frozen::freeze(device, plan, &options, fill)?,
        kernels: Kernels::load(device).map_err(RuntimeError::from)?,
        tally: tally(device, &kept.skeleton)?,
        skeleton: &kept.skeleton,
        versions: Versions::new(&kept),
        paced: settings.paced,
    };
    run.frozen.quiesce()?;
    let steps = u64::from(settings.steps.get());
    let begin = Instant::now();
    for _ in 0..steps {
        run.iteration()?;
        advance();
    }
    let waited = run.frozen.stats().host_wait_ns as f64 * 1e-9;
    let host_s = (begin.elapsed().as_secs_f64() - waited) / steps as f64;
    run.frozen.quiesce()?;
    let measured_s = begin.elapsed().as_secs_f64() / steps as f64;
    let (mut mismatches, mut first) = run.found()?;
    let (at_rest, first_at_rest) = run.read_back(&kept, page)?;
    mismatches += at_rest;
    first = first.or(first_at_rest);
    let stats = run.frozen.stats();
    let ratio = kept.program.page_bytes.get() / page.get();
    moved_as_planned(&stats, &kept, ratio, steps);
    Ok(GpuOutcome {
        page,
        ratio,
        steps,
        measured_s,
        host_s,
        mismatches,
        first,
        stats,
        taken: run.frozen.taken(),
    })
}

fn tally(device: &Device, skeleton: &Skeleton) -> Result<Tally, RuntimeError> {
    let tally: Result<Tally, CudaError> = Tally::new(device, skeleton.accesses.len());
    Ok(tally?)
}

struct Run<'a> {
    // First, so that its streams come to rest before what their kernels use goes.
    frozen: Frozen,
    kernels: Kernels,
    tally: Tally,
    skeleton: &'a Skeleton,
    versions: Versions,
    paced: Option<f64>,
}

impl Run<'_> {
    fn iteration(&mut self) -> Result<(), RuntimeError> {
        self.versions.begin();
        self.frozen.iteration_begin()?;
        for op in 0..self.skeleton.ops.len() {
            let op = OpIndex::from_index(op);
            self.frozen.step_begin(op)?;
            self.compute(op)?;
            self.frozen.step_end()?;
        }
        self.frozen.iteration_end()
    }

    /// The open step: what is overwritten first, then what is renewed, then what is only read, so
    /// that tensors of one op that overlapped would be seen.
    fn compute(&mut self, op: OpIndex) -> Result<(), RuntimeError> {
        let row = &self.skeleton.ops[op.index()];
        let first = row.first_access as usize;
        for mode in [Mode::Write, Mode::ReadWrite, Mode::Read] {
            for (access, used) in self.skeleton.accesses_of(op).iter().enumerate() {
                if used.mode != mode {
                    continue;
                }
                let Row { found, holds, left } = self.versions.row(first + access);
                let (kernels, tally) = (&self.kernels, &self.tally);
                if holds {
                    let content = (found.tensor, self.versions.version(found));
                    self.frozen
                        .check_content(kernels, access, content, tally, first + access)?;
                }
                if mode.writes() {
                    let content = (left.tensor, self.versions.version(left));
                    self.frozen.fill(kernels, access, content)?;
                }
            }
        }
        if let Some(scale) = self.paced {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let ns = (row.duration_ns as f64 * scale) as u64;
            self.frozen.spin(&self.kernels, ns)?;
        }
        Ok(())
    }

    /// What ops found wrong.
    fn found(&self) -> Result<(u64, Option<WrongBytes>), RuntimeError> {
        let counters = self.tally.read()?;
        let mut first = None;
        for (op, row) in self.skeleton.ops.iter().enumerate() {
            let op = OpIndex::from_index(op);
            let counters = &counters[row.first_access as usize..];
            for (access, &wrong) in self.skeleton.accesses_of(op).iter().zip(counters) {
                if wrong > 0 && first.is_none() {
                    first = Some(WrongBytes {
                        op: Some(op),
                        tensor: access.tensor,
                        wrong,
                    });
                }
            }
        }
        Ok((counters.iter().sum(), first))
    }

    /// Reads every byte that HOME keeps, and counts the wrong ones.
    fn read_back(
        &mut self,
        plan: &Plan,
        page: PageBytes,
    ) -> Result<(u64, Option<WrongBytes>), RuntimeError> {
        let ratio = plan.program.page_bytes.get() / page.get();
        let piece = plan.program.piece_bytes.get() / ratio;
        let (mut all, mut first) = (0, None);
        for home in &plan.program.homes {
            let tensor = home.tensor;
            if home.place.is_none() && home.slot.is_none() {
                continue;
            }
            let bytes = self.frozen.tensor_bytes(tensor).map_or(0, |bytes| bytes.0);
            let mut offset = u64::from(home.pieces.first) * piece;
            let end = bytes.min(home.pieces.end() * piece);
            let mut wrong = 0;
            while offset < end {
                let part = PART_BYTES.min(end - offset);
                let mut buffer = vec![0; usize::try_from(part).expect("parts are small")];
                self.frozen.read(tensor, offset, &mut buffer)?;
                let version = self.versions.version(self.versions.last(tensor));
                wrong += pattern::check(&buffer, tensor.0, version, offset);
                offset += part;
            }
            all += wrong;
            if wrong > 0 && first.is_none() {
                first = Some(WrongBytes {
                    op: None,
                    tensor,
                    wrong,
                });
            }
        }
        Ok((all, first))
    }
}

/// Bytes that were copied are bytes that the plan copies.
fn moved_as_planned(stats: &Stats, plan: &Plan, ratio: u64, steps: u64) {
    let outs = plan
        .program
        .outs
        .iter()
        .map(|out| out.bytes.0.div_ceil(ratio));
    let ins = plan
        .program
        .ins
        .iter()
        .map(|r#in| r#in.bytes.0.div_ceil(ratio));
    assert_eq!(
        [stats.moved_out().0, stats.moved_in().0],
        [outs.sum::<u64>() * steps, ins.sum::<u64>() * steps],
        "the runtime copies what the plan says"
    );
}
