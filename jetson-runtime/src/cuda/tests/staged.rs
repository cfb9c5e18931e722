//! Copies by way of a file: every byte comes back, a failure costs no more than it must, and the
//! waits are needed. Buffers are small here, so copies go in parts.

use cuda_model::Control;
use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use nix::errno::Errno;
use vtensor::{Bytes, OpIndex, TensorId};

use super::programs;
use crate::cuda::copies::Copies;
use crate::cuda::{Device, Driver, Frozen, Kernels, Mechanism, Options, Tally};
use crate::failure::Direction;
use crate::fault::Fault;
use crate::storage::{Integrity, IoPath, StorageOptions};
use crate::tests::{disk, plans};
use crate::{Failure, RuntimeError, Spill, pattern};

const ITERATIONS: u64 = 4;

/// An application on a model of its own.
struct App<'a> {
    // Its streams come to rest before what their kernels use goes.
    frozen: Frozen,
    kernels: Kernels,
    tally: Tally,
    plan: &'a Plan,
    /// How often each tensor was written.
    versions: Vec<u32>,
}

/// The model of a machine, new.
fn machine(control: &Control) -> Device {
    control.reset("rtx-linux").unwrap();
    control.granularity(plans::page()).unwrap();
    control.strict_events(true).unwrap();
    control.jitter(7, 50_000).unwrap();
    Device::open(&Driver::open(control.path()).unwrap(), 0).unwrap()
}

fn options(duplex: bool) -> Options {
    Options {
        spill: Spill::File(disk()),
        duplex: Some(duplex),
        ..Options::of(Mechanism::Mapped)
    }
}

impl<'a> App<'a> {
    fn new(device: &Device, plan: &'a Plan, options: &Options) -> Self {
        let verified = VerifiedPlan::new(plan.clone()).unwrap();
        let fill = |tensor: TensorId, offset, bytes: &mut [u8]| {
            pattern::fill(bytes, tensor.0, 0, offset);
        };
        Self {
            frozen: Frozen::freeze(device, verified, options, fill).unwrap(),
            kernels: Kernels::load(device).unwrap(),
            tally: Tally::new(device, 1).unwrap(),
            plan,
            versions: vec![0; plan.skeleton.tensors.len()],
        }
    }

    fn iteration(&mut self) -> Result<(), RuntimeError> {
        let Self {
            frozen,
            kernels,
            tally,
            plan,
            versions,
        } = self;
        frozen.iteration_begin()?;
        for op in 0..plan.skeleton.ops.len() {
            let op = OpIndex::from_index(op);
            frozen.step_begin(op)?;
            let accesses = plan.skeleton.accesses_of(op);
            for (access, row) in accesses.iter().enumerate() {
                if row.mode.reads() {
                    let content = (row.tensor, versions[row.tensor.index()]);
                    frozen.check_content(kernels, access, content, tally, 0)?;
                }
            }
            for (access, row) in accesses.iter().enumerate() {
                if row.mode.writes() {
                    versions[row.tensor.index()] += 1;
                    let content = (row.tensor, versions[row.tensor.index()]);
                    frozen.fill(kernels, access, content)?;
                }
            }
            frozen.step_end()?;
        }
        frozen.iteration_end()
    }

    fn iterations(&mut self) -> Result<(), RuntimeError> {
        (0..ITERATIONS).try_for_each(|_| self.iteration())?;
        self.frozen.quiesce()
    }

    /// Copies that are complete, by direction.
    fn done(&self) -> [u64; 2] {
        match &self.frozen.parts.copies {
            Copies::Staged(staged) => staged.crew().done(),
            Copies::Queued(_) => panic!("engines make the copies"),
        }
    }

    /// What is said to be intact holds what was written last; how many bytes are lost.
    fn lost(self, failure: &Failure, name: &str) -> u64 {
        let failed = self.frozen.abandon();
        assert_eq!(failed.failure(), Some(failure), "{name}");
        for (index, version) in self.versions.iter().enumerate() {
            let id = TensorId::from_index(index);
            let Some(Bytes(size)) = failed.tensor_bytes(id) else {
                continue;
            };
            let mut bytes = vec![0; usize::try_from(size).unwrap()];
            match failed.read(id, 0, &mut bytes) {
                Ok(()) => assert_eq!(pattern::check(&bytes, id.0, *version, 0), 0, "{name}"),
                Err(RuntimeError::Lost { .. } | RuntimeError::Dead { .. }) => {}
                Err(error) => panic!("{name}: {error}"),
            }
        }
        failed.lost().map(|range| range.bytes.0).sum()
    }
}

/// Programs that move anything.
fn moving() -> impl Iterator<Item = (&'static str, Plan)> {
    let moves = |(_, plan): &(_, Plan)| !plan.program.outs.is_empty();
    programs().into_iter().filter(moves)
}

#[test]
fn every_byte_comes_back_from_a_file() {
    let control = Control::new("rtx-linux").unwrap();
    for (name, plan) in moving() {
        for (integrity, path) in [
            (Integrity::Encrypt, IoPath::Auto),
            (Integrity::Checksum, IoPath::Plain),
        ] {
            for duplex in [true, false] {
                let device = machine(&control);
                let storage = StorageOptions {
                    integrity,
                    path,
                    request_bytes: Some(4096),
                    ..StorageOptions::default()
                };
                let options = Options {
                    storage,
                    ..options(duplex)
                };
                let mut app = App::new(&device, &plan, &options);
                app.iterations().unwrap();
                assert_eq!(app.tally.read().unwrap(), [0], "{name}");
                let all = plan.program.outs.len() + plan.program.ins.len();
                let [outs, ins] = app.done();
                assert_eq!(outs + ins, (ITERATIONS + 1) * all as u64, "{name}");
                drop((app, device));
                assert_eq!(control.reports(), Vec::<String>::new(), "{name}");
                assert_eq!(control.leaks(), Vec::<String>::new(), "{name}");
            }
        }
    }
}

#[test]
fn a_disk_that_fails_in_an_iteration_costs_what_it_held_and_no_more() {
    let control = Control::new("rtx-linux").unwrap();
    let mut lost = [0; 2];
    for (name, plan) in moving() {
        for direction in [Direction::Out, Direction::In] {
            let queue = [plan.program.outs.len(), plan.program.ins.len()][direction.index()] as u64;
            for after in 0..(2 * queue).min(12) {
                let name = format!("{name}, {direction} {after}");
                let device = machine(&control);
                let options = Options {
                    fault: Some(Fault {
                        direction,
                        after_copies: after,
                        errno: Errno::EIO,
                    }),
                    ..options(after % 2 == 0)
                };
                let mut app = App::new(&device, &plan, &options);
                let error = app.iterations().expect_err("the copy fails");
                let RuntimeError::CopyFailed(failure) = error else {
                    panic!("{name}: {error}");
                };
                assert_eq!(failure.errno, Errno::EIO, "{name}");
                let place = (failure.iteration - 1) * queue + u64::from(failure.command);
                assert_eq!((failure.direction, place), (direction, after), "{name}");
                assert!(app.iteration().is_err() && app.frozen.quiesce().is_err());
                // What failed is never counted as complete.
                assert_eq!(app.done()[direction.index()], queue + after, "{name}");
                lost[direction.index()] += app.lost(&failure, &name);
                drop(device);
                assert_eq!(control.reports(), Vec::<String>::new(), "{name}");
                assert_eq!(control.leaks(), Vec::<String>::new(), "{name}");
            }
        }
    }
    assert_eq!(lost[0], 0, "what did not leave is still there");
    assert!(lost[1] > 0, "what cannot be read is lost");
}

#[test]
fn the_model_misses_the_waits() {
    let control = Control::new("rtx-linux").unwrap();
    for function in ["cuStreamWaitEvent", "cuEventSynchronize", "cuEventRecord"] {
        let mut missed = 0;
        for (_, plan) in moving() {
            for duplex in [true, false] {
                let device = machine(&control);
                // More than there are.
                (1..1000).for_each(|nth| control.elide(function, nth).unwrap());
                let mut app = App::new(&device, &plan, &options(duplex));
                // What is read back may be anything then, also something that no seal fits.
                let _ = app.iterations();
                drop((app, device));
                missed += u32::from(!control.reports().is_empty());
            }
        }
        println!("{function}: {missed} runs are reported");
        assert!(missed > 0, "{function}");
    }
}
