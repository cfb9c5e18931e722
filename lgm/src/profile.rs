//! Device profiles: what a plan needs to know of a machine.

use serde::{Deserialize, Serialize};
use vtensor::PageBytes;

/// The link between the device and its spill tier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bytes per second from the device to the spill tier.
    pub out_bps: f64,
    /// Bytes per second from the spill tier to the device.
    pub in_bps: f64,
    /// Nanoseconds that each copy takes beside its bytes.
    pub copy_latency_ns: u64,
    /// Whether both directions run at once at full speed. Otherwise there is one queue.
    pub duplex: bool,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The key under which traces hold durations for it.
    pub name: String,
    /// Its memory class, A to E.
    pub class: char,
    /// The link to its spill tier.
    pub link: Link,
    /// The page size that it prefers.
    pub page_bytes: PageBytes,
}
