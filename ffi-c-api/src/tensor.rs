//! Tensors: created, read, written, destroyed.

use core::ffi::{c_char, c_void};
use core::slice;

use jetson_runtime::{Tensor, TensorDesc};
use vtensor::{Bytes, TensorKind, limits};

use crate::arguments::{invalid, not_null, text_or_empty};
use crate::extensible::{self, Extensible};
use crate::guard::guard_status;
use crate::handle::{self, VtRuntime};
use crate::refusal::refusal;
use crate::status::Status;

/// `vt_tensor`: a handle, a plain number.
pub type VtTensor = u64;

/// What each kind is called in C: `VT_KIND_*`, by number.
pub const KINDS: [(&str, u32, TensorKind); 7] = [
    ("VT_KIND_PARAMETER", 1, TensorKind::Parameter),
    ("VT_KIND_GRADIENT", 2, TensorKind::Gradient),
    ("VT_KIND_OPTIMIZER", 3, TensorKind::Optimizer),
    ("VT_KIND_BUFFER", 4, TensorKind::Buffer),
    ("VT_KIND_ACTIVATION", 5, TensorKind::Activation),
    ("VT_KIND_INPUT", 6, TensorKind::Input),
    ("VT_KIND_WORKSPACE", 7, TensorKind::Workspace),
];

/// The address never changes.
pub const VT_TENSOR_FIXED_ADDRESS: u32 = 1;
/// The content may be forgotten between iterations.
pub const VT_TENSOR_SCRATCH: u32 = 2;

/// `vt_tensor_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtTensorDesc {
    /// Bytes of this struct.
    pub size: usize,
    /// Bytes of the tensor; not 0.
    pub bytes: u64,
    /// `VT_KIND_*`.
    pub kind: u32,
    /// `VT_TENSOR_*`, or 0.
    pub flags: u32,
    /// For reports, and part of what a program knows the tensor by; NULL: empty.
    pub name: *const c_char,
}

// SAFETY: `repr(C)`, the size first; numbers and a raw pointer.
unsafe impl Extensible for VtTensorDesc {
    const NAME: &'static str = "vt_tensor_desc";
    const FIRST_SIZE: usize = 32;
}

impl VtTensorDesc {
    /// What it means to the runtime.
    ///
    /// # Safety
    /// `name` is NULL or a C string that outlives `'a`.
    pub(crate) unsafe fn read<'a>(&self, call: &str) -> Result<TensorDesc<'a>, Status> {
        let kind = KINDS.iter().find(|(_, number, _)| *number == self.kind);
        let Some(&(_, _, kind)) = kind else {
            return Err(invalid(format_args!(
                "{call}->kind is {}, which is none of VT_KIND_*",
                self.kind
            )));
        };
        let unknown = self.flags & !(VT_TENSOR_SCRATCH | VT_TENSOR_FIXED_ADDRESS);
        if unknown != 0 {
            return Err(invalid(format_args!(
                "{call}->flags has unknown bits, {unknown:#x}"
            )));
        }
        // SAFETY: handed on from this function's caller.
        let name = unsafe { text_or_empty(self.name, "vt_tensor_desc: name") }?;
        Ok(TensorDesc {
            scratch: self.flags & VT_TENSOR_SCRATCH != 0,
            fixed: self.flags & VT_TENSOR_FIXED_ADDRESS != 0,
            ..TensorDesc::new(name, Bytes(self.bytes), kind)
        })
    }
}

/// Creates a tensor.
///
/// # Safety
/// `desc` is NULL or as large as it says, its name NULL or a C string; `out` is NULL or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_tensor_create(
    runtime: *mut VtRuntime,
    desc: *const VtTensorDesc,
    out: *mut VtTensor,
) -> Status {
    guard_status(|| {
        not_null(out, "vt_tensor_create: out")?;
        // SAFETY: handed on from this function's caller.
        let desc = unsafe { extensible::read(desc, "vt_tensor_create: desc") }?;
        // SAFETY: handed on from this function's caller.
        let desc = unsafe { desc.read("vt_tensor_create: desc") }?;
        let tensor = handle::with(runtime, "vt_tensor_create", |held| {
            held.runtime
                .create(&desc)
                .map_err(refusal("vt_tensor_create"))
        })?;
        // SAFETY: not NULL, checked above; the caller hands a pointer that may be written.
        unsafe { out.write(tensor.to_bits()) };
        Ok(())
    })
}

/// Destroys a tensor.
#[unsafe(no_mangle)]
pub extern "C" fn vt_tensor_destroy(runtime: *mut VtRuntime, tensor: VtTensor) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_tensor_destroy", |held| {
            let tensor = Tensor::from_bits(tensor);
            held.runtime
                .destroy(tensor)
                .map_err(refusal("vt_tensor_destroy"))
        })
    })
}

/// Keeps a tensor resident, at one address.
///
/// # Safety
/// `pointer_out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_tensor_pin(
    runtime: *mut VtRuntime,
    tensor: VtTensor,
    pointer_out: *mut *mut c_void,
) -> Status {
    guard_status(|| {
        not_null(pointer_out, "vt_tensor_pin: pointer_out")?;
        let pointer = handle::with(runtime, "vt_tensor_pin", |held| {
            let pointer = held.runtime.pin(Tensor::from_bits(tensor));
            pointer.map_err(refusal("vt_tensor_pin"))
        })?;
        // SAFETY: not NULL, checked above; the caller hands a pointer that may be written.
        unsafe { pointer_out.write(pointer.as_ptr().cast()) };
        Ok(())
    })
}

/// Lets a pinned tensor move again.
#[unsafe(no_mangle)]
pub extern "C" fn vt_tensor_unpin(runtime: *mut VtRuntime, tensor: VtTensor) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_tensor_unpin", |held| {
            let unpinned = held.runtime.unpin(Tensor::from_bits(tensor));
            unpinned.map_err(refusal("vt_tensor_unpin"))
        })
    })
}

/// Checks a range of the caller's memory; answers its length.
fn range(data: *const c_void, bytes: u64, what: &str) -> Result<usize, Status> {
    if bytes != 0 {
        not_null(data.cast::<u8>(), what)?;
    }
    match usize::try_from(bytes) {
        Ok(length) if bytes <= limits::TENSOR_BYTES_MAX => Ok(length),
        _ => Err(invalid(format_args!(
            "{what} of {bytes} bytes: no tensor is as large"
        ))),
    }
}

/// Copies from `data` to bytes `offset ..` of a tensor.
///
/// # Safety
/// `data` is NULL or points to `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_tensor_write(
    runtime: *mut VtRuntime,
    tensor: VtTensor,
    offset: u64,
    data: *const c_void,
    bytes: u64,
) -> Status {
    guard_status(|| {
        let length = range(data, bytes, "vt_tensor_write: data")?;
        let from: &[u8] = match length {
            0 => &[],
            // SAFETY: not NULL, and no longer than memory can be; the caller promises the bytes.
            _ => unsafe { slice::from_raw_parts(data.cast(), length) },
        };
        handle::with(runtime, "vt_tensor_write", |held| {
            let tensor = Tensor::from_bits(tensor);
            held.runtime
                .write(tensor, offset, from)
                .map_err(refusal("vt_tensor_write"))
        })
    })
}

/// Copies bytes `offset ..` of a tensor to `data`.
///
/// # Safety
/// `data` is NULL or points to `bytes` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_tensor_read(
    runtime: *mut VtRuntime,
    tensor: VtTensor,
    offset: u64,
    data: *mut c_void,
    bytes: u64,
) -> Status {
    guard_status(|| {
        let length = range(data, bytes, "vt_tensor_read: data")?;
        let to: &mut [u8] = match length {
            0 => &mut [],
            // SAFETY: not NULL, and no longer than memory can be; the caller promises the bytes.
            _ => unsafe { slice::from_raw_parts_mut(data.cast(), length) },
        };
        handle::with(runtime, "vt_tensor_read", |held| {
            let tensor = Tensor::from_bits(tensor);
            held.runtime
                .read(tensor, offset, to)
                .map_err(refusal("vt_tensor_read"))
        })
    })
}
