//! A synthetic application: its ops check every byte that they read and write new ones.

use jetson_runtime::{Failed, Frozen, RuntimeError, Step};
use lgm::plan::{Plan, Replays};
use lgm::skeleton::Skeleton;
use vtensor::{Bytes, Mode, OpIndex, StepKind, TensorId};

/// Byte `offset` of version `version` of a tensor.
fn pattern(tensor: TensorId, version: u64, offset: u64) -> u8 {
    let mut x = (u64::from(tensor.0) << 48) ^ (version << 20) ^ (offset / 8);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)).to_le_bytes()[(offset % 8) as usize]
}

pub fn fill(tensor: TensorId, version: u64, offset: u64, bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = pattern(tensor, version, offset + i as u64);
    }
}

fn mismatches(tensor: TensorId, version: u64, bytes: &[u8]) -> usize {
    let right = |(i, byte): (usize, &u8)| *byte == pattern(tensor, version, i as u64);
    bytes
        .iter()
        .enumerate()
        .filter(|&(i, byte)| !right((i, byte)))
        .count()
}

/// The version of what scratch holds after an op has run again, which nobody may read.
const SCRATCH: u64 = u64::MAX;

/// What the application knows of its tensors.
pub struct Model {
    pub skeleton: Skeleton,
    kinds: Vec<StepKind>,
    replays: Option<Replays>,
    /// How often each tensor of the application was written.
    pub versions: Vec<u64>,
    /// The same when the iteration began.
    before: Vec<u64>,
    /// Steps that ran.
    pub ops_run: u64,
}

impl Model {
    pub fn new(plan: &Plan) -> Self {
        let tensors = match &plan.replays {
            Some(replays) => replays.original.tensors.len(),
            None => plan.skeleton.tensors.len(),
        };
        Self {
            skeleton: plan.skeleton.clone(),
            kinds: plan.program.steps.iter().map(|step| step.kind).collect(),
            replays: plan.replays.clone(),
            versions: vec![0; tensors],
            before: vec![0; tensors],
            ops_run: 0,
        }
    }

    /// Which tensor of the application a tensor of the steps is a life of.
    fn of(&self, life: TensorId) -> TensorId {
        let replays = self.replays.as_ref();
        replays.map_or(life, |replays| replays.lives[life.index()])
    }

    /// The version that an op has found or left at an access, when it ran in this iteration.
    fn version_of(&self, op: OpIndex, access: usize, left: bool) -> u64 {
        let original = &self.replays.as_ref().expect("ops run again").original;
        let until = original.ops[op.index()].first_access as usize + access;
        let tensor = original.accesses[until].tensor;
        let writes = original.accesses[..until + usize::from(left)]
            .iter()
            .filter(|before| before.tensor == tensor && before.mode.writes());
        self.before[tensor.index()] + writes.count() as u64
    }

    /// Runs one step.
    pub fn op(&mut self, frozen: &mut Frozen, op: OpIndex) -> Result<(), RuntimeError> {
        if op.0 == 0 {
            self.before.clone_from(&self.versions);
        }
        let kind = self.kinds[op.index()];
        assert_eq!(frozen.due(), Some(kind));
        let mut step = frozen.step_begin(op)?;
        let accesses = self.skeleton.accesses_of(op);
        assert_eq!(step.len(), accesses.len());
        for (i, access) in accesses.iter().enumerate() {
            assert_eq!((step.tensor(i), step.mode(i)), (access.tensor, access.mode));
        }
        match kind {
            StepKind::App(_) => self.run(&mut step, op),
            StepKind::Replay(again) => self.run_again(&mut step, again),
            other => panic!("{other:?} is not known"),
        }
        self.ops_run += 1;
        frozen.step_end()
    }

    fn run(&mut self, step: &mut Step<'_>, op: OpIndex) {
        for i in (0..step.len()).filter(|&i| step.mode(i).reads()) {
            let tensor = self.of(step.tensor(i));
            let version = self.versions[tensor.index()];
            let wrong = mismatches(tensor, version, step.slice(i));
            assert_eq!(wrong, 0, "step {op} reads tensor {tensor} v{version}");
        }
        for i in 0..step.len() {
            if !step.mode(i).writes() {
                continue;
            }
            let tensor = self.of(step.tensor(i));
            self.versions[tensor.index()] += 1;
            fill(tensor, self.versions[tensor.index()], 0, step.slice_mut(i));
        }
    }

    /// An op that runs again finds what it found at first, and leaves the same.
    fn run_again(&mut self, step: &mut Step<'_>, op: OpIndex) {
        let replays = self.replays.as_ref().expect("ops run again");
        let own: Vec<Mode> = replays
            .original
            .accesses_of(op)
            .iter()
            .map(|a| a.mode)
            .collect();
        for (i, mode) in own.iter().enumerate() {
            let tensor = self.of(step.tensor(i));
            let scratch = (*mode, step.mode(i)) == (Mode::ReadWrite, Mode::Write);
            if mode.reads() {
                let found = match scratch {
                    true => self.versions[tensor.index()],
                    false => self.version_of(op, i, false),
                };
                let wrong = mismatches(tensor, found, step.slice(i));
                assert_eq!(wrong, 0, "op {op} finds tensor {tensor} v{found} again");
            }
            if mode.writes() {
                let left = match scratch {
                    true => SCRATCH,
                    false => self.version_of(op, i, true),
                };
                fill(tensor, left, 0, step.slice_mut(i));
            }
        }
    }

    pub fn iteration(&mut self, frozen: &mut Frozen) -> Result<(), RuntimeError> {
        frozen.iteration_begin()?;
        for op in 0..self.skeleton.ops.len() {
            self.op(frozen, OpIndex::from_index(op))?;
        }
        frozen.iteration_end()
    }

    /// Checks the persistent tensors between iterations; how many have content there.
    pub fn check_home(&self, frozen: &mut Frozen) -> Result<usize, RuntimeError> {
        let mut kept = 0;
        for (index, tensor) in self.skeleton.tensors.iter().enumerate() {
            let id = TensorId::from_index(index);
            if !tensor.persistent {
                assert!(frozen.tensor_bytes(id).is_none());
                continue;
            }
            let Bytes(size) = frozen
                .tensor_bytes(id)
                .expect("a persistent tensor has a size");
            let mut bytes = vec![0; usize::try_from(size).expect("tests are small")];
            match frozen.read(id, 0, &mut bytes) {
                Err(RuntimeError::Dead { .. }) => assert!(self.written_first(id)),
                read => {
                    read?;
                    let wrong = mismatches(id, self.versions[index], &bytes);
                    assert_eq!(wrong, 0, "tensor {id} at home");
                    kept += 1;
                }
            }
        }
        Ok(kept)
    }

    /// Whether the first op of an iteration that uses a tensor overwrites it.
    fn written_first(&self, tensor: TensorId) -> bool {
        let first = self
            .skeleton
            .accesses
            .iter()
            .find(|access| access.tensor == tensor);
        first.is_some_and(|access| access.mode == Mode::Write)
    }

    /// Checks that every byte that is said to be intact is; how many bytes are intact and lost.
    pub fn check_failed(&self, failed: &Failed) -> (u64, u64) {
        let (mut intact, mut lost) = (0, 0);
        for (index, _) in self
            .skeleton
            .tensors
            .iter()
            .enumerate()
            .filter(|(_, t)| t.persistent)
        {
            let id = TensorId::from_index(index);
            let Bytes(size) = failed
                .tensor_bytes(id)
                .expect("a persistent tensor has a size");
            for offset in 0..size {
                let mut byte = [0];
                match failed.read(id, offset, &mut byte) {
                    Ok(()) => {
                        let right = pattern(id, self.versions[index], offset);
                        assert_eq!(byte[0], right, "tensor {id} byte {offset}");
                        intact += 1;
                    }
                    Err(RuntimeError::Lost { .. }) => lost += 1,
                    Err(RuntimeError::Dead { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let said: u64 = failed.lost().map(|range| range.bytes.0).sum();
        assert_eq!(said, lost, "lost() says what reads say");
        (intact, lost)
    }
}
