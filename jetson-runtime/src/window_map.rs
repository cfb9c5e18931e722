//! Windows at addresses: mapped once, at freeze, and never again.
//!
//! In: a program's windows, the arena. Out: an address for every place. All windows lie in one
//! reserved range; each run of pages is one mapping of the arena's file, so a page is reachable
//! through every window that lists it, always with the same bytes. Between windows lies an
//! unmapped guard page, where the kernel's limit on mappings has room for it.
//!
//! Guarantees: the limits on mappings and on virtual memory are checked before anything is mapped;
//! if a mapping fails all the same, everything is unmapped again.

use std::fs;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use lgm::program::Program;
use vtensor::{Bytes, PageRun, Place, WindowId};

use crate::arena::Arena;
use crate::error::RuntimeError;
use crate::places::{Places, Site};
use crate::region::Region;
use crate::scale::{Scale, system_page, to_usize};

/// Mappings that are left to the application: stacks, libraries, allocations.
const MAPPINGS_RESERVED: u64 = 2048;
/// What the kernel grants where it does not say (its default since 2.6).
const MAPPINGS_DEFAULT: u64 = 65_530;
/// Virtual memory of a process that is surely addressable: 46 bits, half of what the smallest
/// 64-bit layouts of the supported machines have.
const VIRTUAL_BYTES_MAX: u64 = 1 << 46;

/// Limits on what a map may take from the kernel. `None` asks the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapLimits {
    /// Mappings of this process, those of the application included (`vm.max_map_count`).
    pub mappings_max: Option<u64>,
    /// Bytes of virtual memory for the windows.
    pub virtual_bytes_max: Option<Bytes>,
}

/// What a map takes, known before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapNeeds {
    /// Mappings of the kernel, guards included.
    pub(crate) mappings: u64,
    /// Virtual memory, guards included.
    pub(crate) virtual_bytes: u64,
    /// Bytes of each guard; 0 without guards.
    guard: u64,
}

impl MapNeeds {
    /// What the windows of `program` take, within the limits, in a process with so many mappings.
    pub(crate) fn check(
        program: &Program,
        scale: Scale,
        limits: &MapLimits,
        mappings: u64,
    ) -> Result<Self, RuntimeError> {
        let limit = limits.mappings_max.unwrap_or_else(mappings_max);
        let free = limit.saturating_sub(mappings.saturating_add(MAPPINGS_RESERVED));
        let guarded = Self::of(program, scale, system_page());
        let bare = Self::of(program, scale, 0);
        let Some(needs) = [guarded, bare]
            .into_iter()
            .find(|needs| needs.mappings <= free)
        else {
            return Err(RuntimeError::Mappings {
                needed: bare.mappings,
                free,
                limit,
            });
        };
        let allowed = limits.virtual_bytes_max.unwrap_or(Bytes(VIRTUAL_BYTES_MAX));
        if needs.virtual_bytes > allowed.0 {
            return Err(RuntimeError::VirtualMemory {
                needed: Bytes(needs.virtual_bytes),
                limit: allowed,
            });
        }
        Ok(needs)
    }

    fn of(program: &Program, scale: Scale, guard: u64) -> Self {
        let windows = program.windows.len() as u64;
        let pages: u64 = program.windows.iter().map(|w| u64::from(w.pages)).sum();
        let runs: usize = (0..program.windows.len())
            .map(|w| merged(program.runs_of(WindowId::from_index(w))).count())
            .sum();
        let guards = if guard > 0 { windows + 1 } else { 0 };
        Self {
            mappings: runs as u64 + guards,
            virtual_bytes: pages.saturating_mul(scale.page().get())
                + guard.saturating_mul(windows + 1),
            guard,
        }
    }
}

/// The windows of a program, mapped. Addresses are valid as long as the map lives.
#[derive(Debug)]
pub(crate) struct WindowMap {
    /// `None` if no window has a page.
    region: Option<Region>,
    /// Where each window starts in the region, and its size.
    windows: Vec<(u64, u64)>,
    needs: MapNeeds,
}

impl WindowMap {
    /// Maps all windows. `populate` fills the page tables now rather than at the first access.
    pub(crate) fn new(
        program: &Program,
        scale: Scale,
        arena: &Arena,
        needs: MapNeeds,
        populate: bool,
    ) -> Result<Self, RuntimeError> {
        let page = scale.page().get();
        let mut next = needs.guard;
        let mut windows = Vec::with_capacity(program.windows.len());
        for window in &program.windows {
            let bytes = u64::from(window.pages) * page;
            windows.push((next, bytes));
            next += bytes + needs.guard;
        }
        let region = match NonZeroUsize::new(to_usize(next)) {
            Some(bytes) => Some(Region::reserve(bytes).map_err(RuntimeError::system(
                "reserve virtual memory for the windows",
            ))?),
            None => None,
        };
        let map = Self {
            region,
            windows,
            needs,
        };
        map.map_windows(program, page, arena, populate)?;
        Ok(map)
    }

    fn map_windows(
        &self,
        program: &Program,
        page: u64,
        arena: &Arena,
        populate: bool,
    ) -> Result<(), RuntimeError> {
        let Some(region) = &self.region else {
            return Ok(());
        };
        for (index, &(start, bytes)) in self.windows.iter().enumerate() {
            let mut offset = start;
            for run in merged(program.runs_of(WindowId::from_index(index))) {
                assert!(run.end() * page <= arena.bytes(), "pages lie in the arena");
                let run_bytes = u64::from(run.count) * page;
                let size = NonZeroUsize::new(to_usize(run_bytes)).expect("a run holds pages");
                region
                    .map_file(
                        offset,
                        size,
                        arena.as_fd(),
                        u64::from(run.first) * page,
                        populate,
                    )
                    .map_err(RuntimeError::system("map the pages of a window"))?;
                offset += run_bytes;
            }
            assert_eq!(offset, start + bytes, "a window's runs hold its pages");
        }
        region
            .keep_private()
            .map_err(RuntimeError::system("keep the windows out of core dumps"))
    }

    /// The address of a place whose offset is executed, with `bytes` bytes after it.
    ///
    /// # Panics
    /// If they leave the window: places come from a verified plan.
    pub(crate) fn pointer(&self, place: Place, bytes: usize) -> NonNull<u8> {
        let (start, window_bytes) = self.windows[place.window.index()];
        let end = place.offset.checked_add(bytes as u64);
        assert!(
            end.is_some_and(|end| end <= window_bytes),
            "{place:?} holds {bytes} bytes"
        );
        let region = self
            .region
            .as_ref()
            .expect("a window with pages has a region");
        region.pointer(start + place.offset, bytes)
    }

    /// How many mappings of the kernel the windows hold.
    pub(crate) const fn mappings(&self) -> u64 {
        self.needs.mappings
    }

    /// How much virtual memory the windows hold.
    pub(crate) fn virtual_bytes(&self) -> u64 {
        self.region
            .as_ref()
            .map_or(0, |region| region.bytes() as u64)
    }
}

impl Places for WindowMap {
    fn address(&self, site: Site) -> NonNull<u8> {
        self.pointer(site.place, site.bytes)
    }
}

/// Runs, neighbours joined where the arena goes on: the kernel makes one mapping of them.
fn merged(runs: &[PageRun]) -> impl Iterator<Item = PageRun> {
    let mut rest = runs.iter().copied().filter(|run| run.count > 0).peekable();
    std::iter::from_fn(move || {
        let mut run = rest.next()?;
        while let Some(next) = rest.next_if(|next| u64::from(next.first) == run.end()) {
            run.count += next.count;
        }
        Some(run)
    })
}

/// How many mappings a process may have.
fn mappings_max() -> u64 {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(MAPPINGS_DEFAULT)
}

/// How many mappings this process has.
pub(crate) fn mappings_now() -> u64 {
    fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::plans;

    const RUNS: u64 = 400;
    const WINDOWS: u64 = 200;
    const IN_USE: u64 = 150;

    fn check(mappings_max: Option<u64>) -> Result<(Program, Scale, MapNeeds), RuntimeError> {
        let program = plans::rotation(plans::page(), 400, 200).program;
        let scale = Scale::of(&program, program.page_bytes).unwrap();
        let limits = MapLimits {
            mappings_max,
            ..MapLimits::default()
        };
        let needs = MapNeeds::check(&program, scale, &limits, IN_USE)?;
        Ok((program, scale, needs))
    }

    #[test]
    fn windows_alias_pages_between_guards() {
        let (program, scale, needs) = check(None).unwrap();
        assert_eq!(needs.mappings, RUNS + WINDOWS + 1);
        let arena = Arena::new(u64::from(program.arena_pages) * scale.page().get()).unwrap();
        let map = WindowMap::new(&program, scale, &arena, needs, true).unwrap();
        let guards = (WINDOWS + 1) * system_page();
        assert_eq!(map.virtual_bytes(), RUNS * plans::page() + guards);
        let place = |window, offset| Place {
            window: WindowId(window),
            offset,
        };
        let frame = 2 * plans::page();
        let [first, second] = [0, 1].map(|window| map.pointer(place(window, 0), to_usize(frame)));
        let between = second.as_ptr() as u64 - first.as_ptr() as u64;
        assert_eq!(between, frame + system_page());
    }

    #[test]
    fn guards_are_left_out_where_mappings_are_short() {
        let short = IN_USE + MAPPINGS_RESERVED + RUNS;
        let (program, scale, needs) = check(Some(short)).unwrap();
        assert_eq!(needs.mappings, RUNS);
        let arena = Arena::new(u64::from(program.arena_pages) * scale.page().get()).unwrap();
        let map = WindowMap::new(&program, scale, &arena, needs, true).unwrap();
        assert_eq!(map.virtual_bytes(), RUNS * plans::page());
    }

    #[test]
    fn too_few_mappings_are_refused_with_advice() {
        let limit = IN_USE + MAPPINGS_RESERVED + RUNS - 1;
        let error = check(Some(limit)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the windows need 400 mappings of the kernel, 399 are free of 2597 \
             (vm.max_map_count); plan with larger pages, or raise the limit"
        );
        assert!(check(Some(0)).is_err());
    }

    #[test]
    fn runs_that_go_on_are_one_mapping() {
        let run = |first, count| PageRun { first, count };
        let runs = [run(3, 2), run(5, 1), run(5, 1), run(0, 1), run(1, 9)];
        let joined: Vec<PageRun> = merged(&runs).collect();
        assert_eq!(joined, [run(3, 3), run(5, 1), run(0, 10)]);
    }
}
