//! The kernels of a replay: write a content, check a content, take some time.
//!
//! In: PTX that is checked in beside its source (`kernels/`), compiled by the driver for whatever
//! device there is. Out: launches on a stream. What they do is written in `vt_kernels.cu`.

use std::ffi::{CStr, c_void};
use std::ptr;

use super::device::Device;
use super::error::CudaError;
use super::symbols::Handle;

const PTX: &str = concat!(include_str!("../../kernels/vt_kernels.ptx"), "\0");
const THREADS: u32 = 256;
/// Each thread goes on with later words, so more blocks than this gain nothing.
const BLOCKS_MAX: u64 = 1024;

/// A content: whose, and which version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) tensor: u32,
    /// How often it was written.
    pub(crate) version: u32,
    /// Where the range begins in the tensor.
    pub(crate) offset: u64,
}

impl Pattern {
    /// As kernels take it.
    fn words(self) -> [u64; 3] {
        [self.tensor.into(), self.version.into(), self.offset]
    }
}

/// The kernels, loaded on a device.
#[derive(Debug)]
pub struct Kernels {
    device: Device,
    module: Handle,
    fill: Handle,
    check: Handle,
    spin: Handle,
}

// SAFETY: a loaded module may be used from any thread that has its context.
unsafe impl Send for Kernels {}
// SAFETY: nothing in it changes.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Loads them.
    ///
    /// # Errors
    /// If the driver cannot compile them.
    pub fn load(device: &Device) -> Result<Self, CudaError> {
        let calls = device.calls()?;
        let mut module = ptr::null_mut();
        // SAFETY: the target is a local; the text ends with a zero.
        unsafe { calls.module_load(&raw mut module, PTX.as_ptr().cast()) }?;
        // From here on `drop` unloads it.
        let mut kernels = Self {
            device: device.clone(),
            module,
            fill: ptr::null_mut(),
            check: ptr::null_mut(),
            spin: ptr::null_mut(),
        };
        let function = |name: &CStr| {
            let mut function = ptr::null_mut();
            // SAFETY: the target is a local, the module is loaded, the name ends with a zero.
            unsafe { calls.module_function(&raw mut function, module, name.as_ptr()) }?;
            Ok(function)
        };
        kernels.fill = function(c"vt_fill")?;
        kernels.check = function(c"vt_check")?;
        kernels.spin = function(c"vt_spin")?;
        Ok(kernels)
    }

    /// Writes a content to `bytes` bytes from `address` on.
    ///
    /// # Safety
    /// The device may write the range when the stream comes to it, and nobody else uses it then.
    pub(crate) unsafe fn fill(
        &self,
        stream: *mut c_void,
        address: u64,
        bytes: u64,
        pattern: Pattern,
    ) -> Result<(), CudaError> {
        let [tensor, version, offset] = pattern.words();
        let arguments = [address, bytes, tensor, version, offset];
        // SAFETY: the caller vouches for the range; the kernel takes these arguments.
        unsafe { self.launch(self.fill, stream, blocks(bytes), THREADS, arguments) }
    }

    /// Adds how many of `bytes` bytes from `address` on are not of a content to the number at
    /// `wrong`, on the device.
    ///
    /// # Safety
    /// The device may read the range, and change the 8 bytes at `wrong`, when the stream comes to
    /// it, and nobody writes the range then.
    pub(crate) unsafe fn check(
        &self,
        stream: *mut c_void,
        address: u64,
        bytes: u64,
        pattern: Pattern,
        wrong: u64,
    ) -> Result<(), CudaError> {
        let [tensor, version, offset] = pattern.words();
        let arguments = [address, bytes, tensor, version, offset, wrong];
        // SAFETY: the caller vouches for the ranges; the kernel takes these arguments.
        unsafe { self.launch(self.check, stream, blocks(bytes), THREADS, arguments) }
    }

    /// Keeps the stream busy for a time.
    ///
    /// # Safety
    /// `stream` is a stream of this device's primary context.
    pub(super) unsafe fn spin(
        &self,
        stream: *mut c_void,
        nanoseconds: u64,
    ) -> Result<(), CudaError> {
        // SAFETY: the kernel takes this argument, and touches no memory.
        unsafe { self.launch(self.spin, stream, 1, 1, [nanoseconds]) }
    }

    /// # Safety
    /// The function takes so many arguments of 64 bits, and may do what they ask for.
    unsafe fn launch<const N: usize>(
        &self,
        function: Handle,
        stream: Handle,
        blocks: u32,
        threads: u32,
        mut arguments: [u64; N],
    ) -> Result<(), CudaError> {
        let mut pointers = arguments
            .each_mut()
            .map(|argument| ptr::from_mut(argument).cast::<c_void>());
        let (pointers, extra) = (pointers.as_mut_ptr(), ptr::null_mut());
        let calls = self.device.calls()?;
        // SAFETY: the caller vouches for function and arguments, which the driver copies.
        unsafe {
            calls.launch(
                function, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, extra,
            )
        }
    }
}

/// Blocks for so many bytes, a thread for each word up to the most that helps.
fn blocks(bytes: u64) -> u32 {
    let wanted = bytes.div_ceil(8).div_ceil(u64::from(THREADS));
    let bounded = wanted.clamp(1, BLOCKS_MAX);
    u32::try_from(bounded).expect("it is bounded")
}

impl Drop for Kernels {
    fn drop(&mut self) {
        // Launches that are under way come to their end first.
        self.device.rest();
        // SAFETY: it was loaded here, and nothing of it runs.
        let unloaded = unsafe { self.device.last_calls().module_unload(self.module) };
        if let Err(error) = unloaded {
            tracing::warn!(%error, "the kernels were not unloaded");
        }
    }
}
