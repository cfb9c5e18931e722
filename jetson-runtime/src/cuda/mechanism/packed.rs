//! `packed`: one plain allocation, for plans whose windows are stretches of the arena.
//!
//! Nothing is mapped, so this works where virtual memory management does not. A plan that scatters
//! a tensor over pages is refused; the planner packs tensors whole (policy `whole` and those "as
//! published"), and schedules for less until they fit.

use std::ptr::NonNull;

use lgm::program::Program;
use vtensor::{Bytes, WindowId};

use super::Taken;
use super::explicit::DeviceArena;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::memory::{Kind, Memory, pointer};
use crate::places::{Places, Site};
use crate::scale::{Scale, to_usize};

/// The arena, with where each window lies in it.
#[derive(Debug)]
pub(super) struct Packed {
    /// `None` for a program without pages.
    memory: Option<Memory>,
    /// The first byte of each window, and its size.
    windows: Vec<(u64, u64)>,
}

impl Packed {
    /// Takes the arena.
    pub(super) fn new(device: &Device, program: &Program, scale: Scale) -> Result<Self, CudaError> {
        let page = scale.page().get();
        let windows = (0..program.windows.len()).map(|index| stretch(program, index, page));
        let windows = windows.collect::<Result<_, _>>()?;
        let bytes = to_usize(u64::from(program.arena_pages) * page);
        let memory = match bytes {
            0 => None,
            bytes => Some(Memory::new(device, Kind::Plain, bytes)?),
        };
        Ok(Self { memory, windows })
    }
}

/// Where a window lies, if its pages follow one another.
fn stretch(program: &Program, index: usize, page: u64) -> Result<(u64, u64), CudaError> {
    let runs = program.runs_of(WindowId::from_index(index));
    let follows = |pair: &[vtensor::PageRun]| pair[0].end() == u64::from(pair[1].first);
    if !runs.windows(2).all(follows) {
        return Err(CudaError::Refused {
            choice: "packed",
            reason: format!(
                "window {index} of the plan shows scattered pages; plan with a policy that packs, \
                 such as `whole`"
            ),
        });
    }
    let first = runs.first().map_or(0, |run| u64::from(run.first));
    let pages: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
    Ok((first * page, pages * page))
}

impl Places for Packed {
    fn address(&self, site: Site) -> NonNull<u8> {
        let (start, bytes) = self.windows[site.place.window.index()];
        let end = site.place.offset.checked_add(site.bytes as u64);
        assert!(
            end.is_some_and(|end| end <= bytes),
            "{site:?} lies in a window of {bytes} bytes"
        );
        let memory = self.memory.as_ref().expect("windows lie in the arena");
        pointer(memory.at(start + site.place.offset, site.bytes))
    }
}

impl DeviceArena for Packed {
    fn taken(&self) -> Taken {
        let bytes = self.memory.as_ref().map_or(0, Memory::bytes) as u64;
        Taken {
            device: Bytes(bytes),
            addresses: Bytes(bytes),
            ..Taken::default()
        }
    }
}
