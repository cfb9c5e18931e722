//! A synthetic application: its ops check every byte that they read and write new ones.

use jetson_runtime::{Failed, Frozen, RuntimeError};
use lgm::plan::Plan;
use lgm::skeleton::Skeleton;
use vtensor::{Bytes, Mode, OpIndex, TensorId};

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

/// What the application knows of its tensors.
pub struct Model {
    pub skeleton: Skeleton,
    /// How often each tensor was written.
    pub versions: Vec<u64>,
    /// Ops that ran.
    pub ops_run: u64,
}

impl Model {
    pub fn new(plan: &Plan) -> Self {
        Self {
            skeleton: plan.skeleton.clone(),
            versions: vec![0; plan.skeleton.tensors.len()],
            ops_run: 0,
        }
    }

    /// Runs one op.
    pub fn op(&mut self, frozen: &mut Frozen, op: OpIndex) -> Result<(), RuntimeError> {
        let mut step = frozen.step_begin(op)?;
        let accesses = self.skeleton.accesses_of(op);
        assert_eq!(step.len(), accesses.len());
        for (i, access) in accesses.iter().enumerate() {
            let version = &mut self.versions[access.tensor.index()];
            assert_eq!((step.tensor(i), step.mode(i)), (access.tensor, access.mode));
            if access.mode.reads() {
                let wrong = mismatches(access.tensor, *version, step.slice(i));
                assert_eq!(
                    wrong, 0,
                    "op {op} reads tensor {} v{version}",
                    access.tensor
                );
            }
        }
        for (i, access) in accesses.iter().enumerate().filter(|(_, a)| a.mode.writes()) {
            let version = &mut self.versions[access.tensor.index()];
            *version += 1;
            fill(access.tensor, *version, 0, step.slice_mut(i));
        }
        self.ops_run += 1;
        frozen.step_end()
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
