//! Which rule, and whose fault, when a content is not where it is wanted.
//!
//! Called once a run, when a program is already refused; so it may search. What is certain is
//! that the content is missing; who of several is to blame is a matter of judgement, made here.

use vtensor::TensorId;

use super::machine::Machine;
use super::memory::{Cell, Unfit};
use super::violation::{At, Rule, Violation};

impl Machine<'_> {
    /// A step reads the byte `skip` of a tensor, and finds something else.
    pub(super) fn blame_step(
        &self,
        at: At,
        tensor: TensorId,
        skip: u64,
        unfit: Unfit,
    ) -> Violation {
        let (name, page) = (self.name(tensor, skip), self.page(unfit.address));
        let found = self.describe(unfit.found);
        let violation = |rule, at, message| Violation { rule, at, message };
        let Some(cell) = unfit.found else {
            let message = format!("{name} is read in page {page}, where {found} is");
            return violation(Rule::V6, at, message);
        };
        if unfit.pending {
            let message = format!("{name} in page {page} is {found}, not known to be complete");
            return violation(Rule::V6, at, message);
        }
        let other = cell.content;
        if other.tensor == tensor && other.offset == skip {
            let message = format!("{name} in page {page} is not the last version, but {found}");
            return violation(Rule::V7, at, message);
        }
        let At::Step(step) = at else {
            unreachable!("only steps access tensors")
        };
        let op = &self.skeleton.ops[step.index()];
        let first = op.first_access as usize;
        let rows = first..first + op.access_count as usize;
        let same_step = rows.into_iter().any(|row| {
            let access = self.skeleton.accesses[row];
            let place = self.program.places[row];
            access.tensor == other.tensor
                && self.atlas.address(place, other.offset) == Some(unfit.address)
        });
        if same_step {
            let message = format!("{name} and {found} are both accessed in page {page}");
            return violation(Rule::V10, at, message);
        }
        let was_here = self
            .last_place(tensor, skip, first)
            .is_some_and(|place| place == unfit.address);
        if was_here && !self.spilled(tensor, skip) {
            let message =
                format!("it takes page {page}, where {at} reads {name} that nothing else holds");
            return violation(Rule::V5, cell.by, message);
        }
        let message = format!("{name} is read in page {page}, where {found} is");
        violation(Rule::V6, at, message)
    }

    /// An in reads the byte `skip` of its tensor, and finds something else.
    pub(super) fn blame_in(&self, index: usize, skip: u64, unfit: Unfit) -> Violation {
        let copy = self.program.ins[index];
        let name = self.name(copy.tensor, skip);
        let found = self.describe(unfit.found);
        let slot = unfit.address;
        let at = At::In(index);
        let violation = |rule, at, message| Violation { rule, at, message };
        let Some(cell) = unfit.found else {
            let message = format!("{name} was wanted in slot {slot}, there is {found}");
            return violation(Rule::V7, at, message);
        };
        if unfit.pending {
            let message = format!("{name} in slot {slot} is {found}, which it does not wait for");
            return violation(Rule::V7, at, message);
        }
        if cell.content.tensor == copy.tensor && cell.content.offset == skip {
            let message = format!("{name} in slot {slot} is stale, {found}");
            return violation(Rule::V9, at, message);
        }
        if self.was_put_in_slot(copy.tensor, skip, slot, cell.by) {
            let message = format!("it overwrites slot {slot}, where {at} reads {name}");
            return violation(Rule::V8, cell.by, message);
        }
        let message = format!("{name} was wanted in slot {slot}, there is {found}");
        violation(Rule::V7, at, message)
    }

    /// Where a byte was when it was last accessed before that row of accesses, or at home.
    fn last_place(&self, tensor: TensorId, skip: u64, row: usize) -> Option<u64> {
        let before = &self.skeleton.accesses[..row];
        if let Some(row) = before.iter().rposition(|access| access.tensor == tensor) {
            return self.atlas.address(self.program.places[row], skip);
        }
        let (first, place) = self.program.homes.iter().find_map(|home| {
            let first = self.offset(home.pieces);
            let end = home
                .pieces
                .end()
                .saturating_mul(self.program.piece_bytes.get());
            let here = home.tensor == tensor && (first..end).contains(&skip);
            here.then_some((first, home.place?))
        })?;
        self.atlas.address(place, skip - first)
    }

    /// Whether the spill tier holds the current content of a byte.
    fn spilled(&self, tensor: TensorId, skip: u64) -> bool {
        let current = self.content(tensor, 0);
        self.spill.cells().any(|(range, cell)| {
            let content = cell.content;
            content.tensor == tensor
                && content.stamp == current.stamp
                && (content.offset..content.offset + (range.end - range.start)).contains(&skip)
        })
    }

    /// Whether another out than `but`, or a home, puts that byte of that tensor in that slot.
    fn was_put_in_slot(&self, tensor: TensorId, skip: u64, slot: u64, but: At) -> bool {
        let puts = |of: TensorId, pieces, bytes: u64, start: u64| {
            let first = self.offset(pieces);
            of == tensor
                && (first..first + bytes).contains(&skip)
                && start.checked_add(skip - first) == Some(slot)
        };
        let outs = self.program.outs.iter().enumerate();
        let mut outs = outs.filter(|&(row, _)| At::Out(row) != but);
        outs.any(|(_, out)| puts(out.tensor, out.pieces, out.bytes.0, out.slot))
            || self.program.homes.iter().any(|home| {
                let bytes = u64::from(home.pieces.count) * self.program.piece_bytes.get();
                home.slot
                    .is_some_and(|slot| puts(home.tensor, home.pieces, bytes, slot))
            })
    }

    /// A byte of a tensor, for people.
    pub(super) fn name(&self, tensor: TensorId, skip: u64) -> String {
        let piece = skip / self.program.piece_bytes.get();
        match self.skeleton.tensor(tensor).name.as_str() {
            "" => format!("tensor {tensor} piece {piece}"),
            name => format!("tensor {tensor} ({name}) piece {piece}"),
        }
    }

    /// The page of an address.
    pub(super) fn page(&self, address: u64) -> u64 {
        address / self.program.piece_bytes.get()
    }

    /// What was found, for people.
    pub(super) fn describe(&self, found: Option<Cell>) -> String {
        let Some(Cell { content, by, .. }) = found else {
            return "nothing".into();
        };
        let name = self.name(content.tensor, content.offset);
        let stale = if content.stamp == self.tensors[content.tensor.index()].stamp {
            ""
        } else {
            "an old version of "
        };
        format!("{stale}{name}, put there by {by}")
    }
}
