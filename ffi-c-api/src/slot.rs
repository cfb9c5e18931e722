//! A place for one value, which threads use one at a time and any of them may end.
//!
//! In: a value, and the generation that a caller means. Out: the value, for as long as the caller
//! has the slot; or that it is busy, or gone.
//!
//! Guarantees: no lock, and nobody waits. One caller at a time has the value. A value that is ended
//! while a caller has it is gone for all later ones, and dropped when that caller leaves: once, and
//! by one thread. A generation that is gone does not come back.
//!
//! Memory order: who leaves releases the word, who comes acquires it, so each sees what the one
//! before has done to the value. Limit: generations count to 2^32, and begin anew.

// By its place, not its name: `jetson-runtime/orders` runs this file with another `sync`.
use super::sync::{AtomicU64, Ordering, UnsafeCell};

/// The state is in the low bits of a slot's word, the generation above.
const STATE: u64 = 0b11;
const FREE: u64 = 0;
const IDLE: u64 = 1;
/// A caller has it.
const BUSY: u64 = 2;
/// A caller has it, and frees it in the end.
const DOOMED: u64 = 3;
const GENERATION: u32 = STATE.count_ones();

/// The word of a slot that was never used.
pub(crate) const UNUSED: u64 = FREE;

pub(crate) struct Slot<T> {
    word: AtomicU64,
    held: UnsafeCell<Option<T>>,
}

// SAFETY: `held` is touched only by who has moved the word to BUSY, or has the last say at DOOMED;
// and what it holds may change threads.
unsafe impl<T: Send> Sync for Slot<T> {}

/// Why a slot is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another caller has it.
    Busy,
    /// That generation was ended, or never was.
    Gone,
}

/// A slot that a caller has, until this is dropped.
pub(crate) struct Entered<'a, T> {
    slot: &'a Slot<T>,
    generation: u32,
}

const fn word(generation: u32, state: u64) -> u64 {
    (generation as u64) << GENERATION | state
}

/// The generation of a word.
fn generation(word: u64) -> u32 {
    u32::try_from(word >> GENERATION).expect("a word is made of a generation and a state")
}

impl<T> Slot<T> {
    /// A slot of its parts: a word that is [`UNUSED`], and nothing.
    pub(crate) const fn of(word: AtomicU64, held: UnsafeCell<Option<T>>) -> Self {
        Self { word, held }
    }

    /// Takes a free slot.
    pub(crate) fn claim(&self) -> Option<Entered<'_, T>> {
        // Relaxed: the exchange below looks again.
        let found = self.word.load(Ordering::Relaxed);
        if found & STATE != FREE {
            return None;
        }
        let generation = generation(found);
        self.exchange(found, word(generation, BUSY)).ok()?;
        Some(Entered {
            slot: self,
            generation,
        })
    }

    /// Takes the slot of a generation, for a call.
    #[inline]
    pub(crate) fn enter(&self, generation: u32) -> Result<Entered<'_, T>, Refusal> {
        let busy = word(generation, BUSY);
        match self.exchange(word(generation, IDLE), busy) {
            Ok(_) => Ok(Entered {
                slot: self,
                generation,
            }),
            Err(found) if found == busy => Err(Refusal::Busy),
            Err(_) => Err(Refusal::Gone),
        }
    }

    /// Acquires, so that what the last caller did is seen. If it fails, nothing is touched.
    #[inline]
    fn exchange(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.word
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
    }

    /// Whether a caller has the slot of a generation. Acquires: what was stored before that
    /// generation was first left is seen.
    pub(crate) fn is_busy(&self, generation: u32) -> bool {
        self.word.load(Ordering::Acquire) == word(generation, BUSY)
    }

    /// Ends a generation: now, or, if a caller has the slot, when that caller leaves.
    pub(crate) fn end(&self, generation: u32) -> Result<(), Refusal> {
        let [idle, busy, doomed] = [IDLE, BUSY, DOOMED].map(|state| word(generation, state));
        loop {
            if self.exchange(idle, doomed).is_ok() {
                self.free(generation);
                return Ok(());
            }
            // Released, so that who frees the value does it after what this thread did with it.
            let found =
                self.word
                    .compare_exchange(busy, doomed, Ordering::Release, Ordering::Relaxed);
            match found {
                Ok(_) => return Ok(()),
                // It became idle in between.
                Err(found) if found == idle => {}
                Err(_) => return Err(Refusal::Gone),
            }
        }
    }

    /// Empties a slot that this thread has the last say on.
    fn free(&self, generation: u32) {
        // SAFETY: the word is DOOMED, and its one observer is this thread.
        let held = unsafe { &mut *self.held.get() }.take();
        let next = word(generation.wrapping_add(1), FREE);
        self.word.store(next, Ordering::Release);
        // Outside of the slot: it joins threads, and it may panic.
        drop(held);
    }

    /// Ends whatever is there, and drops nothing.
    ///
    /// # Safety
    /// This thread is the only one of the process.
    pub(crate) unsafe fn disown(&self) {
        let found = self.word.load(Ordering::Relaxed);
        if found & STATE != FREE {
            // SAFETY: nobody else is there. What is overwritten stays where it is: it is another
            // process's, and may be half changed.
            unsafe { self.held.get().write(None) };
            let next = word(generation(found).wrapping_add(1), FREE);
            self.word.store(next, Ordering::Relaxed);
        }
    }
}

impl<T> Entered<'_, T> {
    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn held(&mut self) -> &mut Option<T> {
        // SAFETY: this value has moved the word to BUSY, and nobody else touches the cell then.
        unsafe { &mut *self.slot.held.get() }
    }
}

impl<T> Drop for Entered<'_, T> {
    fn drop(&mut self) {
        // Acquires where it fails: then the value is this thread's to free, after what was done by
        // who ended it.
        let left = self.slot.word.compare_exchange(
            word(self.generation, BUSY),
            word(self.generation, IDLE),
            Ordering::Release,
            Ordering::Acquire,
        );
        if left.is_err() {
            self.slot.free(self.generation);
        }
    }
}
