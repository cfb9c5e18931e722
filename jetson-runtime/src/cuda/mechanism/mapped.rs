//! `mapped`: pages of the device, and a window for each page list, mapped once.

use std::ptr::NonNull;
use std::sync::Arc;

use lgm::program::Program;
use vtensor::{Bytes, WindowId};

use super::Taken;
use super::explicit::DeviceArena;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::memory::pointer;
use crate::cuda::vmm::{Pages, Window, granularity};
use crate::places::{Places, Site};
use crate::scale::{Scale, to_usize};

/// The windows of a program on the device.
#[derive(Debug)]
pub(super) struct Mapped {
    /// `None` for a window without pages.
    windows: Vec<Option<Window>>,
    taken: Taken,
}

impl Mapped {
    /// Takes the pages and maps the windows.
    pub(super) fn new(device: &Device, program: &Program, scale: Scale) -> Result<Self, CudaError> {
        if !device.facts().virtual_memory {
            return Err(CudaError::Refused {
                choice: "mapped",
                reason: "the device has no virtual memory management".into(),
            });
        }
        let (page, least) = (scale.page().get(), granularity(device)?);
        if least == 0 || !page.is_multiple_of(least) {
            return Err(CudaError::Granularity {
                page: Bytes(page),
                granularity: Bytes(least),
            });
        }
        let pages = Arc::new(Pages::new(device, page, program.arena_pages)?);
        let mut mapped = Self::on(&pages, program, scale)?;
        mapped.taken.device = Bytes(u64::from(program.arena_pages) * page);
        Ok(mapped)
    }

    /// Maps the windows on pages that are there, the first ones; a page of the program is one or
    /// several of them.
    pub(super) fn on(
        pages: &Arc<Pages>,
        program: &Program,
        scale: Scale,
    ) -> Result<Self, CudaError> {
        let (page, here) = (scale.page().get(), pages.page_bytes());
        if !page.is_multiple_of(here) {
            return Err(CudaError::Granularity {
                page: Bytes(page),
                granularity: Bytes(here),
            });
        }
        let each = u32::try_from(page / here).expect("a page of a program is small");
        let mut mapped = Self {
            windows: Vec::with_capacity(program.windows.len()),
            taken: Taken::default(),
        };
        for index in 0..program.windows.len() {
            let runs = program.runs_of(WindowId::from_index(index)).iter();
            let list =
                runs.flat_map(|run| (0..run.count * each).map(|page| run.first * each + page));
            let list: Vec<u32> = list.collect();
            let slots = list.len() as u64;
            mapped.taken.mappings += slots;
            mapped.taken.addresses.0 += slots * here;
            mapped.windows.push(match list.is_empty() {
                true => None,
                false => Some(Window::new(pages, list.into_iter())?),
            });
        }
        Ok(mapped)
    }
}

impl Places for Mapped {
    fn address(&self, site: Site) -> NonNull<u8> {
        let window = self.windows[site.place.window.index()].as_ref();
        let window = window.expect("places lie in windows with pages");
        let end = site.place.offset.checked_add(site.bytes as u64);
        assert!(
            end.is_some_and(|end| end <= window.bytes()),
            "{site:?} lies in a window of {} bytes",
            to_usize(window.bytes())
        );
        pointer(window.address() + site.place.offset)
    }
}

impl DeviceArena for Mapped {
    fn taken(&self) -> Taken {
        self.taken
    }
}
