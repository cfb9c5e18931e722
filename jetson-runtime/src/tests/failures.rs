//! Failed copies, programs that are given up, and drops in every state: a clear end, never a hang.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use vtensor::{Bytes, Mode, OpIndex, StepIndex};

use super::model::Model;
use super::{disk, freeze, in_time, plans};
use crate::{Direction, Errno, Fault, Frozen, Options, RuntimeError, Spill, Throttle};

/// A link of so many nanoseconds a copy.
const fn slow(latency_ns: u64) -> Option<Throttle> {
    Some(Throttle {
        out_bps: 0.0,
        in_bps: 0.0,
        latency_ns,
        time_scale: 1.0,
    })
}

fn run_to_the_failure(frozen: &mut Frozen, model: &mut Model) -> RuntimeError {
    for _ in 0..10 {
        if let Err(error) = model.iteration(frozen) {
            return error;
        }
    }
    frozen
        .quiesce()
        .expect_err("a copy of the first iterations fails")
}

#[test]
fn every_command_may_fail() {
    in_time(|| {
        const COMMANDS: u64 = 6;
        let plan = plans::rotation(plans::page(), 6, 2);
        let total: u64 = plan.skeleton.tensors.iter().map(|t| t.bytes.0).sum();
        for direction in [Direction::Out, Direction::In] {
            for after_copies in 0..2 * COMMANDS {
                for (duplex, throttle) in [(true, None), (false, None), (true, slow(100_000))] {
                    let fault = Fault {
                        direction,
                        after_copies,
                        errno: Errno::ENOSPC,
                    };
                    let options = Options {
                        duplex: Some(duplex),
                        throttle,
                        fault: Some(fault),
                        ..Options::default()
                    };
                    let mut frozen = freeze(&plan, &options).unwrap();
                    let mut model = Model::new(&plan);
                    let error = run_to_the_failure(&mut frozen, &mut model);
                    let RuntimeError::CopyFailed(failure) = &error else {
                        panic!("{fault:?}: {error}");
                    };
                    let index = (after_copies % COMMANDS) as usize;
                    let (tensor, pieces) = match direction {
                        Direction::Out => {
                            let out = plan.program.outs[index];
                            (out.tensor, out.pieces)
                        }
                        Direction::In => {
                            let r#in = plan.program.ins[index];
                            (r#in.tensor, r#in.pieces)
                        }
                    };
                    assert_eq!(failure.direction, direction);
                    assert_eq!(failure.command as usize, index);
                    assert_eq!(failure.iteration, 1 + after_copies / COMMANDS);
                    assert_eq!((failure.tensor, failure.pieces), (tensor, pieces));
                    assert_eq!(failure.name.as_str(), plan.skeleton.tensor(tensor).name);
                    assert_eq!(failure.errno, Errno::ENOSPC);
                    assert!(error.to_string().contains(failure.name.as_str()), "{error}");
                    let again = frozen.quiesce().unwrap_err();
                    assert_eq!(again.to_string(), error.to_string());

                    let failed = frozen.abandon();
                    assert_eq!(failed.failure(), Some(failure));
                    let (intact, lost) = model.check_failed(&failed);
                    assert_eq!(intact + lost, total, "{fault:?}");
                    let piece = plan.skeleton.tensor(tensor).bytes.0;
                    let expected = if direction == Direction::In { piece } else { 0 };
                    assert_eq!(lost, expected, "{fault:?}");
                }
            }
        }
    });
}

#[test]
fn a_failed_program_can_be_dropped_without_a_word() {
    in_time(|| {
        let plan = plans::swap(plans::page());
        for direction in [Direction::Out, Direction::In] {
            let fault = Some(Fault {
                direction,
                after_copies: 1,
                errno: Errno::EIO,
            });
            let options = Options {
                fault,
                ..Options::default()
            };
            let mut frozen = freeze(&plan, &options).unwrap();
            run_to_the_failure(&mut frozen, &mut Model::new(&plan));
            drop(frozen);
        }
    });
}

#[test]
fn a_program_can_be_given_up_before_every_step() {
    in_time(|| {
        for (name, plan) in plans::all(plans::page()) {
            for complete in 0..2 * plan.skeleton.ops.len() + 1 {
                let mut frozen = freeze(&plan, &Options::default()).unwrap();
                let mut model = Model::new(&plan);
                let (iterations, steps) = (
                    complete / plan.skeleton.ops.len(),
                    complete % plan.skeleton.ops.len(),
                );
                for _ in 0..iterations {
                    model.iteration(&mut frozen).unwrap();
                }
                frozen.iteration_begin().unwrap();
                for op in 0..steps {
                    model.op(&mut frozen, OpIndex::from_index(op)).unwrap();
                }
                let failed = frozen.abandon();
                let stopped_at = failed.stopped_at();
                assert_eq!(stopped_at.iteration, iterations as u64 + 1);
                assert_eq!(stopped_at.step, StepIndex::from_index(steps));
                let (intact, lost) = model.check_failed(&failed);
                assert!(
                    intact > 0 && lost == 0,
                    "{name}: {intact} intact, {lost} lost"
                );
            }
        }
    });
}

#[test]
fn a_program_can_be_given_up_at_rest() {
    in_time(|| {
        for (name, plan) in plans::all(plans::page()) {
            for iterations in 0..3 {
                let mut frozen = freeze(&plan, &Options::default()).unwrap();
                let mut model = Model::new(&plan);
                for _ in 0..iterations {
                    model.iteration(&mut frozen).unwrap();
                }
                let failed = frozen.abandon();
                let (intact, lost) = model.check_failed(&failed);
                assert!(
                    intact > 0 && lost == 0,
                    "{name}: {intact} intact, {lost} lost"
                );
            }
        }
    });
}

#[test]
fn damage_that_is_found_at_rest_is_named_with_its_place() {
    let folder = disk().join(format!("damage-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let plan = plans::rotation(plans::page(), 6, 2);
    let options = Options {
        spill: Spill::File(folder.clone()),
        ..Options::default()
    };
    let mut frozen = freeze(&plan, &options).unwrap();
    let files = fs::read_dir("/proc/self/fd").unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let spill = files.find(|file| fs::read_link(file).is_ok_and(|to| to.starts_with(&folder)));
    let spill = File::options()
        .read(true)
        .write(true)
        .open(spill.unwrap())
        .unwrap();
    let mut found = 0;
    for home in &plan.program.homes {
        let (None, Some(slot)) = (home.place, home.slot) else {
            continue;
        };
        let tensor = plan.skeleton.tensor(home.tensor).bytes.0;
        let pieces = plan.program.pieces(Bytes(tensor));
        // In the last block.
        let before = (pieces.bytes(home.pieces).unwrap().0 - 1) / 4096 * 4096;
        let damaged = pieces.offset(home.pieces).0 + before;
        let mut byte = [0];
        spill.read_exact_at(&mut byte, slot + before).unwrap();
        spill.write_all_at(&[byte[0] ^ 1], slot + before).unwrap();
        let mut all = vec![0; tensor as usize];
        let error = frozen.read(home.tensor, 0, &mut all).unwrap_err();
        let RuntimeError::Tier { tensor, offset, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((tensor, offset), (home.tensor, damaged), "where it is");
        spill.write_all_at(&byte, slot + before).unwrap();
        frozen.read(home.tensor, 0, &mut all).unwrap();
        found += usize::from(damaged > 0);
    }
    assert!(
        found > 0,
        "some damage is behind the beginning of its tensor"
    );
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_an_open_step_writes_is_lost() {
    in_time(|| {
        for (name, plan) in plans::all(plans::page()) {
            for open in 0..plan.skeleton.ops.len() {
                let mut frozen = freeze(&plan, &Options::default()).unwrap();
                let mut model = Model::new(&plan);
                model.iteration(&mut frozen).unwrap();
                frozen.iteration_begin().unwrap();
                for op in 0..open {
                    model.op(&mut frozen, OpIndex::from_index(op)).unwrap();
                }
                let open = OpIndex::from_index(open);
                frozen.step_begin(open).unwrap();
                let failed = frozen.abandon();
                assert!(failed.stopped_at().open);
                let writes = plan.skeleton.accesses_of(open).iter();
                let expected: u64 = writes
                    .filter(|access| access.mode != Mode::Read)
                    .map(|access| plan.skeleton.tensor(access.tensor))
                    .filter(|tensor| tensor.persistent)
                    .map(|tensor| tensor.bytes.0)
                    .sum();
                assert_eq!(model.check_failed(&failed).1, expected, "{name} op {open}");
            }
        }
    });
}

#[test]
fn a_drop_ends_a_copy_that_takes_an_hour() {
    in_time(|| {
        let plan = plans::swap(plans::page());
        for duplex in [true, false] {
            let options = Options {
                duplex: Some(duplex),
                throttle: slow(3_600_000_000_000),
                ..Options::default()
            };
            let mut frozen = freeze(&plan, &options).unwrap();
            frozen.iteration_begin().unwrap();
            Model::new(&plan).op(&mut frozen, OpIndex(0)).unwrap();
            // Not after the hour that its copy takes.
            drop(frozen);
        }
    });
}

#[test]
fn a_drop_in_every_state_ends() {
    in_time(|| {
        let plan = plans::rotation(plans::page(), 6, 2);
        for duplex in [true, false] {
            let options = Options {
                duplex: Some(duplex),
                ..Options::default()
            };
            drop(freeze(&plan, &options).unwrap());
            for steps in 0..=plan.skeleton.ops.len() {
                for open in [false, true] {
                    let mut frozen = freeze(&plan, &options).unwrap();
                    let mut model = Model::new(&plan);
                    frozen.iteration_begin().unwrap();
                    for op in 0..steps {
                        model.op(&mut frozen, OpIndex::from_index(op)).unwrap();
                    }
                    if open && steps < plan.skeleton.ops.len() {
                        frozen.step_begin(OpIndex::from_index(steps)).unwrap();
                    }
                    drop(frozen);
                }
            }
        }
    });
}

#[test]
fn a_throttled_link_keeps_its_pace() {
    in_time(|| {
        let plan = plans::rotation(plans::page(), 6, 2);
        let options = Options {
            throttle: slow(1_000_000),
            ..Options::default()
        };
        let mut frozen = freeze(&plan, &options).unwrap();
        let mut model = Model::new(&plan);
        let start = Instant::now();
        for _ in 0..5 {
            model.iteration(&mut frozen).unwrap();
        }
        frozen.quiesce().unwrap();
        // 30 outs, one after the other, of a millisecond each; ins run beside them.
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(30), "{elapsed:?}");
        let stats = frozen.stats();
        assert!(
            stats.stall_ns > 10_000_000 && stats.stalls > 10,
            "{stats:?}"
        );
        assert!(
            stats.out_busy_ns > 20_000_000 && stats.in_busy_ns > 20_000_000,
            "{stats:?}"
        );
        assert_eq!(stats.moved_out, Bytes(5 * plan.program.moved_out().0));
    });
}
