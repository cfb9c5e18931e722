//! A ground of a GPU: a budget in pages that can be mapped, shown in one stretch, and a stream for
//! the ops of an application.
//!
//! In: a device and a budget. Out: addresses that kernels use; programs that show the same pages
//! through windows of their own. Guarantees: all memory is taken at first, and given back with the
//! last program. Limits: devices with virtual memory management; copies of the ground itself, for
//! iterations on demand, are made one after the other, by way of memory of the host.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, TensorId};

use super::class::Class;
use super::device::Device;
use super::error::CudaError;
use super::freeze::{With, freeze};
use super::frozen::Frozen;
use super::memory::{Kind, Memory, pointer};
use super::options::Options;
use super::stream::{EventUse, Events, Stream};
use super::target::Target;
use super::vmm::{Pages, Window, granularity};
use crate::arena::Arena;
use crate::copier::{Copier, TierCopier, Transfer};
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::ground::{Ground, OpClock, Scratch};
use crate::memory;
use crate::private::PrivateBuffer;
use crate::spill::{Spill, Tier};
use crate::stats::elapsed_ns;
use crate::storage::TransferError;

/// What goes through memory of the host at once: whole blocks of a spill file.
const PART_BYTES: usize = 1 << 20;
/// Events of the clock.
const BEGAN: usize = 0;
const ENDED: usize = 1;

/// The budget of an application on a GPU.
pub(crate) struct GpuGround {
    /// All pages, one after the other.
    view: Window,
    pages: Arc<Pages>,
    /// What ops are enqueued on.
    stream: Arc<Stream>,
    /// The moments between which an op runs on demand.
    clock: Events,
    page_bytes: u64,
    device: Device,
}

impl GpuGround {
    /// Takes the whole pages of a budget from a device.
    ///
    /// # Errors
    /// If the device maps no pages, does not have so much memory, or spilling there frees none.
    pub(crate) fn new(target: &Target, budget: Bytes, spill: &Spill) -> Result<Self, RuntimeError> {
        let device = target.device();
        let facts = device.facts();
        let refused = |choice, reason| CudaError::Refused { choice, reason };
        if !facts.virtual_memory {
            let reason = "it has no virtual memory management".into();
            return Err(refused("this GPU, for a live application,", reason).into());
        }
        let class = Class::of(facts);
        if class.one_memory() && *spill == Spill::Ram {
            return Err(class
                .frees_nothing(facts, "name a folder to spill to")
                .into());
        }
        let page_bytes = granularity(device)?;
        let (_, all) = device.memory()?;
        let page = Bytes(page_bytes);
        if page_bytes == 0 || budget < page || budget > all {
            let reason =
                format!("{budget} are not between a page, {page}, and the device's memory, {all}");
            return Err(refused("this budget", reason).into());
        }
        let count = u32::try_from(budget.0 / page_bytes).expect("a memory has fewer pages");
        if class.one_memory() {
            let bytes = u64::from(count) * page_bytes;
            memory::demand("arena in the memory of host and device", bytes)?;
        }
        let pages = Arc::new(Pages::new(device, page_bytes, count)?);
        Ok(Self {
            view: Window::new(&pages, 0..count)?,
            pages,
            stream: target.stream()?,
            clock: Events::new(device, 2, EventUse::Time)?,
            page_bytes,
            device: device.clone(),
        })
    }

    /// The stream of ops, a `CUstream`.
    pub(crate) fn stream(&self) -> *mut c_void {
        self.stream.raw()
    }

    /// Brings the device to rest.
    pub(crate) fn rest(&self) {
        self.device.rest();
    }

    /// Lets an event of the clock stand for all work so far.
    fn note(&self, event: usize) -> Result<(), CudaError> {
        self.device.calls()?;
        self.stream.record(self.clock.get(event))
    }

    /// The size of a page.
    pub(crate) const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Freezes a plan on the pages, which hold nothing that is needed.
    ///
    /// # Errors
    /// As [`Frozen::freeze`]; or if `fill` fails.
    pub(crate) fn freeze(
        &self,
        plan: VerifiedPlan,
        options: &Options,
        fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<Frozen, RuntimeError> {
        let with = With {
            pages: Some(&self.pages),
            compute: Arc::clone(&self.stream),
        };
        freeze(&self.device, plan, options, with, fill)
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn address_of(pointer: NonNull<u8>) -> u64 {
    pointer.addr().get() as u64
}

impl Ground for GpuGround {
    fn bytes(&self) -> u64 {
        self.view.bytes()
    }

    fn address(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        let end = offset.checked_add(bytes as u64);
        assert!(
            end.is_some_and(|end| end <= self.bytes()),
            "bytes {offset}+{bytes} lie in {} bytes",
            self.bytes()
        );
        pointer(self.view.address() + offset)
    }

    fn claim(&self, _: u64, _: u64) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn release(&self, _: u64, _: u64) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn allocated(&self) -> Result<Bytes, RuntimeError> {
        Ok(Bytes(self.bytes()))
    }

    fn settle(&self) -> Result<(), RuntimeError> {
        Ok(self.stream.synchronize()?)
    }

    fn time_op(&self) -> OpClock {
        // An op that is not timed is timed by the host.
        OpClock {
            on_device: self.note(BEGAN).is_ok(),
            ..OpClock::of_host()
        }
    }

    fn end_op(&self, clock: OpClock) -> Result<u64, RuntimeError> {
        let noted = clock.on_device && self.note(ENDED).is_ok();
        self.settle()?;
        // As the device has it: that the host sees the end late is not the op's.
        match noted.then(|| self.clock.seconds(BEGAN, ENDED)) {
            Some(Ok(seconds)) => Ok(nanoseconds(seconds)),
            _ => Ok(elapsed_ns(clock.began)),
        }
    }

    unsafe fn load(&self, from: NonNull<u8>, to: &mut [u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        Ok(unsafe { self.device.load(address_of(from), to) }?)
    }

    unsafe fn store(&self, to: NonNull<u8>, from: &[u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        Ok(unsafe { self.device.store(address_of(to), from) }?)
    }

    unsafe fn shift(
        &self,
        from: NonNull<u8>,
        to: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), RuntimeError> {
        let (from, to) = (address_of(from), address_of(to));
        let up = to > from;
        let mut part = PrivateBuffer::new(PART_BYTES.min(bytes))?;
        let parts = bytes.div_ceil(PART_BYTES);
        for number in 0..parts {
            // What is overwritten was read before: from the end where bytes move up.
            let at = PART_BYTES * if up { parts - 1 - number } else { number };
            let part = &mut part[..PART_BYTES.min(bytes - at)];
            // SAFETY: the part lies in the caller's range.
            unsafe { self.device.load(from + at as u64, part) }?;
            // SAFETY: as above.
            unsafe { self.device.store(to + at as u64, part) }?;
        }
        Ok(())
    }

    unsafe fn zero(&self, at: NonNull<u8>, bytes: usize) -> Result<(), RuntimeError> {
        let zeroes = vec![0; PART_BYTES.min(bytes)];
        for start in (0..bytes).step_by(PART_BYTES) {
            let part = &zeroes[..PART_BYTES.min(bytes - start)];
            // SAFETY: the part lies in the caller's range.
            unsafe { self.device.store(address_of(at) + start as u64, part) }?;
        }
        Ok(())
    }

    fn scratch(&self, bytes: usize) -> Result<Scratch, RuntimeError> {
        let memory = Memory::new(&self.device, Kind::Plain, bytes.max(1))?;
        Ok(Scratch::new(pointer(memory.at(0, bytes)), memory))
    }

    unsafe fn copy_in_turn(
        &self,
        from: NonNull<u8>,
        to: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), RuntimeError> {
        let (from, to) = (address_of(from), address_of(to));
        let (calls, stream) = (self.device.calls()?, self.stream.raw());
        // SAFETY: the caller's promise is passed on; the stream is that of ops.
        Ok(unsafe { calls.copy_inside_async(to, from, bytes, stream) }?)
    }

    fn copier(&self, tier: &Arc<Tier>) -> Result<Box<dyn Copier>, RuntimeError> {
        let first = self.view.address();
        Ok(Box::new(ByHost {
            host: TierCopier::new(tier)?,
            here: first..first + self.bytes(),
            part: PrivateBuffer::new(PART_BYTES)?,
            device: self.device.clone(),
        }))
    }

    fn arena(&self) -> Option<&Arc<Arena>> {
        None
    }
}

impl Drop for GpuGround {
    fn drop(&mut self) {
        // Whatever ops still do with this memory comes to its end first.
        self.rest();
    }
}

/// Copies between a tier and the device by way of memory of the host; or memory of the host itself.
struct ByHost {
    host: TierCopier,
    /// The addresses of the device that are meant.
    here: Range<u64>,
    part: PrivateBuffer,
    device: Device,
}

impl ByHost {
    /// A part of a copy.
    ///
    /// # Safety
    /// As for the copy.
    unsafe fn copy_part(
        &mut self,
        direction: Direction,
        on_device: u64,
        slot: u64,
        bytes: usize,
    ) -> Result<(), TransferError> {
        let part = &mut self.part[..bytes];
        let memory = NonNull::from(&mut *part).cast();
        let failed = |error: CudaError| {
            tracing::warn!(%error, "a copy between the device and the host failed");
            TransferError::from(nix::errno::Errno::EIO)
        };
        if direction == Direction::Out {
            // SAFETY: the caller vouches for the range on the device.
            unsafe { self.device.load(on_device, part) }.map_err(failed)?;
        }
        let transfer = Transfer::unplanned(direction, memory, slot, bytes);
        // SAFETY: the memory is this copier's own; the caller vouches for the slot.
        unsafe { self.host.copy(&transfer, None) }?;
        if direction == Direction::In {
            // SAFETY: as above.
            unsafe { self.device.store(on_device, &self.part[..bytes]) }.map_err(failed)?;
        }
        Ok(())
    }
}

impl Copier for ByHost {
    unsafe fn copy(
        &mut self,
        transfer: &Transfer,
        ready: Option<Instant>,
    ) -> Result<(), TransferError> {
        let at = address_of(transfer.device);
        if !self.here.contains(&at) {
            // SAFETY: it is the host's memory; the caller's promise is passed on.
            return unsafe { self.host.copy(transfer, ready) };
        }
        for start in (0..transfer.bytes).step_by(PART_BYTES) {
            let part = PART_BYTES.min(transfer.bytes - start);
            let (at, slot) = (at + start as u64, transfer.slot + start as u64);
            // SAFETY: the part lies in the caller's ranges.
            let copied = unsafe { self.copy_part(transfer.direction, at, slot, part) };
            copied.map_err(|error| error.behind(start))?;
        }
        Ok(())
    }
}
