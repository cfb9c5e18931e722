//! A part of a trace: the same ops, without some of its tensors.

use vtensor::TensorId;

use super::builder::{Builder, OpSpec};
use super::{Tensor, Trace, TraceError};

impl Trace {
    /// The same ops on those tensors that are not `gone`, numbered anew in their order: what is
    /// left to plan where the others never move.
    ///
    /// # Errors
    /// None in practice: a part of a trace keeps the rules that the whole keeps.
    pub fn without(&self, gone: impl Fn(&Tensor) -> bool) -> Result<Self, TraceError> {
        let devices: Vec<&str> = self.devices().iter().map(String::as_str).collect();
        let mut builder = Builder::new(self.model(), self.batch(), self.optimizer(), &devices);
        let mut add = |tensor: &Tensor| (!gone(tensor)).then(|| builder.tensor(tensor.clone()));
        let numbers: Vec<Option<u32>> = self.tensors().iter().map(&mut add).collect();
        let left = |ids: &[u32]| -> Vec<u32> {
            let ids = ids.iter().map(|&id| TensorId(id).index());
            ids.filter_map(|row| numbers[row]).collect()
        };
        for (at, op) in self.ops().iter().enumerate() {
            let [reads, writes] = [self.reads(at), self.writes(at)].map(left);
            let [allocs, frees, views] =
                [self.allocs(at), self.frees(at), self.views(at)].map(left);
            builder.op(&OpSpec {
                reads: &reads,
                writes: &writes,
                allocs: &allocs,
                frees: &frees,
                views: &views,
                flops: op.flops,
                moved: op.moved,
                replayable: op.replayable,
                durations_ns: self.durations_ns(at),
                ..OpSpec::new(&op.name, op.phase)
            });
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use vtensor::Bytes;

    const STEP: &str = r#"{"header": {"schema": 1, "model": "m", "batch": 1, "optimizer": "sgdm"},
        "tensors": [{"id": 0, "bytes": 64, "kind": "param", "persistent": true},
                    {"id": 1, "bytes": 16, "kind": "act", "persistent": false}],
        "ops": [{"name": "forward", "ph": "fwd", "reads": [0], "writes": [1], "allocs": [1],
                 "frees": [], "dur_us": {"d": 2.5}},
                {"name": "update", "ph": "opt", "reads": [0, 1], "writes": [0], "allocs": [],
                 "frees": [1], "dur_us": {"d": 1.5}}]}"#;

    #[test]
    fn what_is_left_is_used_by_the_same_ops() {
        let whole = crate::trace::read(STEP.as_bytes()).expect("a trace");
        let part = whole
            .without(|tensor| tensor.persistent)
            .expect("a part of a trace");
        assert_eq!(
            (part.peak_bytes(), part.persistent_bytes()),
            (Bytes(16), Bytes(0))
        );
        assert_eq!(part.ops().len(), 2);
        assert_eq!((part.reads(0), part.writes(0)), (&[][..], &[0][..]));
        assert_eq!(
            (part.reads(1), part.writes(1), part.frees(1)),
            (&[0][..], &[][..], &[0][..])
        );
        let ns = |trace: &crate::trace::Trace| trace.compute_ns("d").expect("a device");
        assert_eq!(ns(&part), ns(&whole));
        let all = whole.without(|_| false).expect("the whole");
        assert_eq!(
            all.digest(),
            whole.without(|_| false).expect("again").digest()
        );
        assert_eq!(all.peak_bytes(), whole.peak_bytes());
    }
}
