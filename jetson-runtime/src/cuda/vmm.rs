//! Pages of the device, and addresses that show them: a page may be mapped at several.
//!
//! In: how many pages, and page lists. Out: windows. Each page is an allocation of its own, since
//! mappings begin at the start of one. Guarantees: the state of every slot of a window is kept, so
//! that after a failure exactly what was mapped is unmapped (a blind unmap has ended processes);
//! windows end before their pages. Limit: a slot costs the driver tens of microseconds, so windows
//! are made at freeze, not in the loop.

use std::sync::Arc;

use cudarc::driver::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationProp_st__bindgen_ty_1, CUmemAllocationType, CUmemLocation, CUmemLocationType,
};

use super::device::Device;
use super::error::CudaError;
use super::symbols::Address;
use crate::scale::to_usize;

/// The smallest page, rather than the one that is fastest to map.
const GRANULARITY_MINIMUM: u32 = 0;

/// Where the device's memory is.
pub(super) fn location(device: &Device) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.number(),
    }
}

fn properties(device: &Device) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// What the size of a page must be a multiple of.
pub(crate) fn granularity(device: &Device) -> Result<u64, CudaError> {
    let (mut bytes, properties) = (0, properties(device));
    // SAFETY: target and properties are locals.
    unsafe {
        device
            .calls()?
            .granularity(&raw mut bytes, &raw const properties, GRANULARITY_MINIMUM)
    }?;
    Ok(bytes as u64)
}

/// Whether the driver has all that pages and windows take, so that what it takes it gives back.
fn check(device: &Device) -> Result<(), CudaError> {
    let symbols = device.driver().symbols();
    for (symbol, there) in [
        ("cuMemCreate", symbols.page_create.is_there()),
        ("cuMemRelease", symbols.page_release.is_there()),
        ("cuMemAddressReserve", symbols.address_reserve.is_there()),
        ("cuMemAddressFree", symbols.address_free.is_there()),
        ("cuMemMap", symbols.page_map.is_there()),
        ("cuMemUnmap", symbols.page_unmap.is_there()),
        ("cuMemSetAccess", symbols.set_access.is_there()),
    ] {
        if !there {
            return Err(CudaError::Missing { symbol });
        }
    }
    Ok(())
}

/// Pages of one size.
#[derive(Debug)]
pub(crate) struct Pages {
    device: Device,
    page_bytes: usize,
    handles: Vec<u64>,
}

impl Pages {
    /// Takes `count` pages of `page_bytes` bytes, a multiple of the granularity.
    pub(crate) fn new(device: &Device, page_bytes: u64, count: u32) -> Result<Self, CudaError> {
        check(device)?;
        // What was taken is given back by `drop` if a later page fails.
        let mut pages = Self {
            device: device.clone(),
            page_bytes: to_usize(page_bytes),
            handles: Vec::with_capacity(count as usize),
        };
        let (calls, properties) = (device.calls()?, properties(device));
        for _ in 0..count {
            let mut handle = 0;
            // SAFETY: target and properties are locals.
            unsafe {
                calls.page_create(&raw mut handle, pages.page_bytes, &raw const properties, 0)
            }?;
            pages.handles.push(handle);
        }
        Ok(pages)
    }

    /// The size of each.
    pub(crate) const fn page_bytes(&self) -> u64 {
        self.page_bytes as u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let calls = self.device.last_calls();
        for handle in self.handles.drain(..) {
            // SAFETY: the page was taken here, and windows, which hold `Pages`, are gone.
            if let Err(error) = unsafe { calls.page_release(handle) } {
                tracing::warn!(%error, "a page was not given back");
            }
        }
    }
}

/// A range of addresses that shows a list of pages.
#[derive(Debug)]
pub(crate) struct Window {
    pages: Arc<Pages>,
    address: Address,
    slots: usize,
    /// Slots that show a page: the first ones.
    mapped: usize,
}

impl Window {
    /// Reserves addresses, maps the pages there, and lets the device use them.
    pub(crate) fn new(
        pages: &Arc<Pages>,
        list: impl ExactSizeIterator<Item = u32>,
    ) -> Result<Self, CudaError> {
        let (slots, bytes) = (list.len(), pages.page_bytes);
        let calls = pages.device.calls()?;
        let mut address = 0;
        // SAFETY: the target is a local; `drop` frees what is reserved here.
        unsafe { calls.address_reserve(&raw mut address, slots * bytes, 0, 0, 0) }?;
        let mut window = Self {
            pages: Arc::clone(pages),
            address,
            slots,
            mapped: 0,
        };
        for page in list {
            let (at, handle) = (window.slot(window.mapped), pages.handles[page as usize]);
            // SAFETY: the slot was reserved here and shows nothing yet; the page is alive.
            unsafe { calls.page_map(at, bytes, 0, handle, 0) }?;
            window.mapped += 1;
        }
        let access = CUmemAccessDesc {
            location: location(&pages.device),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: every slot of the range was just mapped; the description is a local.
        unsafe { calls.set_access(address, slots * bytes, &raw const access, 1) }?;
        Ok(window)
    }

    pub(crate) const fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.slots * self.pages.page_bytes) as u64
    }

    fn slot(&self, index: usize) -> Address {
        self.address + (index * self.pages.page_bytes) as u64
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let calls = self.pages.device.last_calls();
        let mut whole = true;
        for slot in 0..self.mapped {
            // SAFETY: the slot shows a page, and nobody uses the window any more.
            if let Err(error) = unsafe { calls.page_unmap(self.slot(slot), self.pages.page_bytes) }
            {
                tracing::warn!(%error, "a page was not unmapped");
                whole = false;
            }
        }
        // Addresses that still show a page stay reserved.
        if whole {
            let bytes = self.slots * self.pages.page_bytes;
            // SAFETY: the range was reserved here and shows nothing any more.
            if let Err(error) = unsafe { calls.address_free(self.address, bytes) } {
                tracing::warn!(%error, "addresses were not given back");
            }
        }
    }
}
