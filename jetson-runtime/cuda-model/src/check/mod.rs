//! The checker: what is ordered before what, and who touched which bytes.
//!
//! In: the calls of the program under test, in their order. Out: reports. It is a pure state
//! machine: no threads, no memory, no clock of the wall. What a stream does is ordered when it is
//! enqueued, so a report never depends on which thread happened to be faster.
//!
//! | module | noun |
//! |---|---|
//! | `clock` | how far each line of work is known to have come |
//! | `shadow` | the last accesses to each byte of one allocation |
//! | `order` | the clocks of host and streams, the shadows, and the rules between them |
//! | `report` | what was found |

mod clock;
mod order;
mod report;
mod shadow;

pub(crate) use clock::{Clock, Line};
pub(crate) use order::Order;
pub(crate) use report::Reports;
pub(crate) use shadow::{Conflict, Mode};

#[cfg(test)]
mod tests;
