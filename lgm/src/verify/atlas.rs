//! From places to bytes of the arena.
//!
//! In: a program whose runs and windows are in bounds. Out: for a place and a size the ranges of
//! the arena, in order, found by bisection, so that a window of many runs costs no more than
//! the runs that are used.

use vtensor::{ArenaRange, Bytes, Place};

use crate::program::{Home, Program};
use crate::skeleton::Skeleton;

/// The page lists of a program, with the sums that bisection needs.
pub(super) struct Atlas<'a> {
    program: &'a Program,
    page: u64,
    /// How many pages the runs before each run hold together; one entry more than runs.
    before: Vec<u64>,
}

/// A range of the arena, and which bytes of the request it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The bytes of the arena.
    pub(super) range: ArenaRange,
    /// How far from the first byte of the request they begin.
    pub(super) skip: u64,
}

impl<'a> Atlas<'a> {
    /// The sums saturate, so any table of runs may come in; only checked ones give useful parts.
    pub(super) fn new(program: &'a Program) -> Self {
        let mut before = Vec::with_capacity(program.runs.len() + 1);
        let mut sum = 0_u64;
        before.push(sum);
        for run in &program.runs {
            sum = sum.saturating_add(u64::from(run.count));
            before.push(sum);
        }
        Self {
            program,
            page: program.page_bytes.get(),
            before,
        }
    }

    /// How many pages the runs `first .. first + count` hold; `None` if there are no such runs.
    pub(super) fn pages_of_runs(&self, first: u32, count: u32) -> Option<u64> {
        let end = (first as usize).checked_add(count as usize)?;
        Some(self.before.get(end)? - self.before.get(first as usize)?)
    }

    /// The parts of the arena under `bytes` bytes from `place` on.
    pub(super) fn parts(&self, place: Place, bytes: Bytes) -> impl Iterator<Item = Part> {
        let window = self.program.windows[place.window.index()];
        let first = window.first_run as usize;
        let end = first + window.run_count as usize;
        let page = self.page;
        let target = self.before[first] + place.offset / page;
        // The last run of the window that does not begin behind the target.
        let run = first + self.before[first..end].partition_point(|&b| b <= target);
        let run = run.saturating_sub(1).max(first);
        let mut inside = place.offset - (self.before[run] - self.before[first]) * page;
        let mut skip = 0;
        self.program.runs[run..end].iter().map_while(move |run| {
            if skip == bytes.0 {
                return None;
            }
            let start = u64::from(run.first) * page + inside;
            let taken = (u64::from(run.count) * page - inside).min(bytes.0 - skip);
            let part = Part {
                range: ArenaRange {
                    start,
                    end: start + taken,
                },
                skip,
            };
            inside = 0;
            skip += taken;
            Some(part)
        })
    }

    /// The addresses of the arena at which anything that the program does begins or ends.
    pub(super) fn arena_cuts(&self, skeleton: &Skeleton) -> Vec<u64> {
        let program = self.program;
        let runs = program.runs.iter();
        let runs = runs.flat_map(|run| [u64::from(run.first) * self.page, run.end() * self.page]);
        let mut cuts: Vec<u64> = runs.collect();
        let mut cut = |place: Place, bytes: Bytes| {
            let last = bytes.0.saturating_sub(1);
            cuts.extend(self.address(place, 0));
            cuts.extend(self.address(place, last).map(|address| address + 1));
        };
        for (access, &place) in skeleton.accesses.iter().zip(&program.places) {
            cut(place, skeleton.tensor(access.tensor).bytes);
        }
        for out in &program.outs {
            cut(out.source, out.bytes);
        }
        for copy in &program.ins {
            cut(copy.destination, copy.bytes);
        }
        for home in &program.homes {
            if let (Some(place), Some(bytes)) = (home.place, self.home_bytes(skeleton, home)) {
                cut(place, bytes);
            }
        }
        cuts
    }

    /// The same for the spill tier.
    pub(super) fn spill_cuts(&self, skeleton: &Skeleton) -> Vec<u64> {
        let outs = self.program.outs.iter().map(|out| (out.slot, out.bytes));
        let ins = self.program.ins.iter().map(|copy| (copy.slot, copy.bytes));
        let homes = self.program.homes.iter();
        let homes = homes.filter_map(|home| Some((home.slot?, self.home_bytes(skeleton, home)?)));
        let slots = outs.chain(ins).chain(homes);
        slots
            .flat_map(|(slot, bytes)| [slot, slot.saturating_add(bytes.0)])
            .collect()
    }

    /// The bytes of the pieces of a home.
    pub(super) fn home_bytes(&self, skeleton: &Skeleton, home: &Home) -> Option<Bytes> {
        let tensor = skeleton.tensors.get(home.tensor.index())?;
        self.program.pieces(tensor.bytes).bytes(home.pieces)
    }

    /// Where one byte is.
    pub(super) fn address(&self, place: Place, skip: u64) -> Option<u64> {
        let offset = place.offset.checked_add(skip)?;
        let place = Place { offset, ..place };
        Some(self.parts(place, Bytes(1)).next()?.range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtensor::{PageBytes, PageRun, Window, WindowId};

    #[test]
    fn parts_agree_with_the_naive_walk() {
        let runs = [(4, 2), (0, 1), (9, 3), (6, 1)];
        let program = Program {
            page_bytes: PageBytes::MIN,
            piece_bytes: PageBytes::MIN,
            arena_pages: 12,
            spill_bytes: Bytes(0),
            steps: vec![],
            places: vec![],
            outs: vec![],
            ins: vec![],
            windows: vec![
                Window {
                    first_run: 0,
                    run_count: 4,
                    pages: 7,
                },
                Window {
                    first_run: 1,
                    run_count: 2,
                    pages: 4,
                },
            ],
            runs: runs.map(|(first, count)| PageRun { first, count }).to_vec(),
            homes: vec![],
        };
        let atlas = Atlas::new(&program);
        for (window, pages) in [(0, 7), (1, 4)] {
            for offset in (0..pages * 4096).step_by(512) {
                for bytes in (512..=pages * 4096 - offset).step_by(1536) {
                    let place = Place {
                        window: WindowId(window),
                        offset,
                    };
                    let parts: Vec<_> = atlas.parts(place, Bytes(bytes)).collect();
                    let ranges: Vec<_> = parts.iter().map(|p| p.range).collect();
                    let naive: Vec<_> = program.arena_ranges(place, Bytes(bytes)).collect();
                    assert_eq!(
                        ranges, naive,
                        "window {window} offset {offset} bytes {bytes}"
                    );
                    assert_eq!(atlas.address(place, 0), Some(naive[0].start));
                    let last = parts.last().expect("at least one part");
                    assert_eq!(last.skip + last.range.end - last.range.start, bytes);
                }
            }
        }
    }
}
