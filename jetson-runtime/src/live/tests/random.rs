//! Random applications: kinds of iterations that alternate, leave their recording, are aborted, and
//! read and write in between. Every byte is checked against the model.

use std::sync::atomic::Ordering;

use lgm::planner::Methods;
use lgm::profile::Link;
use nix::errno::Errno;
use vtensor::{Bytes, Kinds, Mode, TensorKind};

use super::app::App;
use super::gpu::{check, machine};
use super::{config, unit};
use crate::cuda::{Class, Device, Target};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::fault::Fault;
use crate::live::{Access, Config, ProgramKey, Tensor, TensorDesc};
use crate::scale::system_page;
use crate::spill::Spill;
use crate::tests::disk;
use lgm::policy::Policy;

const KEPT: usize = 5;
const SEEDS: u64 = 80;

struct Random {
    state: u64,
    /// Sizes are as many times larger.
    scale: u64,
}

impl Random {
    /// A size of up to `max` bytes where pages have 4 KiB, and in proportion elsewhere.
    fn bytes(&mut self, max: u64) -> u64 {
        self.scale * (1 + self.below((max * unit() / 1024) as usize) as u64)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A tensor of a script.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Kept(usize),
    Made(usize),
}

#[derive(Clone)]
enum Call {
    Create(u64),
    Destroy(usize),
    /// An op, and whether it may run again.
    Op(Vec<(Who, Mode)>, bool),
}

/// An iteration to come.
#[derive(Clone, Default)]
struct Script {
    calls: Vec<Call>,
    /// The tensors that it has made, with whether they are alive and written.
    made: Vec<(bool, bool)>,
}

impl Script {
    fn random(random: &mut Random) -> Self {
        let mut script = Self::default();
        script.extend(random, if random.scale > 1 { 12 } else { 6 });
        script.close();
        script
    }

    /// The beginning of this script, and then something else.
    fn mutated(&self, random: &mut Random) -> Self {
        let mut script = Self::default();
        let cut = random.below(self.calls.len());
        for call in &self.calls[..cut] {
            match call {
                Call::Create(_) => script.made.push((true, false)),
                Call::Destroy(at) => script.made[*at].0 = false,
                Call::Op(accesses, _) => script.note(accesses),
            }
            script.calls.push(call.clone());
        }
        script.extend(random, 3);
        script.close();
        script
    }

    fn note(&mut self, accesses: &[(Who, Mode)]) {
        for (who, mode) in accesses {
            if let (Who::Made(at), true) = (who, mode.writes()) {
                self.made[*at].1 = true;
            }
        }
    }

    fn extend(&mut self, random: &mut Random, ops: usize) {
        for _ in 0..=random.below(2 * ops) {
            while random.one_in(2) {
                self.calls.push(Call::Create(random.bytes(20_000)));
                self.made.push((true, false));
            }
            let made = (0..self.made.len())
                .filter(|at| self.made[*at].0)
                .map(Who::Made);
            let mut all: Vec<Who> = made.chain((0..KEPT).map(Who::Kept)).collect();
            let mut accesses = Vec::new();
            for _ in 0..=random.below(3) {
                let who = all.swap_remove(random.below(all.len()));
                let unwritten = matches!(who, Who::Made(at) if !self.made[at].1);
                // Ops can run again while nothing has changed what they read.
                let modes = if random.scale > 1 { 12 } else { 4 };
                let mode = match random.below(if unwritten { 2 } else { modes }) {
                    0 => Mode::Write,
                    1 => Mode::ReadWrite,
                    _ => Mode::Read,
                };
                // What a new tensor holds is undefined, and so not the model's zeroes.
                let mode = if unwritten { Mode::Write } else { mode };
                accesses.push((who, mode));
            }
            self.note(&accesses);
            self.calls.push(Call::Op(accesses, !random.one_in(5)));
            for at in 0..self.made.len() {
                if self.made[at].0 && random.one_in(if random.scale > 1 { 9 } else { 4 }) {
                    self.destroy(at);
                }
            }
        }
    }

    fn destroy(&mut self, at: usize) {
        self.made[at].0 = false;
        self.calls.push(Call::Destroy(at));
    }

    fn close(&mut self) {
        for at in 0..self.made.len() {
            if self.made[at].0 {
                self.destroy(at);
            }
        }
    }

    /// Bytes of pages that the largest op takes at most.
    fn largest_op(&self, kept: &[u64]) -> u64 {
        let mut made = Vec::new();
        let mut largest = 0;
        for call in &self.calls {
            match call {
                Call::Create(bytes) => made.push(*bytes),
                Call::Destroy(_) => {}
                Call::Op(accesses, _) => {
                    let bytes = |who: &Who| match who {
                        Who::Kept(at) => kept[*at],
                        Who::Made(at) => made[*at],
                    };
                    let sizes = accesses
                        .iter()
                        .map(|(who, _)| bytes(who).next_multiple_of(system_page()));
                    largest = sizes.sum::<u64>().max(largest);
                }
            }
        }
        largest
    }
}

/// Runs a script; `until` calls of it if that is fewer.
fn run(app: &mut App, script: &Script, until: usize) -> Result<(), RuntimeError> {
    let mut made: Vec<Tensor> = Vec::new();
    for (index, call) in script.calls.iter().take(until).enumerate() {
        match call {
            Call::Create(bytes) => made.push(app.create("made", *bytes)),
            Call::Destroy(at) => app.destroy(made[*at]),
            Call::Op(accesses, again) => {
                let access = |&(who, mode): &(Who, Mode)| Access {
                    tensor: match who {
                        Who::Kept(at) => app.kept[at],
                        Who::Made(at) => made[at],
                    },
                    mode,
                };
                let accesses: Vec<Access> = accesses.iter().map(access).collect();
                app.run_op(&format!("op {index}"), &accesses, *again)?;
            }
        }
    }
    Ok(())
}

/// Whether an application that leaves its recording, or whose copies fail, may see an error.
fn is_expected(error: &RuntimeError, way: &Way) -> bool {
    match error {
        RuntimeError::LostContent { .. } | RuntimeError::OpTooLarge { .. } => true,
        RuntimeError::CopyFailed(_) | RuntimeError::Spilling { .. } => way.fault.is_some(),
        RuntimeError::Replay { .. } => way.failing > 0,
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Totals {
    failed: u64,
    frozen: u64,
    divergences: u64,
    aborted: u64,
    lost: u64,
    moved: u64,
    recomputed: u64,
    failed_replays: u64,
}

/// How an application is played.
#[derive(Clone, Default)]
struct Way {
    /// A GPU rather than the host.
    gpu: Option<Device>,
    /// A copy that fails.
    fault: Option<Fault>,
    /// Whether some tensors keep their address.
    fixing: bool,
    /// Whether tensors are large, and ops run again rather than that tensors move.
    again: bool,
    /// Every one of so many ops that run again fails; 0: none.
    failing: u64,
}

fn play(seed: u64, way: &Way, totals: &mut Totals) {
    let Way { fault, fixing, .. } = *way;
    let mut random = Random {
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        scale: if way.again { 8 } else { 1 },
    };
    let kept: Vec<u64> = (0..KEPT).map(|_| random.bytes(30_000)).collect();
    let scripts: Vec<Script> = (0..3).map(|_| Script::random(&mut random)).collect();
    let largest = scripts.iter().map(|script| script.largest_op(&kept)).max();
    let spare = match way.again {
        true => random.below(200) as u64 * unit(),
        false => random.below(60) as u64 * unit(),
    };
    let budget = largest.unwrap().max(80 * unit()) + spare;
    // Whole pages for each tensor, and each with a place for life.
    let budget = match fixing {
        true => budget + budget / 2,
        false => budget,
    };
    let policies = [Policy::Vtensor, Policy::Whole, Policy::Lru];
    // Every other tensor stays in the arena, in some of the applications.
    let kinds = [TensorKind::Buffer, TensorKind::Gradient];
    let keep = [Kinds::NONE, Kinds::MODEL][random.below(2)];
    let staying = kept
        .iter()
        .step_by(2)
        .map(|bytes| bytes.next_multiple_of(512));
    let budget = match keep == Kinds::NONE {
        true => budget,
        false => budget + staying.sum::<u64>().next_multiple_of(4 * unit()),
    };
    let gpu = way.gpu.as_ref().map(|device| Class::of(device.facts()));
    let one_memory = gpu.is_some_and(Class::one_memory);
    let mut app = App::new(Config {
        policy: match way.again {
            true => Policy::Vtensor,
            false => policies[random.below(3)],
        },
        spill: match random.below(3) {
            0 => Spill::File(disk()),
            _ if one_memory => Spill::File(disk()),
            _ => Spill::Ram,
        },
        gpu: way.gpu.clone().map(Target::new),
        keep: Some(keep),
        methods: match (way.again, seed % 4) {
            (false, _) => Methods::Swap,
            (true, 0) => Methods::Recompute,
            (true, _) => Methods::Both,
        },
        // Plans know a slow one; copies are as fast as they are.
        link: (way.again || way.gpu.is_some()).then_some(Link {
            out_bps: 1e6,
            in_bps: 1e6,
            copy_latency_ns: 1000,
            duplex: true,
        }),
        fault,
        ..config(budget)
    });
    app.fixing = fixing;
    app.replays.failing.store(way.failing, Ordering::Relaxed);
    for (at, bytes) in kept.iter().enumerate() {
        let name = format!("kept {at}");
        app.create_kept(&TensorDesc::new(&name, Bytes(*bytes), kinds[at % 2]));
    }
    let mut kind = 0;
    for _ in 0..40 {
        if random.one_in(4) {
            kind = random.below(3);
        }
        let key = ProgramKey(kind as u64);
        let script = match random.one_in(12) {
            true => scripts[kind].mutated(&mut random),
            false => scripts[kind].clone(),
        };
        let abort = random
            .one_in(12)
            .then(|| random.below(script.calls.len() + 1));
        if let Err(error) = app.runtime.iteration_begin(key) {
            assert!(is_expected(&error, way), "{error}");
            totals.failed += 1;
            continue;
        }
        match run(&mut app, &script, abort.unwrap_or(usize::MAX)) {
            Ok(()) if abort.is_none() => app.runtime.iteration_end().unwrap(),
            Ok(()) => app.abort(),
            Err(error) => {
                assert!(is_expected(&error, way), "{error}");
                totals.failed += 1;
                app.abort();
            }
        }
        totals.lost += app.restore_lost();
        while random.one_in(3) {
            let at = random.below(KEPT);
            let offset = random.below(kept[at] as usize) as u64;
            let bytes = 1 + random.below((kept[at] - offset) as usize) as u64;
            match random.one_in(2) {
                true => app.read(at, offset, bytes),
                false => app.write(at, offset, bytes),
            }
        }
    }
    app.read_all();
    let stats = app.runtime.stats();
    totals.frozen += stats.frozen_iterations;
    totals.divergences += stats.divergences;
    totals.aborted += stats.aborted_iterations;
    totals.moved += stats.moved_in.0;
    totals.recomputed += stats.recomputed.0;
    totals.failed_replays += stats.failed_replays;
    assert!(app.runtime.usage().unwrap().arena_allocated.0 <= budget);
}

/// A copy that fails: out where `turn` is even, else in.
fn failing_copy(seed: u64, turn: u64) -> Fault {
    Fault {
        direction: [Direction::Out, Direction::In][turn as usize % 2],
        after_copies: seed % 29,
        errno: Errno::EIO,
    }
}

#[test]
fn random_applications_see_their_own_bytes() {
    let mut totals = Totals::default();
    for seed in 0..SEEDS {
        println!("seed {seed}");
        play(seed, &Way::default(), &mut totals);
    }
    println!("{totals:?}");
    assert!(totals.frozen > 5 * SEEDS && totals.divergences > SEEDS && totals.aborted > SEEDS);
    assert!(totals.lost > 0 && totals.moved > 0);
}

#[test]
fn random_applications_keep_addresses_for_life() {
    let mut totals = Totals::default();
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let way = Way {
            fixing: true,
            ..Way::default()
        };
        play(seed, &way, &mut totals);
    }
    println!("{totals:?}");
    assert!(totals.frozen > SEEDS && totals.divergences > SEEDS / 2);
    assert!(totals.moved > 0);
}

#[test]
fn random_applications_survive_a_failing_copy() {
    let mut totals = Totals::default();
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let way = Way {
            fault: Some(failing_copy(seed, seed)),
            fixing: seed % 4 == 3,
            ..Way::default()
        };
        play(seed, &way, &mut totals);
    }
    println!("{totals:?}");
    assert!(totals.failed > SEEDS / 2 && totals.frozen > 5 * SEEDS);
}

#[test]
fn random_applications_run_ops_again() {
    let mut totals = Totals::default();
    for seed in 0..SEEDS / 2 {
        println!("seed {seed}");
        let way = Way {
            again: true,
            fixing: seed % 8 == 5,
            fault: (seed % 4 == 3).then(|| failing_copy(seed, seed / 2)),
            failing: [0, 2, 0, 3, 0, 2][seed as usize % 6],
            gpu: None,
        };
        play(seed, &way, &mut totals);
    }
    println!("{totals:?}");
    assert!(totals.frozen > SEEDS && totals.divergences > SEEDS && totals.aborted > SEEDS);
    assert!(totals.recomputed > 0 && totals.failed_replays > 0 && totals.moved > 0);
}

#[test]
fn random_applications_on_a_gpu_see_their_own_bytes() {
    for profile in ["rtx-linux", "orin"] {
        let (control, device) = machine(profile);
        let mut totals = Totals::default();
        for seed in 0..SEEDS / 2 {
            println!("{profile}, seed {seed}");
            let way = Way {
                gpu: Some(device.clone()),
                again: seed % 4 > 1,
                fault: (seed % 8 == 7).then(|| failing_copy(seed, seed / 2)),
                failing: [0, 2, 0][seed as usize % 3],
                fixing: false,
            };
            play(seed, &way, &mut totals);
            assert_eq!(control.reports(), Vec::<String>::new(), "{profile}");
        }
        println!("{totals:?}");
        assert!(totals.frozen > SEEDS && totals.divergences > SEEDS / 4);
        assert!(totals.recomputed > 0 && totals.moved > 0);
        check(&control, device);
    }
}
