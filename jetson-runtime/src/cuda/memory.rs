//! Memory that one call takes: on the device, pinned on the host, or managed by the driver.
//!
//! Guarantees: taken once, given back when dropped. An owner drops it only when nothing uses it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::device::Device;
use super::error::CudaError;
use super::symbols::{Address, Handle};

/// Managed memory is visible to every stream.
const ATTACH_GLOBAL: u32 = 1;

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The device's.
    Plain,
    /// The host's, which copies reach without a detour.
    Pinned,
    /// Wherever the driver puts it.
    Managed,
}

/// A range of memory that is owned.
#[derive(Debug)]
pub(crate) struct Memory {
    device: Device,
    kind: Kind,
    /// Of the device, or of the host where it is pinned.
    address: Address,
    bytes: usize,
}

impl Memory {
    /// Takes `bytes` bytes, at least one.
    pub(crate) fn new(device: &Device, kind: Kind, bytes: usize) -> Result<Self, CudaError> {
        let calls = device.calls()?;
        let mut address: Address = 0;
        match kind {
            // SAFETY: the target is a local; `drop` gives back what is taken here.
            Kind::Plain => unsafe { calls.memory_allocate(&raw mut address, bytes) }?,
            Kind::Managed => {
                // SAFETY: as above.
                unsafe { calls.managed_allocate(&raw mut address, bytes, ATTACH_GLOBAL) }?;
            }
            Kind::Pinned => {
                let mut pointer: *mut c_void = ptr::null_mut();
                // SAFETY: as above.
                unsafe { calls.host_allocate(&raw mut pointer, bytes, 0) }?;
                address = pointer.expose_provenance() as Address;
            }
        }
        Ok(Self {
            device: device.clone(),
            kind,
            address,
            bytes,
        })
    }

    /// The address of byte `offset`, with `bytes` bytes after it.
    ///
    /// # Panics
    /// If they leave the range: offsets come from a verified plan.
    pub(crate) fn at(&self, offset: u64, bytes: usize) -> Address {
        let end = offset.checked_add(bytes as u64);
        assert!(
            end.is_some_and(|end| end <= self.bytes as u64),
            "bytes {offset}+{bytes} lie in memory of {}",
            self.bytes
        );
        self.address + offset
    }

    /// A host pointer into pinned memory.
    ///
    /// # Panics
    /// If it is not pinned, or the range leaves it.
    pub(crate) fn host(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        assert_eq!(self.kind, Kind::Pinned, "only pinned memory is the host's");
        pointer(self.at(offset, bytes))
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An address as the tables of a program hold it. Only where it is the host's may it be followed.
pub(crate) fn pointer(address: Address) -> NonNull<u8> {
    let address = crate::scale::to_usize(address);
    NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("memory is not at address 0")
}

impl Drop for Memory {
    fn drop(&mut self) {
        let calls = self.device.last_calls();
        let freed = match self.kind {
            Kind::Pinned => {
                let pointer = self.host(0, 0).as_ptr().cast();
                // SAFETY: it was taken by `new`, and its owner uses it no more.
                unsafe { calls.host_free(pointer) }
            }
            // SAFETY: as above.
            Kind::Plain | Kind::Managed => unsafe { calls.memory_free(self.address) },
        };
        if let Err(error) = freed {
            tracing::warn!(%error, kind = ?self.kind, "memory was not given back");
        }
    }
}

/// Copies within the order of a stream.
impl Device {
    /// Host memory to the device.
    ///
    /// # Safety
    /// Both ranges are alive until the stream has come there, the host's is pinned, and nobody else
    /// writes them or reads the target meanwhile.
    #[inline]
    pub(crate) unsafe fn copy_in(
        &self,
        to: Address,
        from: NonNull<u8>,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), CudaError> {
        let symbols = self.driver().symbols();
        // SAFETY: the caller's promise is passed on.
        unsafe { symbols.copy_in_async(to, from.as_ptr().cast(), bytes, stream) }
    }

    /// The device to host memory.
    ///
    /// # Safety
    /// As [`Self::copy_in`].
    #[inline]
    pub(crate) unsafe fn copy_out(
        &self,
        to: NonNull<u8>,
        from: Address,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), CudaError> {
        let symbols = self.driver().symbols();
        // SAFETY: the caller's promise is passed on.
        unsafe { symbols.copy_out_async(to.as_ptr().cast(), from, bytes, stream) }
    }

    /// Reads the device's memory while nothing runs.
    ///
    /// # Safety
    /// The range is alive, and nobody writes it.
    pub(crate) unsafe fn load(&self, from: Address, to: &mut [u8]) -> Result<(), CudaError> {
        // SAFETY: the caller vouches for the source; the target is borrowed.
        unsafe {
            self.calls()?
                .copy_out(to.as_mut_ptr().cast(), from, to.len())
        }
    }

    /// Writes the device's memory while nothing runs.
    ///
    /// # Safety
    /// The range is alive, and nobody uses it.
    pub(crate) unsafe fn store(&self, to: Address, from: &[u8]) -> Result<(), CudaError> {
        let calls = self.calls()?;
        // SAFETY: the caller vouches for the target; the source is borrowed.
        unsafe { calls.copy_in(to, from.as_ptr().cast(), from.len()) }?;
        // From memory that is not pinned it returns once the source was read, before the target is
        // written, on the default stream, for which the streams of a program do not wait.
        // SAFETY: null is the default stream.
        unsafe { calls.stream_synchronize(std::ptr::null_mut()) }
    }
}
