//! Which content each access finds and leaves.
//!
//! In: a plan. Out: contents of the *application's* tensors, by access of the steps. An op that
//! runs again finds what it found at first in this iteration, and leaves what it left, whatever
//! life of a tensor it uses; so an op that read a wrong life would find a wrong content.
//!
//! A version counts the writes since the freeze. Scratch of an op that runs again begins as a copy
//! and is left with a content of its own, which nothing may read.

use lgm::plan::{Plan, Replays};
use lgm::skeleton::Access;
use vtensor::{OpIndex, StepKind, TensorId};

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// The tensor of the application; for scratch, of the steps.
    pub(super) tensor: TensorId,
    /// Writes of this iteration before it: equal in every iteration.
    pub(super) writes: u32,
}

/// An access of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// What is there before.
    pub(super) found: Content,
    /// Whether that is there for sure: the step reads it, or has filled it.
    pub(super) holds: bool,
    /// What is there behind.
    pub(super) left: Content,
}

/// The contents of an iteration.
#[derive(Clone, Debug)]
pub(super) struct Versions {
    rows: Vec<Row>,
    /// Writes of each tensor in an iteration.
    writes: Vec<u32>,
    /// Writes of each tensor before this iteration; they wrap after 2^32.
    before: Vec<u32>,
}

impl Versions {
    /// Those of a plan, before its first iteration. Persistent tensors begin with version 0.
    pub(super) fn new(plan: &Plan) -> Self {
        let mut writer = Writer {
            rows: Vec::with_capacity(plan.skeleton.accesses.len()),
            holds: (0..plan.skeleton.tensors.len()).map(nothing).collect(),
            writes: vec![0; plan.skeleton.tensors.len()],
        };
        let originals = plan.replays.as_ref().map(accesses_of_ops);
        for (index, step) in plan.program.steps.iter().enumerate() {
            let now = plan.skeleton.accesses_of(OpIndex::from_index(index));
            match (step.kind, &plan.replays, &originals) {
                (StepKind::Replay(op), Some(replays), Some(originals)) => {
                    writer.run_again(now, &originals[op.index()], replays, op);
                }
                (_, Some(replays), _) => writer.run(now, &replays.lives),
                _ => writer.run(now, &[]),
            }
        }
        let Writer { rows, writes, .. } = writer;
        Self {
            rows,
            before: writes.iter().map(|count| count.wrapping_neg()).collect(),
            writes,
        }
    }

    /// An iteration begins.
    pub(super) fn begin(&mut self) {
        for (before, writes) in self.before.iter_mut().zip(&self.writes) {
            *before = before.wrapping_add(*writes);
        }
    }

    /// Access `row` of the steps.
    pub(super) fn row(&self, row: usize) -> Row {
        self.rows[row]
    }

    /// The version of a content in this iteration.
    pub(super) fn version(&self, content: Content) -> u32 {
        self.before[content.tensor.index()].wrapping_add(content.writes)
    }

    /// What a tensor holds between iterations.
    pub(super) fn last(&self, tensor: TensorId) -> Content {
        Content {
            tensor,
            writes: self.writes[tensor.index()],
        }
    }
}

/// What a tensor holds that was not written in this iteration.
fn nothing(tensor: usize) -> Content {
    Content {
        tensor: TensorId::from_index(tensor),
        writes: 0,
    }
}

/// For each access of each op of the application, what it finds and leaves.
fn accesses_of_ops(replays: &Replays) -> Vec<Vec<Row>> {
    let original = &replays.original;
    let mut writer = Writer {
        rows: Vec::new(),
        holds: (0..original.tensors.len()).map(nothing).collect(),
        writes: vec![0; original.tensors.len()],
    };
    let ops = (0..original.ops.len()).map(|op| {
        let accesses = original.accesses_of(OpIndex::from_index(op));
        writer.run(accesses, &[]);
        writer.rows.split_off(0)
    });
    ops.collect()
}

struct Writer {
    rows: Vec<Row>,
    /// What each tensor of the steps holds.
    holds: Vec<Content>,
    writes: Vec<u32>,
}

impl Writer {
    /// A step that runs an op of the application: it finds what the application wrote last.
    fn run(&mut self, now: &[Access], lives: &[TensorId]) {
        for access in now {
            let life = access.tensor.index();
            let tensor = lives.get(life).copied().unwrap_or(access.tensor);
            let writes = self.writes[tensor.index()];
            let found = Content { tensor, writes };
            let left = Content {
                tensor,
                writes: writes + u32::from(access.mode.writes()),
            };
            self.writes[tensor.index()] = left.writes;
            self.push(access, found, access.mode.reads(), left);
        }
    }

    /// A step that runs op `op` again, whose accesses at first were `own`.
    fn run_again(&mut self, now: &[Access], own: &[Row], replays: &Replays, op: OpIndex) {
        let mut scratch: Vec<Option<Content>> = vec![None; now.len()];
        for (to, from) in replays.fills(op, now) {
            scratch[to] = Some(self.holds[now[from].tensor.index()]);
        }
        let sources: Vec<Content> = now.iter().map(|a| self.holds[a.tensor.index()]).collect();
        for (number, access) in now.iter().enumerate() {
            match (scratch[number], own.get(number)) {
                (Some(found), _) => {
                    let writes = &mut self.writes[access.tensor.index()];
                    *writes += 1;
                    let left = Content {
                        tensor: access.tensor,
                        writes: *writes,
                    };
                    self.push(access, found, true, left);
                }
                (None, Some(own)) => {
                    self.push(access, own.found, access.mode.reads(), own.left);
                }
                (None, None) => self.push(access, sources[number], true, sources[number]),
            }
        }
    }

    fn push(&mut self, access: &Access, found: Content, holds: bool, left: Content) {
        if access.mode.writes() {
            self.holds[access.tensor.index()] = left;
        }
        self.rows.push(Row { found, holds, left });
    }
}

#[cfg(test)]
mod tests {
    use lgm::skeleton::{Op, Skeleton, Tensor};
    use vtensor::{Bytes, Mode, TensorKind};

    use super::*;

    const R: Mode = Mode::Read;
    const W: Mode = Mode::Write;
    const RW: Mode = Mode::ReadWrite;

    fn skeleton(tensors: u32, ops: &[&[(u32, Mode)]]) -> Skeleton {
        let mut skeleton = Skeleton::default();
        for row in 0..tensors {
            skeleton.tensors.push(Tensor {
                name: String::new(),
                bytes: Bytes(1),
                kind: TensorKind::Buffer,
                persistent: row == 0,
                fixed: false,
            });
        }
        for accesses in ops {
            skeleton.ops.push(Op {
                name: String::new(),
                duration_ns: 1,
                first_access: u32::try_from(skeleton.accesses.len()).expect("few"),
                access_count: u32::try_from(accesses.len()).expect("few"),
                replayable: true,
            });
            let accesses = accesses.iter().map(|&(tensor, mode)| Access {
                tensor: TensorId(tensor),
                mode,
            });
            skeleton.accesses.extend(accesses);
        }
        skeleton
    }

    /// The contents of hand-made steps; `kinds` says which op each step runs, and whether again.
    fn versions(steps: Skeleton, replays: Replays, kinds: &[(u32, bool)]) -> Versions {
        let originals = accesses_of_ops(&replays);
        let tensors = steps.tensors.len();
        let mut writer = Writer {
            rows: Vec::new(),
            holds: (0..tensors).map(nothing).collect(),
            writes: vec![0; tensors],
        };
        for (step, &(op, again)) in kinds.iter().enumerate() {
            let now = steps.accesses_of(OpIndex::from_index(step));
            match again {
                true => writer.run_again(now, &originals[op as usize], &replays, OpIndex(op)),
                false => writer.run(now, &replays.lives),
            }
        }
        let Writer { rows, writes, .. } = writer;
        Versions {
            rows,
            before: writes.iter().map(|count| count.wrapping_neg()).collect(),
            writes,
        }
    }

    #[test]
    fn an_op_that_runs_again_finds_and_leaves_what_it_did_at_first() {
        // Tensor 0 is a statistic, 1 is made of it, 2 is its scratch, 3 a later life of 1.
        let original = skeleton(2, &[&[(0, RW), (1, W)], &[(1, R), (0, RW)], &[(1, RW)]]);
        let steps = skeleton(
            4,
            &[
                &[(0, RW), (1, W)],
                &[(1, R), (0, RW)],
                &[(2, W), (3, W), (0, R)],
                &[(3, RW)],
            ],
        );
        let replays = Replays {
            original,
            lives: [0, 1, 0, 1].map(TensorId).to_vec(),
        };
        let kinds = [(0, false), (1, false), (0, true), (2, false)];
        let mut versions = versions(steps, replays, &kinds);
        let content = |tensor, writes| Content {
            tensor: TensorId(tensor),
            writes,
        };
        let row = |found, holds, left| Row { found, holds, left };
        let again = [
            row(content(0, 2), true, content(2, 1)),
            row(content(1, 0), false, content(1, 1)),
            row(content(0, 2), true, content(0, 2)),
        ];
        assert_eq!(versions.rows[4..7], again);
        let last = row(content(1, 1), true, content(1, 2));
        assert_eq!(versions.row(7), last, "the later life is the tensor");
        versions.begin();
        assert_eq!(versions.version(content(0, 2)), 2);
        versions.begin();
        assert_eq!(
            versions.version(content(0, 0)),
            2,
            "as the one before left it"
        );
        assert_eq!(versions.version(versions.last(TensorId(0))), 4);
        assert_eq!(versions.version(content(2, 1)), 2);
    }
}
