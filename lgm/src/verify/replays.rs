//! V13: the steps are the application's ops, and what runs again gives what it gave.
//!
//! In: the application's iteration, the steps' own, and which tensor each life stands for. Proven
//! is that every op of the application runs once, in order, on lives that hold the *version* it is
//! to find, and that an op runs again only where it may, on the versions that it read at first;
//! then it writes what it wrote at first. A version is counted by writes of the application. V1–V12
//! prove, for the steps as they are, that a life keeps its content; so versions are all that is
//! left.
//!
//! Steps that run an op again never touch a tensor of the application but to read it: they write
//! later lives only, which do not persist. So between iterations nothing is different.

use vtensor::{Mode, OpIndex, StepIndex, StepKind, TensorId};

use crate::plan::Replays;
use crate::program::Program;
use crate::skeleton::{Access, Skeleton};

use super::violation::{At, Rule, Verdict, refuse};

/// Without a step that runs an op again, steps are ops.
pub(super) fn none(program: &Program) -> Verdict {
    for (index, step) in program.steps.iter().enumerate() {
        if step.kind != StepKind::App(OpIndex::from_index(index)) {
            let message = format!("op {index} was due, {:?} was found", step.kind);
            let at = At::Step(StepIndex::from_index(index));
            return refuse(Rule::V12, at, message);
        }
    }
    Ok(())
}

/// Proves the steps of a program whose tables are sound.
pub(super) fn check(replays: &Replays, steps: &Skeleton, program: &Program) -> Verdict {
    let original = &replays.original;
    if let Err(message) = original.check() {
        return refuse(Rule::V13, At::Table, message);
    }
    lives(replays, steps)?;
    let mut walk = Walk {
        replays,
        steps,
        versions: original.versions(),
        holds: vec![None; steps.tensors.len()],
        next_op: 0,
    };
    let tensors = original.tensors.iter().enumerate();
    tensors
        .filter(|(_, tensor)| tensor.persistent)
        .for_each(|(row, _)| walk.holds[row] = Some(0));
    for (index, step) in program.steps.iter().enumerate() {
        let at = At::Step(StepIndex::from_index(index));
        match step.kind {
            StepKind::App(op) => walk.app(at, index, op)?,
            StepKind::Replay(op) => walk.replay(at, index, op)?,
            other => return refuse(Rule::V13, at, format!("{other:?} is not known")),
        }
    }
    if walk.next_op < original.ops.len() {
        let message = format!(
            "the steps end before op {} of {}",
            walk.next_op,
            original.ops.len()
        );
        return refuse(Rule::V13, At::Table, message);
    }
    Ok(())
}

/// The first lives are the application's tensors; later ones are like them, but do not persist.
fn lives(replays: &Replays, steps: &Skeleton) -> Verdict {
    let own = &replays.original.tensors;
    if replays.lives.len() != steps.tensors.len() || own.len() > steps.tensors.len() {
        let message = format!(
            "{} lives are known of {} tensors of the steps and {} of the application",
            replays.lives.len(),
            steps.tensors.len(),
            own.len()
        );
        return refuse(Rule::V13, At::Table, message);
    }
    for (row, (life, of)) in steps.tensors.iter().zip(&replays.lives).enumerate() {
        let first = row < own.len();
        let sound = match own.get(of.index()) {
            None => false,
            Some(tensor) if first => of.index() == row && tensor == life,
            Some(tensor) => {
                (tensor.bytes, tensor.kind, tensor.fixed) == (life.bytes, life.kind, false)
                    && !(life.persistent || life.fixed)
            }
        };
        if !sound {
            let message = format!("tensor {row} of the steps is no life of tensor {of}");
            return refuse(Rule::V13, At::Table, message);
        }
    }
    Ok(())
}

struct Walk<'a> {
    replays: &'a Replays,
    steps: &'a Skeleton,
    versions: Vec<(u32, u32)>,
    /// The version that each life holds, if it holds one.
    holds: Vec<Option<u32>>,
    next_op: usize,
}

impl<'a> Walk<'a> {
    fn app(&mut self, at: At, index: usize, op: OpIndex) -> Verdict {
        if op.index() != self.next_op || self.next_op >= self.replays.original.ops.len() {
            let message = format!("op {} was due, {op} was found", self.next_op);
            return refuse(Rule::V13, at, message);
        }
        self.next_op += 1;
        let (own, now) = self.accesses(at, index, op)?;
        if now.len() != own.len() {
            let message = format!("op {op} has {} accesses, the step {}", own.len(), now.len());
            return refuse(Rule::V13, at, message);
        }
        for (number, (wanted, found)) in own.iter().zip(now).enumerate() {
            let persists = self.replays.original.tensor(wanted.tensor).persistent;
            if wanted.mode != found.mode || (persists && wanted.tensor != found.tensor) {
                let message = format!(
                    "op {op} uses tensor {} as {:?}, the step its life {} as {:?}",
                    wanted.tensor, wanted.mode, found.tensor, found.mode
                );
                return refuse(Rule::V13, at, message);
            }
            let (before, after) = self.versions_of(op, number);
            if found.mode.reads() {
                self.finds(at, found.tensor, before)?;
            }
            self.holds[found.tensor.index()] = Some(after);
        }
        Ok(())
    }

    fn replay(&mut self, at: At, index: usize, op: OpIndex) -> Verdict {
        let row = self.replays.original.ops.get(op.index());
        if op.index() >= self.next_op || !row.is_some_and(|op| op.replayable) {
            let message = format!("op {op} did not run before, or may not run again");
            return refuse(Rule::V13, at, message);
        }
        let (own, now) = self.accesses(at, index, op)?;
        let replays = self.replays;
        let fills: Vec<(usize, usize)> = replays.fills(op, now).collect();
        if now.len() != own.len() + fills.len() {
            let message = format!(
                "op {op} has {} accesses and {} that begin as copies, the step {}",
                own.len(),
                fills.len(),
                now.len()
            );
            return refuse(Rule::V13, at, message);
        }
        for &(to, from) in &fills {
            let (target, source) = (now[to], now[from]);
            let of = self.replays.lives[source.tensor.index()];
            if of != own[to].tensor || source.mode != Mode::Read {
                let message = format!(
                    "life {} begins as a copy of tensor {}, which is none of its lives or written",
                    target.tensor, source.tensor
                );
                return refuse(Rule::V13, at, message);
            }
        }
        for (number, (wanted, found)) in own.iter().zip(now).enumerate() {
            let (before, after) = self.versions_of(op, number);
            let holds = match (wanted.mode, found.mode) {
                (Mode::Read, Mode::Read) => {
                    self.finds(at, found.tensor, before)?;
                    continue;
                }
                (Mode::Write, Mode::Write) => Some(after),
                (Mode::ReadWrite, Mode::ReadWrite) => {
                    self.finds(at, found.tensor, before)?;
                    Some(after)
                }
                // Scratch: what it holds now is of no version.
                (Mode::ReadWrite, Mode::Write) => None,
                (wanted, found) => {
                    let message =
                        format!("op {op} has access {number} as {wanted:?}, not {found:?}");
                    return refuse(Rule::V13, at, message);
                }
            };
            if found.tensor.index() < self.replays.original.tensors.len() {
                let message = format!(
                    "op {op} runs again and writes tensor {}, which is the application's",
                    found.tensor
                );
                return refuse(Rule::V13, at, message);
            }
            self.holds[found.tensor.index()] = holds;
        }
        Ok(())
    }

    /// The accesses of an op, and of the step that runs it; of each the same tensors' lives.
    fn accesses(&self, at: At, index: usize, op: OpIndex) -> Verdict<(&'a [Access], &'a [Access])> {
        let own = self.replays.original.accesses_of(op);
        let now = self.steps.accesses_of(OpIndex::from_index(index));
        let lives = &self.replays.lives;
        let other =
            |(wanted, found): &(&Access, &Access)| lives[found.tensor.index()] != wanted.tensor;
        if let Some((wanted, found)) = own.iter().zip(now).find(other) {
            let message = format!(
                "op {op} uses tensor {}, the step tensor {}, which is none of its lives",
                wanted.tensor, found.tensor
            );
            return refuse(Rule::V13, at, message);
        }
        Ok((own, now))
    }

    fn versions_of(&self, op: OpIndex, number: usize) -> (u32, u32) {
        let first = self.replays.original.ops[op.index()].first_access as usize;
        self.versions[first + number]
    }

    /// Whether a life holds a version.
    fn finds(&self, at: At, life: TensorId, version: u32) -> Verdict {
        let held = self.holds[life.index()];
        if held == Some(version) {
            return Ok(());
        }
        let of = self.replays.lives[life.index()];
        let holds = held.map_or("none".into(), |held| format!("version {held}"));
        let message =
            format!("version {version} of tensor {of} is wanted, its life {life} holds {holds}");
        refuse(Rule::V13, at, message)
    }
}
