//! The files without the fence between an announcement and a look.

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
#[path = "../../src/waiting.rs"]
mod waiting;

mod sync {
    pub(crate) use crate::stand_in::{AtomicU32, AtomicU64, Ordering, SPINS_MAX, Word, spin_loop};

    pub(crate) const fn fence(_: Ordering) {}
}
