//! The asynchronous half of the device: streams as threads.
//!
//! | module | noun |
//! |---|---|
//! | `command` | one thing that a stream does |
//! | `record` | the moment that an event was recorded for |
//! | `failure` | what asynchronous work reports to later calls |
//! | `link` | copy engines: bandwidth, latency, one copy at a time in each direction |
//! | `hardware` | what all streams share |
//! | `progress` | how far a stream is |
//! | `stream` | a queue and the thread that works it off |
//!
//! Guarantees: a stream does its commands in order; a wait for a record, or for another stream's
//! progress, is a wait for something that was enqueued before, so no set of streams can lock up.

pub(crate) mod command;
pub(crate) mod failure;
pub(crate) mod hardware;
pub(crate) mod link;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod stream;
