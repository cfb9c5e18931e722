//! Ops: begun with the tensors that they use, ended; run again by their callbacks.
//!
//! Guarantees: in an iteration that a frozen program runs, neither call allocates, but for the
//! first time that an op of many tensors runs again.

use core::ffi::{c_char, c_void};
use core::{mem, ptr, slice};

use jetson_runtime::{Access, Op, Tensor, Token};
use lgm::trace::Phase;
use vtensor::{Mode, limits};

use crate::arguments::{invalid, not_null, text_or_empty};
use crate::extensible::{self, Extensible};
use crate::guard::{failure, guard_status};
use crate::handle::{self, VtRuntime};
use crate::refusal::refusal;
use crate::status::{Status, VT_ERROR_UNSUPPORTED, VT_OK};
use crate::tensor::VtTensor;

/// The op reads the tensor.
pub const VT_ACCESS_READ: u32 = 1;
/// The op overwrites the whole tensor; what it held is undefined.
pub const VT_ACCESS_WRITE: u32 = 2;
/// Everything else: the op changes the tensor, or writes a part of it.
pub const VT_ACCESS_READ_WRITE: u32 = 3;

/// The forward pass.
pub const VT_OP_FORWARD: u32 = 0;
/// Input data arrives.
pub const VT_OP_LOAD: u32 = 1;
/// The backward pass.
pub const VT_OP_BACKWARD: u32 = 2;
/// The optimizer, and what follows it.
pub const VT_OP_OPTIMIZER: u32 = 3;

/// `vt_replay_fn`: computes an op again.
pub type VtReplayFn = unsafe extern "C" fn(user: *mut c_void, pointers: *const *mut c_void) -> i32;

/// `vt_access`: how an op uses a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtAccess {
    /// Which.
    pub tensor: VtTensor,
    /// `VT_ACCESS_*`.
    pub mode: u32,
    /// 0.
    pub reserved: u32,
}

/// `vt_op_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtOpDesc {
    /// Bytes of this struct.
    pub size: usize,
    /// What the op is called, part of what a program knows it by; NULL: empty.
    pub name: *const c_char,
    /// The tensors that it uses; a tensor may be named twice.
    pub accesses: *const VtAccess,
    /// How many.
    pub access_count: usize,
    /// The stream of the runtime, or NULL.
    pub stream: *mut c_void,
    /// Which part of a training step it belongs to: `VT_OP_*`.
    pub phase: u32,
    /// None are known yet: 0.
    pub flags: u32,
    /// Computes the op again; NULL: it may not run again.
    pub replay: Option<VtReplayFn>,
    /// Handed to `replay`.
    pub user: *mut c_void,
}

// SAFETY: `repr(C)`, the size first; numbers, raw pointers, and a function pointer that may be
// NULL and is otherwise the caller's promise.
unsafe impl Extensible for VtOpDesc {
    const NAME: &'static str = "vt_op_desc";
    const FIRST_SIZE: usize = 64;
}

impl VtOpDesc {
    /// The accesses, as the caller has them.
    ///
    /// # Safety
    /// `accesses` is NULL or points to `access_count` of them, which outlive `'a`.
    #[inline]
    unsafe fn accesses<'a>(&self) -> Result<&'a [VtAccess], Status> {
        if self.access_count == 0 {
            return Ok(&[]);
        }
        not_null(self.accesses, "vt_op_begin: desc->accesses")?;
        if self.access_count > limits::TENSORS_MAX {
            return Err(invalid(format_args!(
                "vt_op_begin: desc->access_count is {}, at most {} are supported",
                self.access_count,
                limits::TENSORS_MAX
            )));
        }
        // SAFETY: not NULL, aligned, and of a sane length; the caller promises the rest.
        Ok(unsafe { slice::from_raw_parts(self.accesses, self.access_count) })
    }

    /// What the replayer of [`replayer`] needs to know of the op, if it may run again.
    #[inline]
    fn token(&self) -> Option<Token> {
        let replay = self.replay?;
        Some([
            (replay as *const ()).expose_provenance(),
            self.user.expose_provenance(),
        ])
    }

    #[inline]
    fn phase(&self) -> Result<Phase, Status> {
        if self.flags != 0 {
            return Err(invalid(format_args!(
                "vt_op_begin: desc->flags is {:#x}, no flag is known",
                self.flags
            )));
        }
        match self.phase {
            VT_OP_FORWARD => Ok(Phase::Forward),
            VT_OP_LOAD => Ok(Phase::Load),
            VT_OP_BACKWARD => Ok(Phase::Backward),
            VT_OP_OPTIMIZER => Ok(Phase::Optimizer),
            other => Err(invalid(format_args!(
                "vt_op_begin: desc->phase is {other}, which is none of VT_OP_*"
            ))),
        }
    }
}

impl VtAccess {
    #[inline]
    fn read(&self, at: usize) -> Result<Access, Status> {
        let mode = match (self.mode, self.reserved) {
            (VT_ACCESS_READ, 0) => Mode::Read,
            (VT_ACCESS_WRITE, 0) => Mode::Write,
            (VT_ACCESS_READ_WRITE, 0) => Mode::ReadWrite,
            (_, 0) => {
                return Err(invalid(format_args!(
                    "vt_op_begin: the mode of access {at} is {}, which is none of VT_ACCESS_*",
                    self.mode
                )));
            }
            _ => {
                return Err(invalid(format_args!(
                    "vt_op_begin: access {at} has a reserved member that is not 0"
                )));
            }
        };
        let tensor = Tensor::from_bits(self.tensor);
        Ok(Access { tensor, mode })
    }
}

/// Begins an op: its tensors are at `pointers_out` until it ends.
///
/// # Safety
/// `desc` is NULL or as large as it says, its name NULL or a C string, its accesses as many as it
/// says; `pointers_out` has room for as many pointers; `replay` is NULL or may be called with
/// `user` and as many pointers until the iteration ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_op_begin(
    runtime: *mut VtRuntime,
    desc: *const VtOpDesc,
    pointers_out: *mut *mut c_void,
) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        let desc = unsafe { extensible::read(desc, "vt_op_begin: desc") }?;
        // SAFETY: handed on from this function's caller.
        let accesses = unsafe { desc.accesses() }?;
        if !accesses.is_empty() {
            not_null(pointers_out, "vt_op_begin: pointers_out")?;
        }
        // SAFETY: handed on from this function's caller.
        let name = unsafe { text_or_empty(desc.name, "vt_op_begin: desc->name") }?;
        let phase = desc.phase()?;
        handle::with(runtime, "vt_op_begin", |held| {
            if !desc.stream.is_null() && Some(desc.stream) != held.runtime.stream() {
                return Err(failure(
                    VT_ERROR_UNSUPPORTED,
                    format_args!(
                        "vt_op_begin: desc->stream is another one than vt_compute_stream(); the \
                         host has no streams"
                    ),
                ));
            }
            held.accesses.clear();
            for (at, access) in accesses.iter().enumerate() {
                held.accesses.push(access.read(at)?);
            }
            held.runtime.phase(phase);
            let op = match desc.token() {
                None => held.runtime.op_begin(name, &held.accesses),
                Some(token) => held
                    .runtime
                    .op_begin_replayable(name, &held.accesses, token),
            };
            let op = op.map_err(refusal("vt_op_begin"))?;
            for at in 0..accesses.len() {
                // SAFETY: the caller promises room for a pointer for each access.
                let to = unsafe { pointers_out.add(at) };
                // SAFETY: as above.
                unsafe { to.write(op.pointer(at).as_ptr().cast()) };
            }
            Ok(())
        })
    })
}

/// Ends the open op.
#[unsafe(no_mangle)]
pub extern "C" fn vt_op_end(runtime: *mut VtRuntime) -> Status {
    guard_status(|| {
        handle::with(runtime, "vt_op_end", |held| {
            held.runtime.op_end().map_err(refusal("vt_op_end"))
        })
    })
}

/// Pointers that an op may have without an allocation when it runs again.
const POINTERS: usize = 64;

/// Runs ops again by the callbacks that they were begun with.
pub(crate) fn replayer() -> impl FnMut(Token, &mut Op<'_>) -> Result<(), &'static str> + Send {
    // Addresses, so that it may go to another thread between two calls.
    let mut pointers: Vec<usize> = Vec::with_capacity(POINTERS);
    move |[function, user], op| {
        pointers.clear();
        let addresses = (0..op.len()).map(|at| op.pointer(at).as_ptr().expose_provenance());
        pointers.extend(addresses);
        let function: *const () = ptr::with_exposed_provenance(function);
        // SAFETY: the token is that of an op that was begun in this iteration, with this callback.
        let function = unsafe { mem::transmute::<*const (), VtReplayFn>(function) };
        let user = ptr::with_exposed_provenance_mut(user);
        // SAFETY: the caller of `vt_op_begin` promised that it may be called with `user` until the
        // iteration ends; there are as many pointers as the op has accesses.
        let status = unsafe { function(user, pointers.as_ptr().cast()) };
        match Status(status) {
            VT_OK => Ok(()),
            _ => Err("its callback returned an error"),
        }
    }
}
