//! A device, with its primary context.
//!
//! In: an open driver and the number of a device. Out: what the device says about itself, and its
//! primary context, which other libraries of the process share. Guarantees: the context is held as
//! long as anything that was made in it; every call that needs it makes it the thread's own first,
//! so calls may come from any thread.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use vtensor::Bytes;

use super::driver::Driver;
use super::error::CudaError;
use super::status::Status;
use super::symbols::{Handle, Symbols};

/// What a device says about itself. Hints: a small trial call tells more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// Its identity, in hexadecimal; empty where the driver does not tell.
    pub uuid: String,
    /// Major and minor compute capability.
    pub compute: (i32, i32),
    /// Whether it shares its memory with the host.
    pub integrated: bool,
    /// Whether host and device may use managed memory at once: only then prefetching works.
    pub concurrent_managed: bool,
    /// Whether it knows managed memory.
    pub managed: bool,
    /// Whether it reaches ordinary host memory through the host's page tables.
    pub host_page_tables: bool,
    /// Whether ordinary host memory can be registered.
    pub host_register: bool,
    /// Whether memory can be mapped page by page.
    pub virtual_memory: bool,
    /// Copies that run beside one another.
    pub copy_engines: i32,
    /// All of its memory.
    pub memory: Bytes,
}

/// A device with its primary context; clones share both.
#[derive(Clone, Debug)]
pub struct Device {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    driver: Driver,
    device: c_int,
    context: Handle,
    facts: DeviceFacts,
}

// SAFETY: a context may be current on any number of threads; the driver locks what it must.
unsafe impl Send for Inner {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Inner {}

impl Device {
    /// Opens device `ordinal` and holds its primary context.
    ///
    /// # Errors
    /// If there is no such device, or its context cannot be made.
    pub fn open(driver: &Driver, ordinal: i32) -> Result<Self, CudaError> {
        let count = driver.devices()?;
        if !(0..count).contains(&ordinal) {
            return Err(CudaError::NoDevice {
                wanted: ordinal,
                count,
            });
        }
        let symbols = driver.symbols();
        let mut device = 0;
        // SAFETY: the target is a local.
        unsafe { symbols.device_get(&raw mut device, ordinal) }?;
        let facts = DeviceFacts::read(symbols, device)?;
        let mut context = ptr::null_mut();
        // SAFETY: the target is a local; `Inner` releases what is retained here.
        unsafe { symbols.primary_retain(&raw mut context, device) }?;
        let inner = Inner {
            driver: driver.clone(),
            device,
            context,
            facts,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// What it says about itself.
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        &self.inner.facts
    }

    /// Its driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.inner.driver
    }

    /// Its memory that is free now, and all of it, as the driver counts. On a device that shares
    /// the host's memory the first is too low: what the host could reclaim is not in it.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn memory(&self) -> Result<(Bytes, Bytes), CudaError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the targets are locals.
        unsafe { self.calls()?.memory_info(&raw mut free, &raw mut total) }?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    /// Waits until all that was given to it is done.
    ///
    /// # Errors
    /// If any of it failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: it has no arguments.
        unsafe { self.calls()?.context_synchronize() }
    }

    /// Brings the device to rest before memory goes that it may use. A call may fail with what
    /// failed before it, which is told once: so it is tried twice. Where that fails, too, the
    /// context is lost, and nothing runs.
    pub(crate) fn rest(&self) {
        if self.synchronize().is_err() {
            let _ = self.synchronize();
        }
    }

    pub(crate) fn number(&self) -> c_int {
        self.inner.device
    }

    /// The driver's functions, with this context as the thread's own.
    #[inline]
    pub(crate) fn calls(&self) -> Result<&Symbols, CudaError> {
        let symbols = self.inner.driver.symbols();
        // SAFETY: the context is retained as long as `Inner` lives.
        unsafe { symbols.context_set(self.inner.context) }?;
        Ok(symbols)
    }

    /// The same to give something back: where the context cannot be made the thread's own, it most
    /// likely is already, and giving back is tried.
    pub(crate) fn last_calls(&self) -> &Symbols {
        let symbols = self.inner.driver.symbols();
        self.calls().unwrap_or(symbols)
    }
}

/// Brings a device to rest when it is dropped: before what was made earlier.
#[derive(Debug)]
pub(crate) struct Rest<'a>(pub(crate) &'a Device);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.rest();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: it was retained once by `open`, and all that was made in it holds `Inner`.
        let released = unsafe { self.driver.symbols().primary_release(self.device) };
        if let Err(error) = released {
            tracing::warn!(%error, "the context was not released");
        }
    }
}

impl DeviceFacts {
    fn read(symbols: &Symbols, device: c_int) -> Result<Self, CudaError> {
        let number = |attribute: Attribute| -> Result<c_int, CudaError> {
            let mut value = 0;
            // SAFETY: the target is a local.
            unsafe { symbols.device_attribute(&raw mut value, attribute as c_int, device) }?;
            Ok(value)
        };
        // A driver that does not know an attribute has not what it is about.
        let known = |attribute, else_value| match number(attribute) {
            Err(error) if error.status() == Some(Status::INVALID_VALUE) => Ok(else_value),
            found => found,
        };
        let flag = |attribute| known(attribute, 0).map(|value| value > 0);
        let mut name = [0; 256];
        // SAFETY: the target is a local of that size.
        unsafe { symbols.device_name(name.as_mut_ptr(), 256, device) }?;
        // A name of the full length has no end.
        name[255] = 0;
        // SAFETY: the last byte is zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        let mut uuid = [0; 16];
        // SAFETY: the target is a local of that size.
        let told = unsafe { symbols.device_uuid(&raw mut uuid, device) }.is_ok();
        let mut bytes = 0;
        // SAFETY: the target is a local.
        unsafe { symbols.device_total_memory(&raw mut bytes, device) }?;
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            uuid: match told {
                true => uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
                false => String::new(),
            },
            compute: (
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            integrated: flag(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)?,
            concurrent_managed: flag(Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)?,
            managed: flag(Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)?,
            host_page_tables: flag(
                Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
            )?,
            host_register: flag(Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)?,
            virtual_memory: flag(
                Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
            )?,
            copy_engines: known(Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1)?,
            memory: Bytes(bytes as u64),
        })
    }
}
