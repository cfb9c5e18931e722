//! The driver API as a program uses it: functions found in the library by name.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use cuda_model::Control;
use libloading::Library;

/// The PTX that the tests load: no code, since the model runs none.
const PTX: &str = ".version 6.0\n.target sm_50\n.address_size 64\n\
    .visible .entry vt_fill(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, \
    .param .u64 e)\n{ ret; }\n\
    .visible .entry vt_check(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, \
    .param .u64 e, .param .u64 f)\n{ ret; }\n\
    .visible .entry vt_spin(.param .u64 a)\n{ ret; }\n";

/// A `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location(pub(crate) c_int, pub(crate) c_int);

/// A `CUmemAllocationProp`.
#[repr(C)]
struct Property {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    meta: *mut c_void,
    flags: [u8; 8],
}

const DEVICE: Location = Location(1, 0);
const PROPERTY: Property = Property {
    kind: 1,
    handle_types: 0,
    location: DEVICE,
    meta: ptr::null_mut(),
    flags: [0; 8],
};

/// A `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: c_int,
}

/// A failed call's status.
pub(crate) type Answer<T> = Result<T, i32>;

/// A driver, loaded from a model of its own.
pub(crate) struct Api {
    pub(crate) control: Control,
    library: Library,
}

macro_rules! call {
    ($api:expr, $name:literal ($($value:expr => $type:ty),*)) => {{
        let name = concat!($name, "\0").as_bytes();
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        // SAFETY: the types are those of the public header.
        let function = *unsafe { $api.library.get::<Function>(name) }.expect($name);
        // SAFETY: outputs are locals; the rest is what the test is about.
        match unsafe { function($($value),*) } {
            0 => Ok(()),
            code => Err(code),
        }
    }};
}

impl Api {
    /// A driver of this profile, not initialised.
    pub(crate) fn bare(profile: &str) -> Self {
        Self::of(Control::new(profile).unwrap())
    }

    pub(crate) fn of(control: Control) -> Self {
        // SAFETY: the model may be loaded at any time.
        let library = unsafe { Library::new(control.path()) }.unwrap();
        Self { control, library }
    }

    /// A driver of this profile, with a context for this thread.
    pub(crate) fn new(profile: &str) -> Self {
        let api = Self::bare(profile);
        api.init().unwrap();
        let context = api.retain().unwrap();
        api.set_current(context).unwrap();
        api
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        let name = CString::new(name).unwrap();
        type Function = unsafe extern "C" fn() -> c_int;
        // SAFETY: it is not called.
        unsafe { self.library.get::<Function>(name.to_bytes_with_nul()) }.is_ok()
    }

    /// Ends the context, and checks that all was well: no report, no leak.
    pub(crate) fn end_clean(&self) {
        self.release().unwrap();
        assert_eq!(self.control.reports(), [""; 0]);
        assert_eq!(self.control.leaks(), [""; 0]);
    }

    /// The names of the rules that were reported, each once, in order.
    pub(crate) fn rules(&self) -> Vec<String> {
        let mut rules: Vec<String> = Vec::new();
        for report in self.control.reports() {
            let rule = report.split(':').next().unwrap().to_owned();
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules
    }

    pub(crate) fn init(&self) -> Answer<()> {
        call!(self, "cuInit"(0 => c_uint))
    }

    pub(crate) fn version(&self) -> Answer<i32> {
        let mut version = 0;
        call!(self, "cuDriverGetVersion"(&raw mut version => *mut c_int)).map(|()| version)
    }

    pub(crate) fn name(&self) -> Answer<String> {
        let mut name = [0x7f_u8; 64];
        let to = name.as_mut_ptr().cast::<c_char>();
        call!(self, "cuDeviceGetName"(to => *mut c_char, 64 => c_int, 0 => c_int))?;
        let name = CStr::from_bytes_until_nul(&name).unwrap();
        Ok(name.to_str().unwrap().to_owned())
    }

    pub(crate) fn attribute(&self, number: i32) -> Answer<i32> {
        let mut value = -1;
        call!(self, "cuDeviceGetAttribute"(
            &raw mut value => *mut c_int, number => c_int, 0 => c_int))
        .map(|()| value)
    }

    pub(crate) fn retain(&self) -> Answer<usize> {
        let mut context = 0;
        call!(self, "cuDevicePrimaryCtxRetain"(&raw mut context => *mut usize, 0 => c_int))
            .map(|()| context)
    }

    pub(crate) fn release(&self) -> Answer<()> {
        call!(self, "cuDevicePrimaryCtxRelease_v2"(0 => c_int))
    }

    pub(crate) fn set_current(&self, context: usize) -> Answer<()> {
        call!(self, "cuCtxSetCurrent"(context => usize))
    }

    pub(crate) fn synchronize(&self) -> Answer<()> {
        call!(self, "cuCtxSynchronize"())
    }

    pub(crate) fn memory_info(&self) -> Answer<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        call!(self, "cuMemGetInfo_v2"(&raw mut free => *mut usize, &raw mut total => *mut usize))
            .map(|()| (free, total))
    }

    pub(crate) fn alloc(&self, bytes: usize) -> Answer<u64> {
        let mut address = 0;
        call!(self, "cuMemAlloc_v2"(&raw mut address => *mut u64, bytes => usize)).map(|()| address)
    }

    pub(crate) fn free(&self, address: u64) -> Answer<()> {
        call!(self, "cuMemFree_v2"(address => u64))
    }

    pub(crate) fn alloc_managed(&self, bytes: usize) -> Answer<u64> {
        let mut address = 0;
        call!(self, "cuMemAllocManaged"(
            &raw mut address => *mut u64, bytes => usize, 1 => c_uint))
        .map(|()| address)
    }

    pub(crate) fn alloc_host(&self, bytes: usize) -> Answer<*mut u8> {
        let mut pointer = ptr::null_mut();
        call!(self, "cuMemHostAlloc"(
            &raw mut pointer => *mut *mut c_void, bytes => usize, 0 => c_uint))
        .map(|()| pointer.cast())
    }

    pub(crate) fn free_host(&self, pointer: *mut u8) -> Answer<()> {
        call!(self, "cuMemFreeHost"(pointer.cast() => *mut c_void))
    }

    pub(crate) fn register(&self, pointer: *mut u8, bytes: usize) -> Answer<()> {
        call!(self, "cuMemHostRegister_v2"(
            pointer.cast() => *mut c_void, bytes => usize, 0 => c_uint))
    }

    pub(crate) fn unregister(&self, pointer: *mut u8) -> Answer<()> {
        call!(self, "cuMemHostUnregister"(pointer.cast() => *mut c_void))
    }

    pub(crate) fn device_pointer(&self, pointer: *mut u8) -> Answer<u64> {
        let mut address = 0;
        call!(self, "cuMemHostGetDevicePointer_v2"(
            &raw mut address => *mut u64, pointer.cast() => *mut c_void, 0 => c_uint))
        .map(|()| address)
    }

    pub(crate) fn upload(&self, to: u64, from: *const u8, bytes: usize, s: usize) -> Answer<()> {
        call!(self, "cuMemcpyHtoDAsync_v2"(
            to => u64, from.cast() => *const c_void, bytes => usize, s => usize))
    }

    pub(crate) fn download(&self, to: *mut u8, from: u64, bytes: usize, s: usize) -> Answer<()> {
        call!(self, "cuMemcpyDtoHAsync_v2"(
            to.cast() => *mut c_void, from => u64, bytes => usize, s => usize))
    }

    pub(crate) fn upload_now(&self, to: u64, from: *const u8, bytes: usize) -> Answer<()> {
        call!(self, "cuMemcpyHtoD_v2"(
            to => u64, from.cast() => *const c_void, bytes => usize))
    }

    pub(crate) fn download_now(&self, to: *mut u8, from: u64, bytes: usize) -> Answer<()> {
        call!(self, "cuMemcpyDtoH_v2"(
            to.cast() => *mut c_void, from => u64, bytes => usize))
    }

    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize, stream: usize) -> Answer<()> {
        call!(self, "cuMemcpyDtoDAsync_v2"(
            to => u64, from => u64, bytes => usize, stream => usize))
    }

    pub(crate) fn set(&self, to: u64, value: u8, bytes: usize, stream: usize) -> Answer<()> {
        call!(self, "cuMemsetD8Async"(to => u64, value => u8, bytes => usize, stream => usize))
    }

    pub(crate) fn prefetch(&self, at: u64, bytes: usize, to: Location, s: usize) -> Answer<()> {
        call!(self, "cuMemPrefetchAsync_v2"(
            at => u64, bytes => usize, to => Location, 0 => c_uint, s => usize))
    }

    pub(crate) fn prefetch_to(&self, at: u64, bytes: usize, device: i32) -> Answer<()> {
        call!(self, "cuMemPrefetchAsync"(
            at => u64, bytes => usize, device => c_int, 0 => usize))
    }

    pub(crate) fn discard(&self, at: u64, bytes: usize, stream: usize) -> Answer<()> {
        call!(self, "cuMemDiscardBatchAsync"(
            &raw const at => *const u64, &raw const bytes => *const usize, 1 => usize, 0 => u64,
            stream => usize))
    }

    pub(crate) fn stream(&self) -> Answer<usize> {
        self.stream_of(1)
    }

    pub(crate) fn stream_of(&self, flags: u32) -> Answer<usize> {
        let mut stream = 0;
        call!(self, "cuStreamCreateWithPriority"(
            &raw mut stream => *mut usize, flags => c_uint, 0 => c_int))
        .map(|()| stream)
    }

    pub(crate) fn destroy_stream(&self, stream: usize) -> Answer<()> {
        call!(self, "cuStreamDestroy_v2"(stream => usize))
    }

    pub(crate) fn sync_stream(&self, stream: usize) -> Answer<()> {
        call!(self, "cuStreamSynchronize"(stream => usize))
    }

    pub(crate) fn query_stream(&self, stream: usize) -> Answer<()> {
        call!(self, "cuStreamQuery"(stream => usize))
    }

    pub(crate) fn wait(&self, stream: usize, event: usize) -> Answer<()> {
        call!(self, "cuStreamWaitEvent"(stream => usize, event => usize, 0 => c_uint))
    }

    pub(crate) fn event(&self) -> Answer<usize> {
        let mut event = 0;
        call!(self, "cuEventCreate"(&raw mut event => *mut usize, 0 => c_uint)).map(|()| event)
    }

    pub(crate) fn destroy_event(&self, event: usize) -> Answer<()> {
        call!(self, "cuEventDestroy_v2"(event => usize))
    }

    pub(crate) fn record(&self, event: usize, stream: usize) -> Answer<()> {
        call!(self, "cuEventRecord"(event => usize, stream => usize))
    }

    pub(crate) fn query(&self, event: usize) -> Answer<()> {
        call!(self, "cuEventQuery"(event => usize))
    }

    pub(crate) fn sync_event(&self, event: usize) -> Answer<()> {
        call!(self, "cuEventSynchronize"(event => usize))
    }

    pub(crate) fn elapsed(&self, start: usize, end: usize) -> Answer<f32> {
        let mut ms = 0.0;
        call!(self, "cuEventElapsedTime"(
            &raw mut ms => *mut f32, start => usize, end => usize))
        .map(|()| ms)
    }

    pub(crate) fn granularity(&self) -> Answer<usize> {
        let mut bytes = 0;
        call!(self, "cuMemGetAllocationGranularity"(
            &raw mut bytes => *mut usize, ptr::from_ref(&PROPERTY) => *const Property, 0 => c_uint))
        .map(|()| bytes)
    }

    pub(crate) fn reserve(&self, bytes: usize) -> Answer<u64> {
        let mut address = 0;
        call!(self, "cuMemAddressReserve"(
            &raw mut address => *mut u64, bytes => usize, 0 => usize, 0 => u64, 0 => u64))
        .map(|()| address)
    }

    pub(crate) fn unreserve(&self, address: u64, bytes: usize) -> Answer<()> {
        call!(self, "cuMemAddressFree"(address => u64, bytes => usize))
    }

    pub(crate) fn create(&self, bytes: usize) -> Answer<u64> {
        let mut handle = 0;
        call!(self, "cuMemCreate"(
            &raw mut handle => *mut u64, bytes => usize,
            ptr::from_ref(&PROPERTY) => *const Property,
            0 => u64))
        .map(|()| handle)
    }

    pub(crate) fn release_page(&self, handle: u64) -> Answer<()> {
        call!(self, "cuMemRelease"(handle => u64))
    }

    pub(crate) fn map(&self, address: u64, bytes: usize, handle: u64) -> Answer<()> {
        call!(self, "cuMemMap"(
            address => u64, bytes => usize, 0 => usize, handle => u64, 0 => u64))
    }

    pub(crate) fn unmap(&self, address: u64, bytes: usize) -> Answer<()> {
        call!(self, "cuMemUnmap"(address => u64, bytes => usize))
    }

    pub(crate) fn allow(&self, address: u64, bytes: usize, flags: i32) -> Answer<()> {
        let access = Access {
            location: DEVICE,
            flags,
        };
        call!(self, "cuMemSetAccess"(
            address => u64, bytes => usize, &raw const access => *const Access, 1 => usize))
    }

    /// The functions of a module: fill, check, spin.
    pub(crate) fn kernels(&self) -> (usize, [usize; 3]) {
        let module = self.load(PTX).unwrap();
        let names = ["vt_fill", "vt_check", "vt_spin"];
        (
            module,
            names.map(|name| self.function(module, name).unwrap()),
        )
    }

    pub(crate) fn load(&self, ptx: &str) -> Answer<usize> {
        let text = CString::new(ptx).unwrap();
        let mut module = 0;
        call!(self, "cuModuleLoadData"(
            &raw mut module => *mut usize, text.as_ptr().cast() => *const c_void))
        .map(|()| module)
    }

    pub(crate) fn unload(&self, module: usize) -> Answer<()> {
        call!(self, "cuModuleUnload"(module => usize))
    }

    pub(crate) fn function(&self, module: usize, name: &str) -> Answer<usize> {
        let name = CString::new(name).unwrap();
        let mut function = 0;
        call!(self, "cuModuleGetFunction"(
            &raw mut function => *mut usize, module => usize, name.as_ptr() => *const c_char))
        .map(|()| function)
    }

    pub(crate) fn launch(&self, function: usize, stream: usize, values: &[u64]) -> Answer<()> {
        let places: Vec<*const u64> = values.iter().map(ptr::from_ref).collect();
        call!(self, "cuLaunchKernel"(
            function => usize, 1 => c_uint, 1 => c_uint, 1 => c_uint, 32 => c_uint, 1 => c_uint,
            1 => c_uint, 0 => c_uint, stream => usize, places.as_ptr() => *const *const u64,
            ptr::null() => *const *const c_void))
    }
}
