//! Applications whose ops are kernels on a GPU, which the host does not wait for: on models of the
//! driver, and on a real GPU with the feature `gpu-tests`.

use std::sync::{Arc, Mutex};

use cuda_model::Control;
use lgm::planner::Methods;
use vtensor::{Bytes, Mode, TensorKind};

use super::gpu::{check, machine, on};
use super::{TRAIN, config, unit};
use crate::cuda::kernels::Pattern;
use crate::cuda::{Device, Driver, Kernels, Tally};
use crate::live::{Access, Config, Op, Runtime, Tensor, TensorDesc};

/// An op of kernels: for each access, the tensor's number and the versions before and behind it.
type Work = Vec<(u32, u32, u32)>;

/// An application whose ops are kernels, which the host does not wait for.
struct KernelApp {
    runtime: Runtime,
    kernels: Arc<Kernels>,
    tally: Arc<Tally>,
    works: Arc<Mutex<Vec<Work>>>,
    /// Tensors by number, with their versions.
    tensors: Vec<(Tensor, u32)>,
}

/// Checks what an op reads and writes the next version of what it writes; one that runs again finds
/// anything in what it changes.
fn launch(
    kernels: &Kernels,
    tally: &Tally,
    (stream, op, work): (usize, &Op<'_>, &Work),
    again: bool,
) {
    let stream = std::ptr::with_exposed_provenance_mut(stream);
    for (at, (tensor, before, behind)) in work.iter().enumerate() {
        let (address, bytes) = (op.pointer(at).addr().get() as u64, op.bytes(at) as u64);
        let content = |version| Pattern {
            tensor: *tensor,
            version,
            offset: 0,
        };
        let mode = op.mode(at);
        if mode == Mode::Read || (mode.reads() && !again) {
            let wrong = tally.address(0);
            // SAFETY: the op is open; counters are used by this stream alone.
            unsafe { kernels.check(stream, address, bytes, content(*before), wrong) }.unwrap();
        }
        if mode.writes() {
            // What it changes holds something else now, and is put back.
            let version = if again && mode.reads() { 999 } else { *behind };
            // SAFETY: the op is open.
            unsafe { kernels.fill(stream, address, bytes, content(version)) }.unwrap();
        }
    }
}

impl KernelApp {
    fn new(device: &Device, config: Config) -> Self {
        let mut runtime = Runtime::new(config).unwrap();
        let kernels = Arc::new(Kernels::load(device).unwrap());
        let tally = Arc::new(Tally::new(device, 1).unwrap());
        let works: Arc<Mutex<Vec<Work>>> = Arc::default();
        let stream = runtime.stream().unwrap().expose_provenance();
        runtime.set_replayer({
            let (kernels, tally, works) = (kernels.clone(), tally.clone(), works.clone());
            move |[number, _], op| {
                let work = works.lock().unwrap()[number].clone();
                launch(&kernels, &tally, (stream, op, &work), true);
                Ok(())
            }
        });
        Self {
            runtime,
            kernels,
            tally,
            works,
            tensors: Vec::new(),
        }
    }

    fn create(&mut self, bytes: u64, kind: TensorKind) -> usize {
        let desc = TensorDesc::new("tensor", Bytes(bytes), kind);
        self.tensors.push((self.runtime.create(&desc).unwrap(), 0));
        self.tensors.len() - 1
    }

    fn destroy(&mut self, tensor: usize) {
        self.runtime.destroy(self.tensors[tensor].0).unwrap();
    }

    fn op(&mut self, accesses: &[(usize, Mode)]) {
        let mut work = Work::new();
        let mut declared = Vec::new();
        for &(number, mode) in accesses {
            let (tensor, version) = &mut self.tensors[number];
            let before = *version;
            *version += u32::from(mode.writes());
            work.push((u32::try_from(number).unwrap(), before, *version));
            declared.push(Access {
                tensor: *tensor,
                mode,
            });
        }
        let stream = self.runtime.stream().unwrap().expose_provenance();
        let number = {
            let mut works = self.works.lock().unwrap();
            works.push(work.clone());
            works.len() - 1
        };
        let op = self
            .runtime
            .op_begin_replayable("op", &declared, [number, 0])
            .unwrap();
        launch(&self.kernels, &self.tally, (stream, &op, &work), false);
        self.runtime.op_end().unwrap();
    }

    /// A step of layers, each of which makes a tensor and counts in a statistic; and back.
    fn step(&mut self, [weight, statistic]: [usize; 2], unit: u64) {
        let mut made: Vec<usize> = Vec::new();
        for layer in 0..6 {
            made.push(self.create(80 * unit, TensorKind::Activation));
            let mut accesses = vec![
                (made[layer], Mode::Write),
                (weight, Mode::Read),
                (statistic, Mode::ReadWrite),
            ];
            if layer > 0 {
                accesses.push((made[layer - 1], Mode::Read));
            }
            self.op(&accesses);
        }
        for layer in (0..6).rev() {
            self.op(&[(made[layer], Mode::Read), (statistic, Mode::Read)]);
            self.destroy(made[layer]);
        }
        self.op(&[(weight, Mode::ReadWrite)]);
    }
}

/// Models whose streams complete in any order; and a real GPU that is wanted: if there is none,
/// that is skipped loudly.
fn machines() -> Vec<Machine> {
    let model = |profile| {
        let (control, device) = machine(profile);
        control.jitter(7, 20_000).unwrap();
        Machine {
            name: profile.into(),
            device,
            control: Some(control),
            unit: unit(),
        }
    };
    let mut machines = ["rtx-linux", "orin"]
        .map(model)
        .into_iter()
        .collect::<Vec<_>>();
    if cfg!(feature = "gpu-tests") {
        match Driver::system().and_then(|driver| Device::open(&driver, 0)) {
            Ok(device) => machines.push(Machine {
                name: device.facts().name.clone(),
                device,
                control: None,
                // A quarter of its pages.
                unit: 512 << 10,
            }),
            Err(error) => eprintln!("SKIPPED: live applications on a real GPU: {error}"),
        }
    }
    machines
}

/// A machine with a GPU.
struct Machine {
    name: String,
    device: Device,
    /// `None` for a real one.
    control: Option<Control>,
    /// What sizes are multiples of.
    unit: u64,
}

impl Machine {
    fn end(self) {
        if let Some(control) = self.control {
            check(&control, self.device);
        }
    }
}

#[test]
fn kernels_that_nobody_waits_for_find_their_bytes() {
    for machine in machines() {
        let (unit, profile) = (machine.unit, &machine.name);
        for methods in [Methods::Swap, Methods::Recompute, Methods::Both] {
            let wanted = Config {
                methods,
                ..on(&machine.device, config(350 * unit))
            };
            let mut app = KernelApp::new(&machine.device, wanted);
            let kept = [TensorKind::Parameter, TensorKind::Buffer];
            // What is written by an op that runs again, and pinned, is small.
            let sizes = [4 * unit, 4096];
            let kept = [0, 1].map(|at| app.create(sizes[at], kept[at]));
            for at in kept {
                let (tensor, bytes) = (app.tensors[at].0, sizes[at]);
                let mut content = vec![0; usize::try_from(bytes).unwrap()];
                crate::pattern::fill(&mut content, u32::try_from(at).unwrap(), 0, 0);
                app.runtime.write(tensor, 0, &content).unwrap();
            }
            // On Orin the statistic is of the model, and pinned; elsewhere it moves as others do.
            for _ in 0..10 {
                let before = app.tensors.len();
                app.runtime.iteration_begin(TRAIN).unwrap();
                app.step(kept, unit);
                app.runtime.iteration_end().unwrap();
                app.tensors.truncate(before);
            }
            let stats = app.runtime.stats();
            println!("{profile}, {methods:?}: {stats:?}");
            assert!(stats.frozen_iterations > 5);
            match methods {
                Methods::Swap => assert!(stats.moved_in.0 > 0),
                Methods::Recompute => assert!(stats.recomputed.0 > 0),
                _ => {}
            }
            for at in kept {
                let (tensor, version) = app.tensors[at];
                let mut content = vec![0; usize::try_from(sizes[at]).unwrap()];
                app.runtime.read(tensor, 0, &mut content).unwrap();
                let at = u32::try_from(at).unwrap();
                assert_eq!(crate::pattern::check(&content, at, version, 0), 0);
            }
            assert_eq!(app.tally.read().unwrap(), [0], "{profile}, {methods:?}");
        }
        machine.end();
    }
}

#[test]
fn a_pinned_tensor_is_used_between_iterations_and_read_after_that() {
    let (control, device) = machine("rtx-linux");
    control.jitter(3, 2_000_000).unwrap();
    let mut app = KernelApp::new(&device, on(&device, config(100 * unit())));
    let at = app.create(4 * unit(), TensorKind::Parameter);
    let tensor = app.tensors[at].0;
    let address = app.runtime.pin(tensor).unwrap().addr().get() as u64;
    let (stream, bytes) = (app.runtime.stream().unwrap(), 4 * unit());
    let content = |version| Pattern {
        tensor: 5,
        version,
        offset: 0,
    };
    let mut read = vec![0; usize::try_from(bytes).unwrap()];
    for version in 1..4 {
        // SAFETY: the tensor is pinned, and no op is open.
        unsafe { app.kernels.fill(stream, address, bytes, content(version)) }.unwrap();
        app.runtime.read(tensor, 0, &mut read).unwrap();
        assert_eq!(crate::pattern::check(&read, 5, version, 0), 0);
    }
    // SAFETY: as above.
    unsafe { app.kernels.fill(stream, address, bytes, content(7)) }.unwrap();
    app.runtime.unpin(tensor).unwrap();
    app.runtime.read(tensor, 0, &mut read).unwrap();
    assert_eq!(crate::pattern::check(&read, 5, 7, 0), 0);
    drop(app);
    check(&control, device);
}
