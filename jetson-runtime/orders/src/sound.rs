//! The files as they are.

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

use crate::stand_in as sync;
