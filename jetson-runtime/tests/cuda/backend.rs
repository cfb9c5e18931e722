//! A backend as the suite sees it: a plan becomes a program, whose ops check and write contents.

use jetson_runtime::cuda::{self, Kernels, Mechanism, Options, Tally};
use jetson_runtime::{Failed, Frozen, Planned, RuntimeError, Spill, pattern};
use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, Mode, OpIndex, TensorId};

use crate::machine::Machine;

/// The versions of all tensors: how often each was written.
pub(crate) type Versions = Vec<u32>;

/// A program in execution.
pub(crate) trait Program {
    fn iteration_begin(&mut self) -> Result<(), RuntimeError>;
    fn step_begin(&mut self, op: OpIndex) -> Result<(), RuntimeError>;
    /// Checks what the open step reads, then writes what it writes, as a new version.
    fn compute(&mut self, op: OpIndex, versions: &mut Versions) -> Result<(), RuntimeError>;
    fn step_end(&mut self) -> Result<(), RuntimeError>;
    fn iteration_end(&mut self) -> Result<(), RuntimeError>;
    fn read(&mut self, tensor: TensorId, offset: u64, to: &mut [u8]) -> Result<(), RuntimeError>;
    fn write(&mut self, tensor: TensorId, offset: u64, from: &[u8]) -> Result<(), RuntimeError>;
    fn tensor_bytes(&self, tensor: TensorId) -> Option<Bytes>;
    /// Bytes that ops found wrong.
    fn wrong(&mut self) -> Result<u64, RuntimeError>;
    fn abandon(self: Box<Self>) -> Failed;
}

/// A kind of program.
pub(crate) trait Backend {
    fn name(&self) -> String;
    /// The page to make plans with.
    fn page(&self) -> u64;
    /// Whether tensors may lie on scattered pages.
    fn scatters(&self) -> bool;
    fn freeze(&self, plan: &Plan) -> Result<Box<dyn Program>, RuntimeError>;
}

fn initial(tensor: TensorId, offset: u64, bytes: &mut [u8]) {
    pattern::fill(bytes, tensor.0, 0, offset);
}

/// The host.
pub(crate) struct Host;

impl Backend for Host {
    fn name(&self) -> String {
        "host".into()
    }

    fn page(&self) -> u64 {
        4096
    }

    fn scatters(&self) -> bool {
        true
    }

    fn freeze(&self, plan: &Plan) -> Result<Box<dyn Program>, RuntimeError> {
        let plan = VerifiedPlan::new(plan.clone()).expect("plans of the suite hold");
        let frozen = Planned::new(plan, jetson_runtime::Options::default())?.freeze(initial)?;
        Ok(Box::new(OnHost { frozen, wrong: 0 }))
    }
}

struct OnHost {
    frozen: Frozen,
    wrong: u64,
}

impl Program for OnHost {
    fn iteration_begin(&mut self) -> Result<(), RuntimeError> {
        self.frozen.iteration_begin()
    }

    fn step_begin(&mut self, op: OpIndex) -> Result<(), RuntimeError> {
        self.frozen.step_begin(op).map(drop)
    }

    fn compute(&mut self, _: OpIndex, versions: &mut Versions) -> Result<(), RuntimeError> {
        let mut step = self.frozen.open_step();
        for access in (0..step.len()).filter(|&access| step.mode(access).reads()) {
            let tensor = step.tensor(access);
            let version = versions[tensor.index()];
            self.wrong += pattern::check(step.slice(access), tensor.0, version, 0);
        }
        for access in 0..step.len() {
            if step.mode(access).writes() {
                let tensor = step.tensor(access);
                versions[tensor.index()] += 1;
                let version = versions[tensor.index()];
                pattern::fill(step.slice_mut(access), tensor.0, version, 0);
            }
        }
        Ok(())
    }

    fn step_end(&mut self) -> Result<(), RuntimeError> {
        self.frozen.step_end()
    }

    fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        self.frozen.iteration_end()
    }

    fn read(&mut self, tensor: TensorId, offset: u64, to: &mut [u8]) -> Result<(), RuntimeError> {
        self.frozen.read(tensor, offset, to)
    }

    fn write(&mut self, tensor: TensorId, offset: u64, from: &[u8]) -> Result<(), RuntimeError> {
        self.frozen.write(tensor, offset, from)
    }

    fn tensor_bytes(&self, tensor: TensorId) -> Option<Bytes> {
        self.frozen.tensor_bytes(tensor)
    }

    fn wrong(&mut self) -> Result<u64, RuntimeError> {
        Ok(self.wrong)
    }

    fn abandon(self: Box<Self>) -> Failed {
        self.frozen.abandon()
    }
}

/// A GPU with a mechanism.
pub(crate) struct Gpu<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) mechanism: Mechanism,
    /// `None` follows the device.
    pub(crate) duplex: Option<bool>,
    /// Whether pieces go to a file.
    pub(crate) to_file: bool,
}

impl Gpu<'_> {
    pub(crate) fn options(&self) -> Options {
        let spill = match self.to_file {
            true => Spill::File(env!("CARGO_TARGET_TMPDIR").into()),
            false => Spill::Ram,
        };
        Options {
            force_host_spill: !self.to_file,
            spill,
            duplex: self.duplex,
            ..Options::of(self.mechanism)
        }
    }
}

impl Backend for Gpu<'_> {
    fn name(&self) -> String {
        let tier = if self.to_file { ", to a file" } else { "" };
        format!("{} on {}{tier}", self.mechanism, self.machine.name)
    }

    fn page(&self) -> u64 {
        self.machine.page
    }

    fn scatters(&self) -> bool {
        self.mechanism != Mechanism::Packed
    }

    fn freeze(&self, plan: &Plan) -> Result<Box<dyn Program>, RuntimeError> {
        self.freeze_with(plan, &self.options())
    }
}

impl Gpu<'_> {
    pub(crate) fn freeze_with(
        &self,
        plan: &Plan,
        options: &Options,
    ) -> Result<Box<dyn Program>, RuntimeError> {
        let device = &self.machine.device;
        let kernels = Kernels::load(device)?;
        let tally = Tally::new(device, plan.skeleton.tensors.len())?;
        let plan = VerifiedPlan::new(plan.clone()).expect("plans of the suite hold");
        let frozen = cuda::Frozen::freeze(device, plan, options, initial)?;
        Ok(Box::new(OnGpu {
            frozen,
            kernels,
            tally,
        }))
    }
}

struct OnGpu {
    // Its streams come to rest before what their kernels use goes.
    frozen: cuda::Frozen,
    kernels: Kernels,
    tally: Tally,
}

impl Program for OnGpu {
    fn iteration_begin(&mut self) -> Result<(), RuntimeError> {
        self.frozen.iteration_begin()
    }

    fn step_begin(&mut self, op: OpIndex) -> Result<(), RuntimeError> {
        self.frozen.step_begin(op).map(drop)
    }

    fn compute(&mut self, _: OpIndex, versions: &mut Versions) -> Result<(), RuntimeError> {
        let Self {
            frozen,
            kernels,
            tally,
        } = self;
        let step = frozen.open_step();
        let accesses: Vec<(TensorId, Mode)> = (0..step.len())
            .map(|access| (step.tensor(access), step.mode(access)))
            .collect();
        for (access, (tensor, mode)) in accesses.iter().enumerate() {
            if mode.reads() {
                let content = (*tensor, versions[tensor.index()]);
                frozen.check_content(kernels, access, content, tally, tensor.index())?;
            }
        }
        for (access, (tensor, mode)) in accesses.iter().enumerate() {
            if mode.writes() {
                versions[tensor.index()] += 1;
                frozen.fill(kernels, access, (*tensor, versions[tensor.index()]))?;
            }
        }
        Ok(())
    }

    fn step_end(&mut self) -> Result<(), RuntimeError> {
        self.frozen.step_end()
    }

    fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        self.frozen.iteration_end()
    }

    fn read(&mut self, tensor: TensorId, offset: u64, to: &mut [u8]) -> Result<(), RuntimeError> {
        self.frozen.read(tensor, offset, to)
    }

    fn write(&mut self, tensor: TensorId, offset: u64, from: &[u8]) -> Result<(), RuntimeError> {
        self.frozen.write(tensor, offset, from)
    }

    fn tensor_bytes(&self, tensor: TensorId) -> Option<Bytes> {
        self.frozen.tensor_bytes(tensor)
    }

    fn wrong(&mut self) -> Result<u64, RuntimeError> {
        let read = self.tally.read();
        if read.is_err() {
            self.frozen.doubt();
        }
        Ok(read?.iter().sum())
    }

    fn abandon(self: Box<Self>) -> Failed {
        self.frozen.abandon()
    }
}
