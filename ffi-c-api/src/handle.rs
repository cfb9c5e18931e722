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
use crate::log::Scope;
use crate::runtime::Held;
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

/// A slot's state is in the low bits of its word, its generation above.
const STATE: u64 = 0b11;
const FREE: u64 = 0;
const IDLE: u64 = 1;
/// A call has it.
const BUSY: u64 = 2;
/// A call has it, and frees it in the end.
const DOOMED: u64 = 3;
const GENERATION: u32 = STATE.count_ones();

/// The top bits of every handle: no pointer to anything has them, so a handle that is used as one
/// faults at once.
const MARK: usize = 0x5a << 56;

struct Slot {
    word: AtomicU64,
    /// The phase as of the last call, for those who may not wait for one.
    phase: AtomicU32,
    held: UnsafeCell<Option<Box<Held>>>,
}

// SAFETY: `held` is touched only by who has moved the word to BUSY, or has the last say at DOOMED;
// and what it holds may change threads.
unsafe impl Sync for Slot {}

const _: () = {
    const fn sendable<T: Send>() {}
    sendable::<Held>();
};

static SLOTS: [Slot; RUNTIMES_MAX] = [const {
    Slot {
        word: AtomicU64::new(FREE),
        phase: AtomicU32::new(0),
        held: UnsafeCell::new(None),
    }
}; RUNTIMES_MAX];

/// A slot that this thread has, until it is dropped.
struct Entered {
    slot: &'static Slot,
    generation: u64,
}

impl Entered {
    #[allow(
        clippy::mut_from_ref,
        reason = "the word is this value's, so the cell is"
    )]
    fn held(&mut self) -> &mut Option<Box<Held>> {
        // SAFETY: this value has moved the word to BUSY, and nobody else touches the cell then.
        unsafe { &mut *self.slot.held.get() }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let busy = self.generation | BUSY;
        let word = &self.slot.word;
        let left = word.compare_exchange(
            busy,
            self.generation | IDLE,
            Ordering::Release,
            Ordering::Acquire,
        );
        if left.is_err() {
            free(self.slot, self.generation);
        }
    }
}

/// Empties a slot that this thread has the last say on.
fn free(slot: &Slot, generation: u64) {
    // SAFETY: the word is DOOMED, and its one observer is this thread.
    let held = unsafe { &mut *slot.held.get() }.take();
    slot.word.store(next(generation), Ordering::Release);
    // Outside of the table: it joins threads, and it may panic.
    drop(held);
}

fn handle(index: usize, generation: u64) -> *mut VtRuntime {
    let number = usize::try_from(generation >> GENERATION).expect("64-bit systems only");
    ptr::without_provenance_mut(MARK | (number << 8) | (index + 1))
}

/// The slot and the generation, in place, of what may be a handle.
fn parts(handle: *const VtRuntime) -> Option<(&'static Slot, u64)> {
    let bits = handle.addr();
    let index = (bits & 0xff).checked_sub(1)?;
    let generation = (bits & !MARK) as u64 >> 8;
    let slot = SLOTS.get(index)?;
    let ours = bits & MARK == MARK && generation <= u64::from(u32::MAX);
    ours.then_some((slot, generation << GENERATION))
}

/// Takes no runtime for this process's own any more, and gives nothing back.
///
/// # Safety
/// This thread is the only one of the process.
pub(crate) unsafe fn disown() {
    for slot in &SLOTS {
        let word = slot.word.load(Ordering::Relaxed);
        if word & STATE != FREE {
            // SAFETY: nobody else is there. What is overwritten stays where it is: it is another
            // process's, and may be half changed.
            unsafe { slot.held.get().write(None) };
            slot.word.store(next(word), Ordering::Relaxed);
        }
    }
}

/// The word of a free slot, after one of this generation.
const fn next(word: u64) -> u64 {
    let generation = (word >> GENERATION).wrapping_add(1) & u32::MAX as u64;
    (generation << GENERATION) | FREE
}

/// Gives a new runtime a handle.
pub(crate) fn insert(held: Box<Held>) -> Result<*mut VtRuntime, Status> {
    fork::watch();
    let phase = held.phase();
    for (index, slot) in SLOTS.iter().enumerate() {
        let word = slot.word.load(Ordering::Acquire);
        let generation = word & !STATE;
        let taken = || {
            slot.word.compare_exchange(
                word,
                generation | BUSY,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
        };
        if word & STATE == FREE && taken().is_ok() {
            let mut entered = Entered { slot, generation };
            slot.phase.store(phase, Ordering::Relaxed);
            *entered.held() = Some(held);
            return Ok(handle(index, generation));
        }
    }
    Err(failure(
        VT_ERROR_UNSUPPORTED,
        format_args!("a process has at most {RUNTIMES_MAX} runtimes at once; destroy one first"),
    ))
}

/// Takes a runtime for a call.
#[inline]
fn enter(handle: *const VtRuntime, call: &str) -> Result<Entered, Status> {
    let Some((slot, generation)) = parts(handle) else {
        return Err(stranger(handle, call));
    };
    let taken = slot.word.compare_exchange(
        generation | IDLE,
        generation | BUSY,
        Ordering::Acquire,
        Ordering::Relaxed,
    );
    match taken {
        Ok(_) => Ok(Entered { slot, generation }),
        Err(word) if word == generation | BUSY => Err(failure(
            VT_ERROR_BUSY,
            format_args!(
                "{call}: another call on this runtime is running; make them one at a time"
            ),
        )),
        Err(_) => Err(stranger(handle, call)),
    }
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
    let Some((slot, generation)) = parts(handle) else {
        stranger(handle, call);
        return failed;
    };
    // Asked first, since a refusal would leave its detail although this call succeeds.
    if slot.word.load(Ordering::Acquire) == generation | BUSY {
        return slot.phase.load(Ordering::Relaxed);
    }
    match with(handle, call, |held| Ok(body(held))) {
        Ok(phase) => {
            slot.phase.store(phase, Ordering::Relaxed);
            phase
        }
        Err(VT_ERROR_BUSY) => slot.phase.load(Ordering::Relaxed),
        Err(_) => failed,
    }
}

/// Destroys a runtime: now, or, if a call runs on it, when that call ends.
pub(crate) fn destroy(handle: *mut VtRuntime, call: &str) -> Result<(), Status> {
    let Some((slot, generation)) = parts(handle) else {
        return Err(stranger(handle, call));
    };
    let doomed = generation | DOOMED;
    let exchange = |from| {
        slot.word
            .compare_exchange(from, doomed, Ordering::AcqRel, Ordering::Acquire)
    };
    loop {
        if exchange(generation | IDLE).is_ok() {
            free(slot, generation);
            return Ok(());
        }
        match exchange(generation | BUSY) {
            Ok(_) => return Ok(()),
            // It became idle in between.
            Err(word) if word == generation | IDLE => {}
            Err(_) => return Err(stranger(handle, call)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::vt_config_init_sized;
    use crate::guard::guard_status;
    use crate::runtime::{
        VT_PHASE_FAILED, VT_PHASE_RECORDING, vt_runtime_create, vt_runtime_destroy,
        vt_runtime_phase, vt_sync,
    };
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
