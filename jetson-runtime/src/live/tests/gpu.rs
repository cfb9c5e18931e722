//! Applications on a GPU: the model of the driver, which reports what is not in order and what is
//! not given back.

use std::sync::{Arc, Mutex};

use cuda_model::{Control, Failing};
use lgm::planner::Methods;
use lgm::profile::Link;
use vtensor::{Bytes, Mode, TensorKind};

use super::{TRAIN, app, config, step, train, unit};
use crate::cuda::kernels::Pattern;
use crate::cuda::{Device, Driver, Kernels, Tally, Target};
use crate::error::RuntimeError;
use crate::live::{Access, Config, Op, Runtime, Tensor, TensorDesc};
use crate::scale::system_page;
use crate::spill::Spill;
use crate::tests::disk;
use crate::throttle::Throttle;

/// A model of a machine, and its device.
fn machine(profile: &str) -> (Control, Device) {
    let control = Control::new(profile).unwrap();
    let device = open(&control);
    (control, device)
}

fn open(control: &Control) -> Device {
    control.granularity(system_page()).unwrap();
    control.strict_events(true).unwrap();
    Device::open(&Driver::open(control.path()).unwrap(), 0).unwrap()
}

fn on(device: &Device, config: Config) -> Config {
    let spill = match device.facts().integrated {
        true => Spill::File(disk()),
        false => Spill::Ram,
    };
    Config {
        gpu: Some(Target::new(device.clone())),
        spill,
        link: Some(Link {
            out_bps: 1e9,
            in_bps: 1e9,
            copy_latency_ns: 1000,
            duplex: true,
        }),
        ..config
    }
}

/// Nothing was out of order, and everything was given back.
fn check(control: &Control, device: Device) {
    drop(device);
    assert_eq!(control.reports(), Vec::<String>::new());
    assert_eq!(control.leaks(), Vec::<String>::new());
}

#[test]
fn epochs_on_a_gpu_are_those_of_the_host() {
    for profile in ["rtx-linux", "rtx-wsl", "gh200", "orin", "thor"] {
        let (control, device) = machine(profile);
        let mut app = app(on(&device, config(130 * unit())));
        train(&mut app, 3);
        let stats = app.runtime.stats();
        assert!(stats.frozen_iterations > 8, "{profile}: {stats:?}");
        assert!(stats.moved_out.0 > 0 && stats.moved_in.0 > 0);
        let report = &app.runtime.programs()[0];
        let saved = app.runtime.save_plan(report.key).unwrap();
        drop(app);
        // A saved program is frozen from the first iteration on.
        let mut app = super::app(on(&device, config(130 * unit())));
        app.runtime.load_plan(TRAIN, &saved).unwrap();
        app.iteration(TRAIN, |app| step(app, 2));
        assert_eq!(app.runtime.stats().frozen_iterations, 1);
        drop(app);
        check(&control, device);
    }
}

#[test]
fn what_a_gpu_cannot_have_is_refused_with_the_reason() {
    let refused = |config: Config, wanted: &str| match Runtime::new(config) {
        Err(error) => assert!(error.to_string().contains(wanted), "{error}"),
        Ok(_) => panic!("{wanted}"),
    };
    let (control, device) = machine("rtx-linux");
    let good = || on(&device, config(100 * unit()));
    refused(
        Config {
            budget: None,
            ..good()
        },
        "no budget cannot be used",
    );
    refused(
        Config {
            check_replays: true,
            ..good()
        },
        "compares bytes on the host",
    );
    refused(
        Config {
            throttle: Some(Throttle {
                out_bps: 1e9,
                in_bps: 1e9,
                latency_ns: 0,
                time_scale: 1.0,
            }),
            ..good()
        },
        "a pace of copies",
    );
    let small = system_page() - 1;
    refused(on(&device, config(small)), "are not between a page");
    refused(on(&device, config(1 << 50)), "are not between a page");
    let mut runtime = Runtime::new(good()).unwrap();
    let fixed = TensorDesc {
        fixed: true,
        ..TensorDesc::new("fixed", Bytes(512), TensorKind::Parameter)
    };
    let error = runtime.create(&fixed).unwrap_err();
    assert!(error.to_string().contains("ask the op"), "{error}");
    drop(runtime);
    check(&control, device);
    let (control, device) = machine("nano");
    refused(on(&device, config(100 * unit())), "no virtual memory");
    check(&control, device);
    let (control, device) = machine("orin");
    let config = Config {
        spill: Spill::Ram,
        ..on(&device, config(100 * unit()))
    };
    refused(config, "name a folder to spill to");
    check(&control, device);
}

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
    fn step(&mut self, [weight, statistic]: [usize; 2]) {
        let mut made: Vec<usize> = Vec::new();
        for layer in 0..6 {
            made.push(self.create(80 * unit(), TensorKind::Activation));
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

#[test]
fn kernels_that_nobody_waits_for_find_their_bytes() {
    for (profile, methods) in [
        ("rtx-linux", Methods::Swap),
        ("rtx-linux", Methods::Recompute),
        ("rtx-linux", Methods::Both),
        ("orin", Methods::Swap),
        ("orin", Methods::Recompute),
    ] {
        let (control, device) = machine(profile);
        control.jitter(7, 20_000).unwrap();
        let wanted = Config {
            methods,
            ..on(&device, config(350 * unit()))
        };
        let mut app = KernelApp::new(&device, wanted);
        let kept = [TensorKind::Parameter, TensorKind::Buffer];
        let kept = kept.map(|kind| app.create(4 * unit(), kind));
        for at in kept {
            let (tensor, bytes) = (app.tensors[at].0, 4 * unit());
            let mut content = vec![0; usize::try_from(bytes).unwrap()];
            crate::pattern::fill(&mut content, u32::try_from(at).unwrap(), 0, 0);
            app.runtime.write(tensor, 0, &content).unwrap();
        }
        // On Orin the statistic is of the model, and pinned; elsewhere it moves as others do.
        for _ in 0..10 {
            let before = app.tensors.len();
            app.runtime.iteration_begin(TRAIN).unwrap();
            app.step(kept);
            app.runtime.iteration_end().unwrap();
            app.tensors.truncate(before);
        }
        let stats = app.runtime.stats();
        println!("{profile}, {methods:?}: {stats:?}");
        assert!(stats.frozen_iterations > 5);
        match methods {
            Methods::Recompute => assert!(stats.recomputed.0 > 0),
            _ => assert!(stats.moved_in.0 > 0),
        }
        for at in kept {
            let (tensor, version) = app.tensors[at];
            let mut content = vec![0; usize::try_from(4 * unit()).unwrap()];
            app.runtime.read(tensor, 0, &mut content).unwrap();
            let at = u32::try_from(at).unwrap();
            assert_eq!(crate::pattern::check(&content, at, version, 0), 0);
        }
        assert_eq!(app.tally.read().unwrap(), [0], "{profile}, {methods:?}");
        drop(app);
        check(&control, device);
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

#[test]
fn whatever_call_of_the_driver_fails_no_byte_is_wrong() {
    let (mut control, device) = machine("rtx-linux");
    drop(device);
    let (mut failed, mut lost) = (0, 0);
    for round in 0..120_u64 {
        control.reset("rtx-linux").unwrap();
        let device = open(&control);
        let (mut app, failing) = (
            app(on(&device, config(100 * unit()))),
            [Failing::Now, Failing::Late][usize::try_from(round % 2).unwrap()],
        );
        for iteration in 0..6 {
            if iteration == round / 2 % 6 {
                // Out of memory: the context lives.
                control
                    .inject("*", 1 + round / 12 * 13, failing, 2)
                    .unwrap();
            }
            let ran = iterate(&mut app);
            control.clear_faults().unwrap();
            if let Err(error) = ran {
                assert!(
                    matches!(
                        error,
                        RuntimeError::Cuda(_)
                            | RuntimeError::Spilling { .. }
                            | RuntimeError::LostContent { .. }
                    ),
                    "{error}"
                );
                failed += 1;
                app.runtime.doubt();
                let _ = app.runtime.iteration_abort();
                let kept = app.kept.clone();
                app.model.retain(|tensor, _| kept.contains(tensor));
            }
            lost += app.restore_lost();
        }
        app.read_all();
        drop(app);
        drop(device);
        let (fresh, _) = machine("rtx-linux");
        assert_eq!(control.reports(), Vec::<String>::new(), "round {round}");
        control = fresh;
    }
    println!("{failed} iterations failed, {lost} ranges were lost");
    assert!(failed > 20 && lost > 0);
}

/// An iteration that may fail anywhere.
fn iterate(app: &mut super::app::App) -> Result<(), RuntimeError> {
    app.runtime.iteration_begin(TRAIN)?;
    let [weight, momentum, input, loss] = [0, 1, 2, 3].map(|at| app.kept[at]);
    let first = app.create("first", 32 * unit());
    app.try_op(
        "forward",
        &[
            Access::read(input),
            Access::read(weight),
            Access::write(first),
        ],
    )?;
    let second = app.create("second", 48 * unit());
    app.try_op("loss", &[Access::read(first), Access::write(second)])?;
    app.try_op("score", &[Access::read(second), Access::write(loss)])?;
    app.destroy(second);
    let third = app.create("third", 48 * unit());
    app.try_op("other", &[Access::write(third), Access::read(loss)])?;
    app.try_op(
        "backward",
        &[Access::read(first), Access::read_write(third)],
    )?;
    app.destroy(first);
    app.try_op(
        "update",
        &[
            Access::read(third),
            Access::read_write(momentum),
            Access::read_write(weight),
        ],
    )?;
    app.destroy(third);
    app.runtime.iteration_end()
}
