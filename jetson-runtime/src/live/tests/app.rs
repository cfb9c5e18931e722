//! An application whose every byte is checked: a model of it keeps all tensors in vectors.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vtensor::{Bytes, Mode, TensorKind};

use crate::cuda::{CudaError, Device};
use crate::error::RuntimeError;
use crate::live::{Access, Config, Op, ProgramKey, Runtime, Tensor, TensorDesc, Token};

/// How ops reach their tensors.
#[derive(Clone, Default)]
pub(super) struct Hands {
    /// A GPU, and the stream of ops.
    gpu: Option<(Device, usize)>,
}

impl Hands {
    fn load(&self, op: &Op<'_>, at: usize) -> Result<Vec<u8>, CudaError> {
        let (start, mut row) = (op.pointer(at), vec![0; op.bytes(at)]);
        match &self.gpu {
            // SAFETY: the op is open, and nothing writes meanwhile.
            None => unsafe {
                ptr::copy_nonoverlapping(start.as_ptr(), row.as_mut_ptr(), row.len())
            },
            Some((device, stream)) => {
                wait(device, *stream)?;
                // SAFETY: as above; what the op waits for is there.
                unsafe { device.load(start.addr().get() as u64, &mut row) }?;
            }
        }
        Ok(row)
    }

    fn store(&self, op: &Op<'_>, at: usize, row: &[u8]) -> Result<(), CudaError> {
        let start = op.pointer(at);
        match &self.gpu {
            // SAFETY: the op is open, and this access is nobody else's.
            None => unsafe { ptr::copy_nonoverlapping(row.as_ptr(), start.as_ptr(), row.len()) },
            Some((device, stream)) => {
                wait(device, *stream)?;
                // SAFETY: as above; what the op waits for is there.
                unsafe { device.store(start.addr().get() as u64, row) }?;
            }
        }
        Ok(())
    }
}

fn wait(device: &Device, stream: usize) -> Result<(), CudaError> {
    let stream = std::ptr::with_exposed_provenance_mut(stream);
    // SAFETY: the stream is the runtime's, which is alive.
    unsafe { device.calls()?.stream_synchronize(stream) }
}

/// Ops that ran again.
#[derive(Default)]
pub(super) struct Replays {
    hands: Hands,
    pub(super) done: AtomicU64,
    /// Every one of so many fails; 0: none.
    pub(super) failing: AtomicU64,
}

impl Replays {
    fn run(&self, [turn, _]: Token, op: &mut Op<'_>) -> Result<(), &'static str> {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let failing = self.failing.load(Ordering::Relaxed);
        if failing > 0 && done.is_multiple_of(failing) {
            return Err("it was told to");
        }
        let reads = (0..op.len()).filter(|at| op.mode(*at) == Mode::Read);
        let failed = |_| "the GPU failed";
        let reads: Result<Vec<Vec<u8>>, CudaError> =
            reads.map(|at| self.hands.load(op, at)).collect();
        let reads = reads.map_err(failed)?;
        for at in (0..op.len()).filter(|at| op.mode(*at).writes()) {
            let mut row = self.hands.load(op, at).map_err(failed)?;
            compute(turn, &mut row, op.mode(at), &reads);
            self.hands.store(op, at, &row).map_err(failed)?;
        }
        Ok(())
    }
}

/// What an op leaves in a tensor: a function of the turn, of what it only reads, and of what was
/// there if it changes it.
fn compute(turn: usize, row: &mut [u8], mode: Mode, reads: &[Vec<u8>]) {
    for (index, byte) in row.iter_mut().enumerate() {
        let new = (index ^ turn.wrapping_mul(0x9e37_79b9)).to_le_bytes();
        let old = if mode.reads() { *byte } else { 0 };
        let mut sum = new[0].wrapping_add(new[1]).wrapping_add(old);
        for read in reads {
            sum = sum.wrapping_mul(3).wrapping_add(read[index % read.len()]);
        }
        *byte = sum;
    }
}

pub(super) struct App {
    pub(super) runtime: Runtime,
    hands: Hands,
    pub(super) replays: Arc<Replays>,
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
        let gpu = config.gpu.as_ref().map(|target| target.device().clone());
        let mut runtime = Runtime::new(config).unwrap();
        let stream = runtime.stream().map(|stream| stream.expose_provenance());
        let hands = Hands {
            gpu: gpu.zip(stream),
        };
        let replays = Arc::new(Replays {
            hands: hands.clone(),
            ..Replays::default()
        });
        runtime.set_replayer({
            let replays = Arc::clone(&replays);
            move |token, op| replays.run(token, op)
        });
        Self {
            runtime,
            hands,
            replays,
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
        self.run_op(name, accesses, false).unwrap();
    }

    /// An op that may run again.
    pub(super) fn op_again(&mut self, name: &str, accesses: &[Access]) {
        self.run_op(name, accesses, true).unwrap();
    }

    pub(super) fn try_op(&mut self, name: &str, accesses: &[Access]) -> Result<(), RuntimeError> {
        self.run_op(name, accesses, false)
    }

    /// Runs an op that checks all it reads, and leaves a function of it in what it writes.
    pub(super) fn run_op(
        &mut self,
        name: &str,
        accesses: &[Access],
        again: bool,
    ) -> Result<(), RuntimeError> {
        self.turns += 1;
        let turns = self.turns;
        let fixed = accesses
            .iter()
            .map(|access| self.runtime.address(access.tensor));
        let fixed: Vec<_> = fixed.collect();
        let op = match again {
            true => {
                let token = [turns as usize, 0];
                self.runtime.op_begin_replayable(name, accesses, token)?
            }
            false => self.runtime.op_begin(name, accesses)?,
        };
        let mut reads: Vec<Vec<u8>> = Vec::new();
        for (at, access) in accesses.iter().enumerate() {
            assert!(
                fixed[at].is_none_or(|fixed| fixed == op.pointer(at)),
                "for life"
            );
            let address = op.pointer(at).as_ptr() as usize;
            assert_eq!(address % 512, 0, "tensors are aligned");
            self.addresses.push(address);
            let model = &self.model[&access.tensor];
            assert_eq!(op.bytes(at), model.len());
            if !access.mode.reads() {
                continue;
            }
            let row = self.hands.load(&op, at)?;
            let wrong = row
                .iter()
                .zip(model)
                .position(|(found, wanted)| found != wanted);
            assert_eq!(wrong, None, "op {name}, access {at}, byte");
            if access.mode == Mode::Read {
                reads.push(model.clone());
            }
        }
        for (at, access) in accesses.iter().enumerate().filter(|(_, a)| a.mode.writes()) {
            let model = self.model.get_mut(&access.tensor).unwrap();
            compute(turns as usize, model, access.mode, &reads);
            self.hands.store(&op, at, model)?;
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
