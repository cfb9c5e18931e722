//! The files with relaxed stores and changes where they release.

#[allow(dead_code, reason = "the models ask for no statistics")]
#[path = "../../src/counters.rs"]
mod counters;
#[path = "../../src/direction.rs"]
mod direction;
#[path = "models.rs"]
pub(crate) mod models;
#[allow(dead_code, reason = "no mate waits in a model")]
#[path = "../../src/shares.rs"]
mod shares;
#[path = "shares_model.rs"]
pub(crate) mod shares_model;
#[allow(dead_code, reason = "no model forks")]
#[path = "../../../ffi-c-api/src/slot.rs"]
mod slot;
#[path = "slots.rs"]
pub(crate) mod slots;
#[path = "../../src/waiting.rs"]
mod waiting;

mod sync {
    pub(crate) use crate::stand_in::{
        AtomicU32, AtomicU64, SPINS_MAX, UnsafeCell, Word, fence, spin_loop,
    };

    #[allow(non_snake_case, non_upper_case_globals, reason = "as the type is used")]
    pub(crate) mod Ordering {
        use loom::sync::atomic::Ordering;

        pub(crate) const Acquire: Ordering = Ordering::Acquire;
        pub(crate) const AcqRel: Ordering = Ordering::Acquire;
        pub(crate) const Relaxed: Ordering = Ordering::Relaxed;
        pub(crate) const Release: Ordering = Ordering::Relaxed;
        pub(crate) const SeqCst: Ordering = Ordering::SeqCst;
    }
}
