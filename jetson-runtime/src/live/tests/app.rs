//! An application whose every byte is checked: a model of it keeps all tensors in vectors.

use std::collections::HashMap;

use vtensor::{Bytes, TensorKind};

use crate::error::RuntimeError;
use crate::live::{Access, Config, ProgramKey, Runtime, Tensor, TensorDesc};

pub(super) struct App {
    pub(super) runtime: Runtime,
    /// What each tensor holds.
    pub(super) model: HashMap<Tensor, Vec<u8>>,
    /// Tensors that outlive iterations.
    pub(super) kept: Vec<Tensor>,
    /// Where tensors were found, one entry for each access.
    pub(super) addresses: Vec<usize>,
    /// Whether some tensors keep their address for life: those with a size that 3 divides.
    pub(super) fixing: bool,
    /// Ops and writes so far: no two leave the same bytes.
    turns: u64,
}

impl App {
    pub(super) fn new(config: Config) -> Self {
        Self {
            runtime: Runtime::new(config).unwrap(),
            model: HashMap::new(),
            kept: Vec::new(),
            addresses: Vec::new(),
            fixing: false,
            turns: 0,
        }
    }

    pub(super) fn create_kept(&mut self, desc: &TensorDesc<'_>) {
        let tensor = self.make(desc);
        self.kept.push(tensor);
    }

    fn make(&mut self, desc: &TensorDesc<'_>) -> Tensor {
        let desc = TensorDesc {
            fixed: self.fixing && desc.bytes.0.is_multiple_of(3),
            ..*desc
        };
        let tensor = self.runtime.create(&desc).unwrap();
        assert_eq!(self.runtime.address(tensor).is_some(), desc.fixed);
        self.model.insert(tensor, vec![0; desc.bytes.0 as usize]);
        tensor
    }

    pub(super) fn destroy_kept(&mut self, at: usize) {
        let tensor = self.kept.remove(at);
        self.runtime.destroy(tensor).unwrap();
        self.model.remove(&tensor);
    }

    pub(super) fn create(&mut self, name: &str, bytes: u64) -> Tensor {
        self.make(&TensorDesc::new(name, Bytes(bytes), TensorKind::Activation))
    }

    pub(super) fn destroy(&mut self, tensor: Tensor) {
        self.runtime.destroy(tensor).unwrap();
        self.model.remove(&tensor);
    }

    pub(super) fn iteration(&mut self, key: ProgramKey, body: impl FnOnce(&mut Self)) {
        self.runtime.iteration_begin(key).unwrap();
        body(self);
        self.runtime.iteration_end().unwrap();
    }

    /// Aborts the iteration, whose tensors are gone then.
    pub(super) fn abort(&mut self) {
        self.runtime.iteration_abort().unwrap();
        let kept = &self.kept;
        self.model.retain(|tensor, _| kept.contains(tensor));
    }

    /// Writes what is lost anew, and nothing else; answers how many ranges were. What is not lost
    /// is read before, and what is has to be refused by name and range.
    pub(super) fn restore_lost(&mut self) -> u64 {
        let mut count = 0;
        for at in 0..self.kept.len() {
            let tensor = self.kept[at];
            let bytes = self.model[&tensor].len() as u64;
            let lost = self.runtime.lost(tensor).unwrap();
            let mut intact = 0;
            for range in &lost {
                self.read(at, intact, range.offset - intact);
                intact = range.end();
                match self.runtime.read(tensor, 0, &mut vec![0; intact as usize]) {
                    Err(RuntimeError::LostContent { lost: found, .. }) => {
                        assert_eq!(found, lost[0])
                    }
                    other => panic!("{other:?} at {range:?}"),
                }
            }
            self.read(at, intact, bytes - intact);
            for range in lost {
                self.write(at, range.offset, range.bytes.0);
                count += 1;
            }
            assert_eq!(self.runtime.lost(tensor).unwrap(), []);
        }
        count
    }

    pub(super) fn op(&mut self, name: &str, accesses: &[Access]) {
        self.try_op(name, accesses).unwrap();
    }

    /// Runs an op that checks all it reads, and leaves a function of it in what it writes.
    pub(super) fn try_op(&mut self, name: &str, accesses: &[Access]) -> Result<(), RuntimeError> {
        self.turns += 1;
        let turns = self.turns;
        let fixed = accesses
            .iter()
            .map(|access| self.runtime.address(access.tensor));
        let fixed: Vec<_> = fixed.collect();
        let op = self.runtime.op_begin(name, accesses)?;
        for (at, access) in accesses.iter().enumerate() {
            assert!(
                fixed[at].is_none_or(|fixed| fixed == op.pointer(at)),
                "for life"
            );
            let address = op.pointer(at).as_ptr() as usize;
            assert_eq!(address % 512, 0, "tensors are aligned");
            self.addresses.push(address);
            let model = self.model.get_mut(&access.tensor).unwrap();
            let (start, bytes) = (op.pointer(at).as_ptr(), model.len());
            // SAFETY: the op is open, and its accesses are of different tensors.
            let row = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
            if access.mode.reads() {
                let wrong = row
                    .iter()
                    .zip(&*model)
                    .position(|(found, wanted)| found != wanted);
                assert_eq!(wrong, None, "op {name}, access {at}, byte");
            }
            if access.mode.writes() {
                let old = if access.mode.reads() { 1 } else { 0 };
                for (index, (byte, model)) in row.iter_mut().zip(model).enumerate() {
                    let new = (index as u64 ^ turns.wrapping_mul(0x9e37_79b9)).to_le_bytes();
                    *byte = new[0].wrapping_add(new[1]).wrapping_add(old * *byte);
                    *model = *byte;
                }
            }
        }
        self.runtime.op_end()
    }

    pub(super) fn read(&mut self, at: usize, offset: u64, bytes: u64) {
        let mut buffer = vec![0xaa; bytes as usize];
        let tensor = self.kept[at];
        self.runtime.read(tensor, offset, &mut buffer).unwrap();
        let wanted = &self.model[&tensor][offset as usize..][..bytes as usize];
        assert!(buffer == wanted, "tensor {at}, {offset}..");
    }

    pub(super) fn read_all(&mut self) {
        for at in 0..self.kept.len() {
            let bytes = self.model[&self.kept[at]].len() as u64;
            self.read(at, 0, bytes);
        }
    }

    pub(super) fn write(&mut self, at: usize, offset: u64, bytes: u64) {
        self.turns += 1;
        let tensor = self.kept[at];
        let buffer: Vec<u8> = (0..bytes)
            .map(|i| (i * 31 + self.turns * 7) as u8)
            .collect();
        self.runtime.write(tensor, offset, &buffer).unwrap();
        let model = self.model.get_mut(&tensor).unwrap();
        model[offset as usize..][..bytes as usize].copy_from_slice(&buffer);
    }
}
