//! V11: every iteration starts and ends at HOME.
//!
//! The first of the two iterations starts from nothing but HOME, so what it needs is there in
//! every iteration, whatever else lies in memory by then. The second starts with the first one's
//! copies under way. By V1 the commands of an iteration are known when the one after the next
//! starts, so the third starts as the second did, if it knows as much.

use vtensor::{ArenaRange, Mode};

use crate::program::Home;

use super::machine::Machine;
use super::memory::{Cell, Known, NONE};
use super::violation::{At, Rule, Verdict, refuse};

impl Machine<'_> {
    /// Fills the memories of a new machine as HOME says.
    pub(super) fn load_homes(&mut self) -> Verdict {
        for index in 0..self.tensors.len() {
            if self.skeleton.tensors[index].persistent {
                self.tensors[index].stamp = self.new_stamp();
                self.tensors[index].shared = true;
            }
        }
        let mut first_modes = vec![None; self.tensors.len()];
        for access in &self.skeleton.accesses {
            first_modes[access.tensor.index()].get_or_insert(access.mode);
        }
        for (row, home) in self.program.homes.iter().enumerate() {
            let dead = home.place.is_none() && home.slot.is_none();
            if dead && first_modes[home.tensor.index()] != Some(Mode::Write) {
                let message = format!(
                    "tensor {} is nowhere, but its next access is not a write",
                    home.tensor
                );
                return refuse(Rule::V11, At::Home(row), message);
            }
            self.load_home(row, home)?;
        }
        Ok(())
    }

    fn load_home(&mut self, row: usize, home: &Home) -> Verdict {
        let at = At::Home(row);
        for (memory, range, skip) in self.home_ranges(home) {
            let cell = Cell {
                content: self.content(home.tensor, self.offset(home.pieces) + skip),
                by: at,
                writer: NONE,
                reader: NONE,
            };
            let (memory, rule, what) = match memory {
                Which::Arena => (&mut self.arena, Rule::V10, "address"),
                Which::Spill => (&mut self.spill, Rule::V8, "slot"),
            };
            let rows = memory.rows(range);
            let taken = rows.clone().find_map(|row| memory.cell(row));
            if let Some(other) = taken {
                let message = format!(
                    "tensor {} is at home at {what} {}, where {} is",
                    home.tensor, range.start, other.by
                );
                return refuse(rule, at, message);
            }
            memory.put(rows, cell);
        }
        Ok(())
    }

    /// At the end of an iteration: whether HOME holds again, once all copies are complete.
    pub(super) fn compare_homes(&mut self) -> Verdict {
        for (row, home) in self.program.homes.iter().enumerate() {
            for (memory, range, skip) in self.home_ranges(home) {
                let offset = self.offset(home.pieces) + skip;
                let wanted = self.content(home.tensor, offset);
                let held = match memory {
                    Which::Arena => self.arena.holds(range, wanted, i64::MAX),
                    Which::Spill => self.spill.holds(range, wanted, i64::MAX),
                };
                if let Err(unfit) = held {
                    let message = format!(
                        "the iteration ends with {} in place of {} at {} {}",
                        self.describe(unfit.found),
                        self.name(home.tensor, offset + (unfit.address - range.start)),
                        if matches!(memory, Which::Arena) {
                            "address"
                        } else {
                            "slot"
                        },
                        unfit.address
                    );
                    return refuse(Rule::V11, At::Home(row), message);
                }
            }
            self.spend(At::Home(row))?;
        }
        Ok(())
    }

    /// The bytes of a home in both memories, each with its distance from the first.
    fn home_ranges(&self, home: &Home) -> Vec<(Which, ArenaRange, u64)> {
        let bytes = self
            .atlas
            .home_bytes(self.skeleton, home)
            .expect("the bounds of homes are checked first");
        let mut ranges = Vec::new();
        if let Some(place) = home.place {
            let parts = self.atlas.parts(place, bytes);
            ranges.extend(parts.map(|part| (Which::Arena, part.range, part.skip)));
        }
        if let Some(slot) = home.slot {
            let range = ArenaRange {
                start: slot,
                end: slot + bytes.0,
            };
            ranges.push((Which::Spill, range, 0));
        }
        ranges
    }
}

/// One of the two memories.
#[derive(Clone, Copy)]
enum Which {
    Arena,
    Spill,
}

/// Whether the third iteration will start with the knowledge that the second one had. It will if
/// V5 and V8 hold: a copy writes where its namesake of the iteration before wrote, so it knows
/// that one to be complete. This is their counterpart.
pub(super) fn same_knowledge(first: Known, second: Known) -> Verdict {
    if first == second {
        return Ok(());
    }
    let message = format!(
        "an iteration ends knowing {} outs and {} ins of its own not to be pending, the next one \
         {} and {}: some copy is never known to be complete",
        first.outs, first.ins, second.outs, second.ins
    );
    refuse(Rule::V11, At::Table, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_must_not_shrink() {
        let known = |outs, ins| Known { outs, ins };
        assert_eq!(same_knowledge(known(0, 2), known(0, 2)), Ok(()));
        for second in [known(-1, 2), known(0, 1)] {
            let verdict = same_knowledge(known(0, 2), second);
            assert_eq!(verdict.map_err(|v| v.rule), Err(Rule::V11));
        }
    }
}
