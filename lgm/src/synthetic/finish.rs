//! What dies after each op, and how long each takes.

use vtensor::Bytes;

use super::generator::{Draft, Generator};
use crate::trace::{Builder, OpSpec, Trace};

/// The devices that the durations are for, and the bytes that each moves in a microsecond.
const DEVICES: [(&str, u64); 3] = [
    ("orin_nano_8g", 47_000),
    ("agx_orin", 143_000),
    ("rtx3060", 252_000),
];

impl Generator {
    /// Frees each transient after its last use, or a little later, and draws durations.
    pub(super) fn finish(mut self, seed: u64) -> Trace {
        let mut frees: Vec<Vec<u32>> = vec![Vec::new(); self.ops.len()];
        let mut seen = vec![false; self.tensors.len()];
        for row in (0..self.ops.len()).rev() {
            let Draft {
                reads,
                writes,
                allocs,
                views,
                ..
            } = &self.ops[row].1;
            let ids = [&reads[..], writes, allocs, views].concat();
            for id in ids {
                let first = !std::mem::replace(&mut seen[id as usize], true);
                if first && !self.tensors[id as usize].persistent {
                    let late = if self.chance(80) { 0 } else { self.below(4) };
                    frees[(row + late).min(self.ops.len() - 1)].push(id);
                }
            }
        }
        let names = DEVICES.map(|(name, _)| name);
        let mut builder = Builder::new(&format!("synthetic-{seed}"), 1, "sgdm", &names);
        for (tensor, seen) in self.tensors.clone().into_iter().zip(&seen) {
            assert!(
                *seen || tensor.persistent,
                "every transient was made by an op"
            );
            builder.tensor(tensor);
        }
        for (row, (phase, op)) in std::mem::take(&mut self.ops).into_iter().enumerate() {
            let ids = op.reads.iter().chain(&op.writes);
            let moved: u64 = ids.map(|&id| self.tensors[id as usize].bytes.0).sum();
            // From bound by memory to eight times that, plus a launch.
            let factor = self.within(1, 8);
            let durations_ns = DEVICES.map(|(_, bytes_per_us)| {
                if op.no_time {
                    0
                } else {
                    moved * 1_000 / bytes_per_us * factor + 5_000
                }
            });
            builder.op(&OpSpec {
                name: op.name,
                phase,
                reads: &op.reads,
                writes: &op.writes,
                allocs: &op.allocs,
                frees: &frees[row],
                views: &op.views,
                flops: 0,
                moved: Bytes(moved),
                replayable: None,
                durations_ns: &durations_ns,
            });
        }
        builder
            .finish()
            .expect("the generator obeys the rules of traces")
    }
}
