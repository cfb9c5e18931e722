//! Contents of tensors: what of them can be used.

use core::mem::size_of;

use jetson_runtime::{Loss, LostRange, Runtime, RuntimeError, Tensor};

use crate::arguments::not_null;
use crate::extensible::{self, Extensible};
use crate::guard::{failure, guard_status};
use crate::handle::{self, VtRuntime};
use crate::refusal::refusal;
use crate::status::{Status, VT_ERROR_BUFFER};
use crate::tensor::VtTensor;

/// They hold what was written last.
pub const VT_CONTENT_INTACT: u32 = 0;
/// They are gone.
pub const VT_CONTENT_LOST: u32 = 1;
/// An op that was given up was writing them.
pub const VT_CONTENT_TORN: u32 = 2;

/// `vt_tensor_state`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtTensorState {
    /// Bytes of this struct.
    pub size: usize,
    /// `VT_CONTENT_*`.
    pub content: u32,
    /// Whether the iteration that runs, or was given up last, has written it.
    pub written: u32,
    /// Bytes that are lost or torn.
    pub lost_bytes: u64,
    /// Ranges that they are in.
    pub lost_ranges: u64,
}

// SAFETY: `repr(C)`, the size first; numbers.
unsafe impl Extensible for VtTensorState {
    const NAME: &'static str = "vt_tensor_state";
    const FIRST_SIZE: usize = 16;
}

/// `vt_lost_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtLostRange {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// `VT_CONTENT_*`.
    pub content: u32,
    /// 0.
    pub reserved: u32,
}

impl VtLostRange {
    const fn new(range: &LostRange) -> Self {
        Self {
            offset: range.offset,
            bytes: range.bytes.0,
            content: content(range.loss),
            reserved: 0,
        }
    }
}

const fn content(loss: Loss) -> u32 {
    match loss {
        Loss::Torn => VT_CONTENT_TORN,
        // What is not known to be intact is not to be used.
        _ => VT_CONTENT_LOST,
    }
}

/// What a runtime says of a tensor.
fn asked<T>(
    runtime: *const VtRuntime,
    tensor: VtTensor,
    call: &'static str,
    ask: impl FnOnce(&mut Runtime, Tensor) -> Result<T, RuntimeError>,
) -> Result<T, Status> {
    handle::with(runtime, call, |held| {
        ask(&mut held.runtime, Tensor::from_bits(tensor)).map_err(refusal(call))
    })
}

/// Tells whether a tensor's content can be used.
///
/// # Safety
/// `out` is NULL or as large as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_tensor_status(
    runtime: *const VtRuntime,
    tensor: VtTensor,
    out: *mut VtTensorState,
) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        unsafe { extensible::size(out, "vt_tensor_status: out") }?;
        let call = "vt_tensor_status";
        let (lost, written) = asked(runtime, tensor, call, |runtime, tensor| {
            Ok((runtime.lost(tensor)?, runtime.written(tensor)?))
        })?;
        let worst = lost.iter().map(|range| content(range.loss)).min();
        let state = VtTensorState {
            size: size_of::<VtTensorState>(),
            content: worst.unwrap_or(VT_CONTENT_INTACT),
            written: written.into(),
            lost_bytes: lost.iter().map(|range| range.bytes.0).sum(),
            lost_ranges: lost.len() as u64,
        };
        // SAFETY: handed on from this function's caller.
        unsafe { extensible::write(out, &state, "vt_tensor_status: out") }
    })
}

/// Tells which bytes of a tensor are lost or torn.
///
/// # Safety
/// `count` is NULL or may be read and written; `ranges` is NULL or has room for as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_tensor_lost(
    runtime: *const VtRuntime,
    tensor: VtTensor,
    ranges: *mut VtLostRange,
    count: *mut usize,
) -> Status {
    guard_status(|| {
        not_null(count, "vt_tensor_lost: count")?;
        if !ranges.is_null() {
            not_null(ranges, "vt_tensor_lost: ranges")?;
        }
        let lost = asked(runtime, tensor, "vt_tensor_lost", Runtime::lost)?;
        // SAFETY: not NULL, checked above; the caller lets it be read.
        let room = unsafe { count.read() };
        // SAFETY: as above, and written.
        unsafe { count.write(lost.len()) };
        if ranges.is_null() {
            return Ok(());
        }
        if room < lost.len() {
            return Err(failure(
                VT_ERROR_BUFFER,
                format_args!(
                    "vt_tensor_lost: {} ranges are lost, there is room for {room}",
                    lost.len()
                ),
            ));
        }
        for (at, range) in lost.iter().enumerate() {
            let to = ranges.wrapping_add(at);
            // SAFETY: the caller has room for `room` ranges, which are enough.
            unsafe { to.write(VtLostRange::new(range)) };
        }
        Ok(())
    })
}
