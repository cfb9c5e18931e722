//! The driver: its objects, and what each call does to them.
//!
//! In: calls with checked pointers (see `abi`). Out: statuses, commands for streams, reports.
//!
//! | module | noun |
//! |---|---|
//! | `call` | one call: counted, refused, failed on cue |
//! | `context` | the device and its primary context |
//! | `allocation` | device and managed memory |
//! | `host` | pinned and registered memory, and what the host says it touches |
//! | `transfer` | copies and fills |
//! | `managed` | prefetch, advice, discard |
//! | `streams` | streams, and how work gets into them |
//! | `events` | events |
//! | `vmm` | reserved addresses, physical allocations, mappings |
//! | `modules` | modules and launches |
//! | `leaks` | what was not given back |
//!
//! Guarantees: nothing is unmapped or freed before the streams have done what was enqueued, so
//! the model survives programs that do not wait. *Not here*: which order was needed (`check`).

mod allocation;
pub(crate) mod call;
mod context;
mod events;
mod host;
mod leaks;
mod managed;
mod modules;
mod streams;
mod transfer;
mod vmm;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;

use self::allocation::Block;
use self::context::Context;
use self::events::Event;
use self::modules::{Function, Module};
use self::streams::Lane;
use self::vmm::{Chunk, Reservation};
use crate::check::{Clock, Order, Reports};
use crate::engine::hardware::Hardware;
use crate::faults::Faults;
use crate::memory::physical::Physical;
use crate::memory::span::Span;
use crate::profile::Profile;
use crate::residency::Residency;
use crate::space::{AllocationId, Space};
use crate::status::Status;

pub(crate) use self::host::Touching;
pub(crate) use self::managed::Location;
pub(crate) use self::modules::Shape;
pub(crate) use self::streams::Pending;
pub(crate) use self::transfer::Transfer;
pub(crate) use self::vmm::Property;

/// Handles are never reused, not even by the device after a reset.
static NEXT_HANDLE: AtomicU64 = AtomicU64::new(1);
/// Handles look like addresses, so that none is mistaken for a small number.
const HANDLE_BASE: u64 = 0x00c0_da00_0000_0000;
/// Addresses of freed regions that are kept out of use, to catch their use after free.
const QUARANTINE_MAX: usize = 512;

/// A new handle.
fn new_handle() -> u64 {
    HANDLE_BASE + NEXT_HANDLE.fetch_add(1, Ordering::Relaxed) * 16
}

/// Whether a handle was given out once, to something that may be gone.
fn was_handle(handle: u64) -> bool {
    let end = HANDLE_BASE + NEXT_HANDLE.load(Ordering::Relaxed) * 16;
    handle > HANDLE_BASE && handle < end && handle.is_multiple_of(16)
}

/// All that the driver knows.
pub(crate) struct Driver {
    pub(crate) profile: &'static Profile,
    pub(crate) reports: Reports,
    pub(crate) faults: Faults,
    pub(crate) hardware: Arc<Hardware>,
    pub(crate) capacity: u64,
    pub(crate) granularity: u64,
    initialised: bool,
    context: Context,
    order: Order,
    pub(crate) residency: Residency,
    space: Space,
    physical: Physical,
    used: u64,
    next_allocation: u32,
    /// Device and managed memory, pinned and registered host memory, by address.
    blocks: HashMap<u64, Block>,
    reservations: HashMap<u64, Reservation>,
    chunks: HashMap<u64, Chunk>,
    /// The handle of each physical allocation.
    chunk_handles: HashMap<AllocationId, u64>,
    lanes: HashMap<u64, Lane>,
    /// Streams that were destroyed; their threads may have work left.
    retired: Vec<Lane>,
    /// What is known by who waits for all streams that were destroyed.
    retired_clock: Clock,
    events: HashMap<u64, Event>,
    modules: HashMap<u64, Module>,
    functions: HashMap<u64, Function>,
    quarantine: VecDeque<Span>,
    /// What the program tried to give back, but was not let.
    excused: HashSet<u64>,
    /// The current call does nothing and succeeds.
    elided: bool,
    /// What the current call enqueues fails.
    late: Option<Status>,
    /// Also report what is legal, but against the rules of this project.
    pub(crate) strict_events: bool,
}

impl Driver {
    /// A machine with this device, which nobody has used yet.
    pub(crate) fn new(profile: &'static Profile) -> Result<Self, Errno> {
        let engines = usize::try_from(profile.copy_engines).unwrap_or(1);
        Ok(Self {
            profile,
            reports: Reports::default(),
            faults: Faults::default(),
            hardware: Arc::new(Hardware::new(engines)),
            capacity: profile.memory_bytes,
            granularity: profile.granularity,
            initialised: false,
            context: Context::default(),
            order: Order::new(),
            residency: Residency::default(),
            space: Space::default(),
            physical: Physical::new()?,
            used: 0,
            next_allocation: 0,
            blocks: HashMap::new(),
            reservations: HashMap::new(),
            chunks: HashMap::new(),
            chunk_handles: HashMap::new(),
            lanes: HashMap::new(),
            retired: Vec::new(),
            retired_clock: Clock::default(),
            events: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            quarantine: VecDeque::new(),
            excused: HashSet::new(),
            elided: false,
            late: None,
            strict_events: false,
        })
    }

    fn new_allocation(&mut self) -> AllocationId {
        let id = AllocationId(self.next_allocation);
        self.next_allocation += 1;
        id
    }

    /// Reports the use of a handle that stands for nothing.
    fn bad_handle(&mut self, kind: &str, handle: u64) -> Status {
        let how = match was_handle(handle) {
            true => "was destroyed, or is of another kind",
            false => "was never given out",
        };
        let text = format!("{kind} {handle:#x} {how}");
        self.reports.add("bad-handle", text);
        Status::INVALID_HANDLE
    }

    /// Reports a misuse that the driver refuses.
    fn misuse(&mut self, rule: &'static str, status: Status, text: String) -> Status {
        self.reports.add(rule, text);
        status
    }

    /// Keeps the addresses of something that is gone out of use for a while.
    fn retire_addresses(&mut self, span: Span) {
        self.quarantine.push_back(span);
        if self.quarantine.len() > QUARANTINE_MAX {
            let oldest = self.quarantine.pop_front().expect("there are many");
            self.space
                .forget(oldest.start() as u64, oldest.end() as u64);
        }
    }
}
