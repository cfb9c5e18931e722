//! Handles of runtimes: what a `vt_runtime *` is.
//!
//! In: a handle and the body of a call. Out: the body's result, or why it may not run.
//!
//! Guarantees: a handle is a number, never an address, so one that is stale, invented or of a
//! destroyed runtime is told apart from a living one and refused. One call at a time runs on a
//! runtime; another is refused, not queued. A runtime that is destroyed while a call runs on it is
//! gone for all later calls, and freed when that call ends. A panic poisons its runtime, no other.
//!
//! Limits: [`RUNTIMES_MAX`] runtimes at once in a process. A generation counts to 2^32, after which
//! a handle of the distant past would be taken for a living one.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::fork;
use crate::guard::failure;
use crate::held::Held;
use crate::log::Scope;
use crate::slot::{Entered, Refusal, Slot, UNUSED};
use crate::status::{
    Status, VT_ERROR_BUSY, VT_ERROR_FAILED, VT_ERROR_INVALID_ARGUMENT, VT_ERROR_NOT_FOUND,
    VT_ERROR_UNSUPPORTED,
};

/// Runtimes that a process can have at once.
pub const RUNTIMES_MAX: usize = 64;

/// The opaque type behind `vt_runtime *`. Nothing is ever there.
#[repr(C)]
pub struct VtRuntime {
    _opaque: [u8; 0],
}

/// The top bits of every handle: no pointer to anything has them, so a handle that is used as one
/// faults at once.
const MARK: usize = 0x5a << 56;

struct Row {
    slot: Slot<Box<Held>>,
    /// The phase as of the last call, for those who may not wait for one.
    phase: AtomicU32,
}

static ROWS: [Row; RUNTIMES_MAX] = [const {
    Row {
        slot: Slot::of(AtomicU64::new(UNUSED), UnsafeCell::new(None)),
        phase: AtomicU32::new(0),
    }
}; RUNTIMES_MAX];

fn handle(index: usize, generation: u32) -> *mut VtRuntime {
    ptr::without_provenance_mut(MARK | ((generation as usize) << 8) | (index + 1))
}

/// The row and the generation, of what may be a handle.
fn parts(handle: *const VtRuntime) -> Option<(&'static Row, u32)> {
    let bits = handle.addr();
    let index = (bits & 0xff).checked_sub(1)?;
    let generation = u32::try_from((bits & !MARK) >> 8).ok()?;
    let row = ROWS.get(index)?;
    (bits & MARK == MARK).then_some((row, generation))
}

/// Takes no runtime for this process's own any more, and gives nothing back.
unsafe extern "C" fn disown() {
    for row in &ROWS {
        // SAFETY: a child has one thread, which is here.
        unsafe { row.slot.disown() };
    }
}

/// Gives a new runtime a handle.
pub(crate) fn insert(held: Box<Held>) -> Result<*mut VtRuntime, Status> {
    // SAFETY: it overwrites words of the rows, and nothing else.
    unsafe { fork::watch(disown) };
    let phase = held.phase();
    for (index, row) in ROWS.iter().enumerate() {
        if let Some(mut entered) = row.slot.claim() {
            // Relaxed, as every use of it: it tells of nothing else, and leaving the slot releases.
            row.phase.store(phase, Ordering::Relaxed);
            *entered.held() = Some(held);
            return Ok(handle(index, entered.generation()));
        }
    }
    Err(failure(
        VT_ERROR_UNSUPPORTED,
        format_args!("a process has at most {RUNTIMES_MAX} runtimes at once; destroy one first"),
    ))
}

/// Takes a runtime for a call.
#[inline]
fn enter(handle: *const VtRuntime, call: &str) -> Result<Entered<'static, Box<Held>>, Status> {
    let Some((row, generation)) = parts(handle) else {
        return Err(stranger(handle, call));
    };
    row.slot.enter(generation).map_err(|refusal| match refusal {
        Refusal::Busy => failure(
            VT_ERROR_BUSY,
            format_args!(
                "{call}: another call on this runtime is running; make them one at a time"
            ),
        ),
        Refusal::Gone => stranger(handle, call),
    })
}

#[cold]
fn stranger(handle: *const VtRuntime, call: &str) -> Status {
    if handle.is_null() {
        return failure(
            VT_ERROR_INVALID_ARGUMENT,
            format_args!("{call}: runtime is NULL"),
        );
    }
    failure(
        VT_ERROR_NOT_FOUND,
        format_args!(
            "{call}: {handle:p} is no runtime of this process: it was never created, or it was \
             destroyed"
        ),
    )
}

/// Runs the body of a call on a runtime.
#[inline]
pub(crate) fn with<T>(
    handle: *const VtRuntime,
    call: &'static str,
    body: impl FnOnce(&mut Held) -> Result<T, Status>,
) -> Result<T, Status> {
    let mut entered = enter(handle, call)?;
    let held = entered
        .held()
        .as_mut()
        .expect("a living slot holds a runtime");
    if held.poisoned {
        return Err(failure(
            VT_ERROR_FAILED,
            format_args!(
                "{call}: a bug was caught in an earlier call on this runtime, so nothing is known \
                 of its state; destroy it"
            ),
        ));
    }
    let _scope = Scope::new(held.sink);
    // Until the body is through: a panic leaves it set.
    held.poisoned = true;
    let result = body(held);
    held.poisoned = false;
    result
}

/// The phase of a runtime, whatever runs on it: as `body` finds it, or as of the last call.
pub(crate) fn phase(
    handle: *const VtRuntime,
    call: &'static str,
    failed: u32,
    body: impl FnOnce(&mut Held) -> u32,
) -> u32 {
    let Some((row, generation)) = parts(handle) else {
        stranger(handle, call);
        return failed;
    };
    // Asked first, since a refusal would leave its detail although this call succeeds.
    if row.slot.is_busy(generation) {
        return row.phase.load(Ordering::Relaxed);
    }
    match with(handle, call, |held| Ok(body(held))) {
        Ok(phase) => {
            row.phase.store(phase, Ordering::Relaxed);
            phase
        }
        Err(VT_ERROR_BUSY) => row.phase.load(Ordering::Relaxed),
        Err(_) => failed,
    }
}

/// Destroys a runtime: now, or, if a call runs on it, when that call ends.
pub(crate) fn destroy(handle: *mut VtRuntime, call: &str) -> Result<(), Status> {
    let gone = || stranger(handle, call);
    let (row, generation) = parts(handle).ok_or_else(gone)?;
    row.slot.end(generation).map_err(|_| gone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::vt_config_init_sized;
    use crate::guard::guard_status;
    use crate::held::{VT_PHASE_FAILED, VT_PHASE_RECORDING};
    use crate::runtime::{vt_runtime_create, vt_runtime_destroy, vt_runtime_phase, vt_sync};
    use crate::status::{VT_ERROR_INTERNAL, VT_OK};

    fn runtime() -> *mut VtRuntime {
        let mut config = core::mem::MaybeUninit::uninit();
        let size = size_of_val(&config);
        // SAFETY: the config is `size` bytes.
        let status = unsafe { vt_config_init_sized(config.as_mut_ptr(), size) };
        assert_eq!(status, VT_OK);
        // SAFETY: it was just filled.
        let mut config = unsafe { config.assume_init() };
        config.budget_bytes = 1 << 20;
        config.spill_bytes_max = 1 << 20;
        let mut out = ptr::null_mut();
        // SAFETY: a whole config without texts, and a place for the handle.
        let status = unsafe { vt_runtime_create(&raw const config, &raw mut out) };
        assert_eq!(status, VT_OK);
        out
    }

    #[test]
    fn a_panic_poisons_its_runtime_and_no_other() {
        let (bad, good) = (runtime(), runtime());
        let panics = || with(bad, "test", |_| -> Result<(), Status> { panic!("a bug") });
        assert_eq!(guard_status(panics), VT_ERROR_INTERNAL);
        assert_eq!(vt_sync(bad), VT_ERROR_FAILED);
        assert_eq!(vt_runtime_phase(bad), VT_PHASE_FAILED);
        assert_eq!(
            (vt_sync(good), vt_runtime_phase(good)),
            (VT_OK, VT_PHASE_RECORDING)
        );
        vt_runtime_destroy(bad);
        assert_eq!(vt_sync(bad), VT_ERROR_NOT_FOUND);
        vt_runtime_destroy(good);
    }

    #[test]
    fn a_call_at_once_is_refused_and_a_destruction_waits_for_the_call() {
        let handle = runtime();
        let inside = with(handle, "outer", |_| {
            assert_eq!(vt_sync(handle), VT_ERROR_BUSY);
            assert_eq!(vt_runtime_phase(handle), VT_PHASE_RECORDING);
            vt_runtime_destroy(handle);
            assert_eq!(vt_sync(handle), VT_ERROR_NOT_FOUND);
            Ok(7)
        });
        assert_eq!(inside, Ok(7), "the call goes on");
        assert_eq!(vt_sync(handle), VT_ERROR_NOT_FOUND);
        let next = runtime();
        assert_ne!(next, handle, "even in the same slot");
        vt_runtime_destroy(next);
    }

    #[test]
    fn numbers_that_are_no_handles_are_refused() {
        let handle = runtime();
        for bits in [
            1,
            8,
            MARK,
            MARK | 0xff,
            handle.addr() ^ (1 << 48),
            handle.addr() + 256,
        ] {
            let other = ptr::without_provenance_mut(bits);
            assert_eq!(vt_sync(other), VT_ERROR_NOT_FOUND, "{bits:#x}");
            assert_eq!(vt_runtime_phase(other), VT_PHASE_FAILED, "{bits:#x}");
            vt_runtime_destroy(other);
        }
        assert_eq!(vt_sync(handle), VT_OK);
        vt_runtime_destroy(handle);
    }
}
