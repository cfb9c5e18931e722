//! The functions of the driver that the backend uses, under the names that drivers export.
//!
//! In: a library. Out: a typed pointer for each function, or nothing where the library has none.
//! Names that end in a version come first: the same function has had several forms, and a header
//! does not say which of them a driver has. All answer an integer, never an enum.
//!
//! The types are those of the documentation: handles are opaque pointers, an address on the device
//! is 64 bits.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{CUmemAccessDesc, CUmemAllocationProp, CUmemLocation};
use libloading::Library;

use super::error::CudaError;
use super::status::Status;

/// A context, stream, event, module, function.
pub(crate) type Handle = *mut c_void;
/// An address on the device.
pub(crate) type Address = u64;

/// A function that the driver may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol<F> {
    function: Option<F>,
}

impl<F: Copy> Symbol<F> {
    /// Looks the names up, in order.
    ///
    /// # Safety
    /// Each name, where the library has it, is a function of type `F`.
    unsafe fn resolve(library: &Library, names: &[&CStr]) -> Self {
        let found = names.iter().find_map(|name| {
            // SAFETY: the caller vouches for the type.
            unsafe { library.get::<F>(name.to_bytes_with_nul()) }.ok()
        });
        Self {
            function: found.map(|symbol| *symbol),
        }
    }

    pub(crate) const fn is_there(&self) -> bool {
        self.function.is_some()
    }
}

/// A status as a result.
const fn checked(call: &'static str, status: i32) -> Result<(), CudaError> {
    match Status(status) {
        Status::SUCCESS => Ok(()),
        status => Err(CudaError::Call { call, status }),
    }
}

macro_rules! symbols {
    ($($field:ident [$first:literal $(, $other:literal)*]
        ($($argument:ident: $type:ty),* $(,)?);)+) => {
        /// All functions.
        #[derive(Debug)]
        pub(crate) struct Symbols {
            $(pub(crate) $field: Symbol<unsafe extern "C" fn($($type),*) -> c_int>,)+
        }

        impl Symbols {
            /// Looks all functions up.
            ///
            /// # Safety
            /// The library is a CUDA driver, or has its functions by the same names and types.
            pub(crate) unsafe fn resolve(library: &Library) -> Self {
                Self {
                    // SAFETY: the caller vouches for the library, the documentation for the types.
                    $($field: unsafe { Symbol::resolve(library, &[$first $(, $other)*]) },)+
                }
            }

            $(
                /// # Safety
                /// What the driver's documentation asks of the arguments.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "the driver's own")]
                pub(crate) unsafe fn $field(&self, $($argument: $type),*)
                    -> Result<(), CudaError>
                {
                    const NAME: &str = match $first.to_str() {
                        Ok(name) => name,
                        Err(_) => panic!("names of functions are ASCII"),
                    };
                    let function = self.$field.function;
                    let function = function.ok_or(CudaError::Missing { symbol: NAME })?;
                    // SAFETY: the caller's promise is passed on.
                    checked(NAME, unsafe { function($($argument),*) })
                }
            )+

            /// Whether the driver has each function, by name.
            pub(crate) fn all(&self) -> Vec<(&'static CStr, bool)> {
                vec![$(($first, self.$field.is_there())),+]
            }
        }
    };
}

symbols! {
    init [c"cuInit"] (flags: c_uint);
    driver_version [c"cuDriverGetVersion"] (version: *mut c_int);
    device_count [c"cuDeviceGetCount"] (count: *mut c_int);
    device_get [c"cuDeviceGet"] (device: *mut c_int, ordinal: c_int);
    device_name [c"cuDeviceGetName"] (name: *mut c_char, bytes: c_int, device: c_int);
    device_uuid [c"cuDeviceGetUuid_v2", c"cuDeviceGetUuid"] (uuid: *mut [u8; 16], device: c_int);
    device_attribute [c"cuDeviceGetAttribute"]
        (value: *mut c_int, attribute: c_int, device: c_int);
    device_total_memory [c"cuDeviceTotalMem_v2"] (bytes: *mut usize, device: c_int);
    primary_retain [c"cuDevicePrimaryCtxRetain"] (context: *mut Handle, device: c_int);
    primary_release [c"cuDevicePrimaryCtxRelease_v2", c"cuDevicePrimaryCtxRelease"]
        (device: c_int);
    context_set [c"cuCtxSetCurrent"] (context: Handle);
    context_synchronize [c"cuCtxSynchronize"] ();
    memory_info [c"cuMemGetInfo_v2"] (free: *mut usize, total: *mut usize);
    memory_allocate [c"cuMemAlloc_v2"] (address: *mut Address, bytes: usize);
    memory_free [c"cuMemFree_v2"] (address: Address);
    host_allocate [c"cuMemHostAlloc"] (pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    host_free [c"cuMemFreeHost"] (pointer: *mut c_void);
    host_register [c"cuMemHostRegister_v2", c"cuMemHostRegister"]
        (pointer: *mut c_void, bytes: usize, flags: c_uint);
    host_unregister [c"cuMemHostUnregister"] (pointer: *mut c_void);
    managed_allocate [c"cuMemAllocManaged"] (address: *mut Address, bytes: usize, flags: c_uint);
    copy_in_async [c"cuMemcpyHtoDAsync_v2"]
        (to: Address, from: *const c_void, bytes: usize, stream: Handle);
    copy_out_async [c"cuMemcpyDtoHAsync_v2"]
        (to: *mut c_void, from: Address, bytes: usize, stream: Handle);
    copy_inside_async [c"cuMemcpyDtoDAsync_v2"]
        (to: Address, from: Address, bytes: usize, stream: Handle);
    copy_in [c"cuMemcpyHtoD_v2"] (to: Address, from: *const c_void, bytes: usize);
    copy_out [c"cuMemcpyDtoH_v2"] (to: *mut c_void, from: Address, bytes: usize);
    // Two forms of one function, with different arguments: either may be there.
    prefetch_to_location [c"cuMemPrefetchAsync_v2"] (address: Address, bytes: usize,
        location: CUmemLocation, flags: c_uint, stream: Handle);
    prefetch_to_device [c"cuMemPrefetchAsync"]
        (address: Address, bytes: usize, device: c_int, stream: Handle);
    discard [c"cuMemDiscardBatchAsync"] (addresses: *const Address, bytes: *const usize,
        count: usize, flags: u64, stream: Handle);
    stream_create [c"cuStreamCreateWithPriority"]
        (stream: *mut Handle, flags: c_uint, priority: c_int);
    stream_destroy [c"cuStreamDestroy_v2"] (stream: Handle);
    stream_synchronize [c"cuStreamSynchronize"] (stream: Handle);
    stream_wait [c"cuStreamWaitEvent"] (stream: Handle, event: Handle, flags: c_uint);
    event_create [c"cuEventCreate"] (event: *mut Handle, flags: c_uint);
    event_record [c"cuEventRecord"] (event: Handle, stream: Handle);
    event_query [c"cuEventQuery"] (event: Handle);
    event_synchronize [c"cuEventSynchronize"] (event: Handle);
    event_elapsed [c"cuEventElapsedTime_v2", c"cuEventElapsedTime"]
        (milliseconds: *mut f32, start: Handle, end: Handle);
    event_destroy [c"cuEventDestroy_v2"] (event: Handle);
    granularity [c"cuMemGetAllocationGranularity"]
        (bytes: *mut usize, properties: *const CUmemAllocationProp, option: c_uint);
    address_reserve [c"cuMemAddressReserve"] (address: *mut Address, bytes: usize,
        alignment: usize, wanted: Address, flags: u64);
    address_free [c"cuMemAddressFree"] (address: Address, bytes: usize);
    page_create [c"cuMemCreate"]
        (page: *mut u64, bytes: usize, properties: *const CUmemAllocationProp, flags: u64);
    page_release [c"cuMemRelease"] (page: u64);
    page_map [c"cuMemMap"]
        (address: Address, bytes: usize, offset: usize, page: u64, flags: u64);
    page_unmap [c"cuMemUnmap"] (address: Address, bytes: usize);
    set_access [c"cuMemSetAccess"]
        (address: Address, bytes: usize, access: *const CUmemAccessDesc, count: usize);
    module_load [c"cuModuleLoadData"] (module: *mut Handle, image: *const c_void);
    module_unload [c"cuModuleUnload"] (module: Handle);
    module_function [c"cuModuleGetFunction"]
        (function: *mut Handle, module: Handle, name: *const c_char);
    launch [c"cuLaunchKernel"] (function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: Handle,
        arguments: *mut *mut c_void, extra: *mut *mut c_void);
}
