//! The runtime: created, asked, destroyed.

use core::ptr::NonNull;

use jetson_runtime::{Access, ProgramKey, ProgramReport, Runtime};

use crate::arguments::not_null;
use crate::config::VtConfig;
use crate::extensible;
use crate::guard::{guard, guard_status};
use crate::handle::{self, VtRuntime};
use crate::log::{self, Scope, Sink};
use crate::op::replayer;
use crate::refusal::refusal;
use crate::status::Status;

/// The kind of iteration that ran last is recorded on demand, or none has begun.
pub const VT_PHASE_RECORDING: u32 = 0;
/// Its next iteration is frozen: a plan was loaded, or enough was recorded for one.
pub const VT_PHASE_PLANNED: u32 = 1;
/// A program runs it.
pub const VT_PHASE_FROZEN: u32 = 2;
/// The runtime cannot go on, or is none.
pub const VT_PHASE_FAILED: u32 = 3;

/// What a handle stands for.
pub(crate) struct Held {
    pub(crate) runtime: Runtime,
    /// Where its events go.
    pub(crate) sink: Option<Sink>,
    /// Whether a panic came out of it.
    pub(crate) poisoned: bool,
    /// Equal iterations before a program is made.
    pub(crate) warmup: u32,
    /// The accesses of the op that begins; kept so that no op allocates.
    pub(crate) accesses: Vec<Access>,
    /// The allocations of a touch; kept for the same reason.
    pub(crate) pointers: Vec<NonNull<u8>>,
    /// The kind of iteration that began last, or whose plan was loaded last.
    pub(crate) begun: Option<ProgramKey>,
    /// The kind of iteration that ended last.
    pub(crate) ended: Option<ProgramKey>,
}

// SAFETY: the pointers are compared, not followed.
unsafe impl Send for Held {}

impl Held {
    /// What is known of a kind of iteration.
    pub(crate) fn program(&self, key: Option<ProgramKey>) -> Option<ProgramReport> {
        let mut programs = self.runtime.programs().into_iter();
        programs.find(|program| Some(program.key) == key)
    }

    /// The phase of the kind of iteration that began last.
    pub(crate) fn phase(&self) -> u32 {
        match self.program(self.begun) {
            Some(program) if program.frozen => VT_PHASE_FROZEN,
            Some(program) if program.repeats >= self.warmup && program.refusal.is_none() => {
                VT_PHASE_PLANNED
            }
            _ => VT_PHASE_RECORDING,
        }
    }
}

/// Creates a runtime.
///
/// # Safety
/// `config` is NULL or as large as it says, with texts that are NULL or C strings; `out` is NULL or
/// may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_runtime_create(
    config: *const VtConfig,
    out: *mut *mut VtRuntime,
) -> Status {
    guard_status(|| {
        not_null(out, "vt_runtime_create: out")?;
        // SAFETY: handed on from this function's caller.
        let config = unsafe { extensible::read(config, "vt_runtime_create: config") }?;
        // SAFETY: handed on from this function's caller.
        let (config, sink) = unsafe { config.read() }?;
        if sink.is_some() {
            log::listen();
        }
        let warmup = config.warmup;
        let scope = Scope::new(sink);
        let mut runtime = Runtime::new(config).map_err(refusal("vt_runtime_create"))?;
        runtime.set_replayer(replayer());
        drop(scope);
        let handle = handle::insert(Box::new(Held {
            runtime,
            sink,
            poisoned: false,
            warmup,
            accesses: Vec::new(),
            pointers: Vec::new(),
            begun: None,
            ended: None,
        }))?;
        // SAFETY: not NULL, checked above; the caller hands a pointer that may be written.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Destroys a runtime. NULL is nothing to destroy.
#[unsafe(no_mangle)]
pub extern "C" fn vt_runtime_destroy(runtime: *mut VtRuntime) {
    guard((), || {
        if !runtime.is_null() {
            // A refusal is in `vt_last_error`.
            let _ = handle::destroy(runtime, "vt_runtime_destroy");
        }
    });
}

/// The phase of the kind of iteration that began last.
#[unsafe(no_mangle)]
pub extern "C" fn vt_runtime_phase(runtime: *const VtRuntime) -> u32 {
    guard(VT_PHASE_FAILED, || {
        handle::phase(runtime, "vt_runtime_phase", VT_PHASE_FAILED, |held| {
            held.phase()
        })
    })
}

/// Waits until all that ops have started is complete.
#[unsafe(no_mangle)]
pub extern "C" fn vt_sync(runtime: *mut VtRuntime) -> Status {
    // Ops of the host backend compute on the thread that calls: they are complete when they end.
    guard_status(|| handle::with(runtime, "vt_sync", |_| Ok(())))
}
