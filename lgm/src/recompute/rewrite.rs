//! From choices to a script.
//!
//! Method: the application's ops are walked in order. A content that is given up ends its life at
//! the use before; before the use that wants it again, the ops that make it run again, on a life of
//! its own. What they read is there, or is made again first, the same way; what they write beside
//! is scratch. A content that was given up too and is made on the way stays for its own next use.
//!
//! Excluded, each for a reason: ops that may not run again; tensors whose address may not change;
//! tensors that outlive the iteration (their content of now is not that of then); ops that change
//! a transient beside what is wanted; and what takes more than [`DEPTH_MAX`] ops behind each other,
//! or more steps than a program may have.

use vtensor::{Mode, OpIndex, TensorId};

use super::draft::Draft;
use super::history::{History, Use};
use super::script::Script;
use crate::skeleton::Access;

/// Contents that are made again, each because the one before needs it.
const DEPTH_MAX: usize = 24;
/// Steps that run ops again, for each op of the application.
const STEPS_PER_OP: usize = 4;
/// A dead input stays alive instead of being made again, if it is so much smaller than what is
/// wanted.
const SMALL: u64 = 16;

/// The script of a skeleton in which the contents that the accesses of `rows` read are given up
/// after the use before, and made again. `None` if some content cannot be made again.
#[must_use]
pub fn rewrite(history: &History<'_>, rows: impl IntoIterator<Item = usize>) -> Option<Script> {
    Some(draft(history, rows)?.script(history.skeleton))
}

/// A draft of it.
pub(super) fn draft(history: &History<'_>, rows: impl IntoIterator<Item = usize>) -> Option<Draft> {
    let mut given_up = vec![false; history.skeleton.accesses.len()];
    rows.into_iter().for_each(|row| given_up[row] = true);
    let tensors = &history.skeleton.tensors;
    let now = tensors.iter().enumerate().map(|(row, tensor)| {
        let held = Held {
            life: TensorId::from_index(row),
            version: 0,
        };
        tensor.persistent.then_some(held)
    });
    let mut writer = Writer {
        history,
        given_up,
        draft: Draft::new(history.skeleton),
        done: None,
        now: now.collect(),
        last: vec![None; tensors.len()],
        made: Vec::new(),
        again: 0,
    };
    for index in 0..history.skeleton.ops.len() {
        writer.app(OpIndex::from_index(index))?;
    }
    writer.draft.fits().then_some(writer.draft)
}

/// A life, and the version that it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    life: TensorId,
    version: u32,
}

struct Writer<'a> {
    history: &'a History<'a>,
    /// For each access, whether the content that it reads is made again for it.
    given_up: Vec<bool>,
    draft: Draft,
    /// The last op of the application.
    done: Option<OpIndex>,
    /// Where the content of each tensor is; nowhere if it is given up or dead.
    now: Vec<Option<Held>>,
    /// Where it was last.
    last: Vec<Option<Held>>,
    /// Contents that were made on the way to this op, and are not kept.
    made: Vec<(TensorId, Held)>,
    /// Steps that run ops again.
    again: usize,
}

impl Writer<'_> {
    fn app(&mut self, op: OpIndex) -> Option<()> {
        let history = self.history;
        for (row, access) in history.accesses(op) {
            let missing = access.mode.reads() && self.now[access.tensor.index()].is_none();
            if missing && self.given_up[row] {
                let version = history.at(row).before;
                let held = self.make(access.tensor, version, 0)?;
                self.now[access.tensor.index()] = Some(held);
            }
        }
        self.made.clear();
        let lives = history.accesses(op).map(|(_, access)| {
            let held = self.now[access.tensor.index()];
            Access {
                tensor: held.map_or(access.tensor, |held| held.life),
                mode: access.mode,
            }
        });
        self.draft.push(op, false, lives);
        self.done = Some(op);
        for (row, access) in history.accesses(op) {
            let tensor = access.tensor.index();
            let held = Held {
                life: self.now[tensor].map_or(access.tensor, |held| held.life),
                version: history.at(row).after,
            };
            let persistent = history.skeleton.tensors[tensor].persistent;
            let next = history.next(row);
            // One that a later op overwrites is not kept for that either.
            let stays = persistent || next.is_some_and(|next| !self.given_up[next.row]);
            self.now[tensor] = stays.then_some(held);
            self.last[tensor] = Some(held);
        }
        Some(())
    }

    /// Makes a version of a tensor again.
    fn make(&mut self, tensor: TensorId, version: u32, depth: usize) -> Option<Held> {
        let history = self.history;
        let row = &history.skeleton.tensors[tensor.index()];
        if row.persistent || row.fixed || depth > DEPTH_MAX {
            return None;
        }
        let makers = history.makers(tensor, version)?;
        let life = self.draft.new_life(tensor);
        for maker in makers {
            self.run_again(maker, tensor, life, depth)?;
        }
        let held = Held { life, version };
        self.last[tensor.index()] = Some(held);
        Some(held)
    }

    /// Runs an op again, for a tensor that it makes or changes.
    fn run_again(
        &mut self,
        maker: Use,
        wanted: TensorId,
        life: TensorId,
        depth: usize,
    ) -> Option<()> {
        let op = maker.op;
        self.again += 1;
        let too_many = self.again > self.history.skeleton.ops.len() * STEPS_PER_OP;
        if too_many || !self.history.skeleton.ops[op.index()].replayable {
            return None;
        }
        let history = self.history;
        let mut step = Vec::new();
        let mut sources = Vec::new();
        for (row, access) in history.accesses(op) {
            let tensor = access.tensor;
            if tensor == wanted {
                step.push(Access {
                    tensor: life,
                    mode: access.mode,
                });
                continue;
            }
            let known = &history.skeleton.tensors[tensor.index()];
            let (life, mode) = match access.mode {
                Mode::Read => {
                    let version = history.at(row).before;
                    (self.find(tensor, version, wanted, depth)?, Mode::Read)
                }
                // Its address is known elsewhere: nobody can say that it is not used.
                _ if known.fixed => return None,
                Mode::Write => (self.draft.new_life(tensor), Mode::Write),
                Mode::ReadWrite if known.persistent => {
                    sources.push(Access {
                        tensor,
                        mode: Mode::Read,
                    });
                    (self.draft.new_life(tensor), Mode::Write)
                }
                Mode::ReadWrite => return None,
            };
            step.push(Access { tensor: life, mode });
        }
        self.draft.push(op, true, step.into_iter().chain(sources));
        Some(())
    }

    /// A life that holds a version of a tensor, made again if need be.
    fn find(
        &mut self,
        tensor: TensorId,
        version: u32,
        wanted: TensorId,
        depth: usize,
    ) -> Option<TensorId> {
        let here = self.now[tensor.index()].filter(|held| held.version == version);
        let made = || {
            let made = self
                .made
                .iter()
                .find(|(of, held)| *of == tensor && held.version == version);
            made.map(|(_, held)| *held)
        };
        if let Some(held) = here.or_else(made) {
            return Some(held.life);
        }
        let bytes = |id: TensorId| self.history.skeleton.tensors[id.index()].bytes.0;
        let last = self.last[tensor.index()].filter(|held| held.version == version);
        let small = bytes(tensor) <= bytes(wanted) / SMALL;
        if let Some(held) = last.filter(|_| small) {
            return Some(held.life);
        }
        let held = self.make(tensor, version, depth + 1)?;
        let uses = self.history.uses(tensor);
        let latest = self.latest(uses);
        if latest.is_some_and(|(version_now, awaited)| awaited && version_now == version) {
            self.now[tensor.index()] = Some(held);
        } else {
            self.made.push((tensor, held));
        }
        Some(held.life)
    }

    /// The version that the application has made last, and whether that is to be made again.
    fn latest(&self, uses: &[Use]) -> Option<(u32, bool)> {
        let done = self.done?;
        let behind = uses.partition_point(|u| u.op <= done);
        let version = uses[..behind].last()?.after;
        let next = uses.get(behind);
        Some((version, next.is_some_and(|next| self.given_up[next.row])))
    }
}
