//! The ground: the memory that a runtime takes once, its budget, and how bytes of it are reached
//! while no op uses them.
//!
//! In: offsets. Out: addresses where tensors may lie, as ops use them, and copies of bytes between
//! those and memory of the host. Two grounds: the host's arena, here, and pages of a GPU
//! (`cuda::ground`). *Not here*: which tensor is where (`live::heap`), and programs, which show the
//! same memory through windows of their own.

use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Instant;

use vtensor::Bytes;

use crate::arena::Arena;
use crate::copier::{Copier, TierCopier};
use crate::error::RuntimeError;
use crate::private::PrivateBuffer;
use crate::region::Region;
use crate::scale::to_usize;
use crate::spill::Tier;
use crate::stats::elapsed_ns;

/// Memory for tensors.
pub(crate) trait Ground: Send + Sync {
    /// Its size.
    fn bytes(&self) -> u64;

    /// The address of byte `offset`, with `bytes` bytes after it. May be followed by ops; by the
    /// host only where [`Self::on_host`] says so.
    ///
    /// # Panics
    /// If they leave the ground.
    fn address(&self, offset: u64, bytes: usize) -> NonNull<u8>;

    /// Takes memory for a range, where that was not done at first.
    ///
    /// # Errors
    /// If the machine does not have it.
    fn claim(&self, start: u64, end: u64) -> Result<(), RuntimeError>;

    /// Gives the memory of a range back, where that is possible; what it holds is gone.
    ///
    /// # Errors
    /// If the machine refuses.
    fn release(&self, start: u64, end: u64) -> Result<(), RuntimeError>;

    /// The memory that is taken now.
    ///
    /// # Errors
    /// If the machine does not tell.
    fn allocated(&self) -> Result<Bytes, RuntimeError>;

    /// Waits until what ops have begun is done.
    ///
    /// # Errors
    /// If any of it failed.
    fn settle(&self) -> Result<(), RuntimeError>;

    /// An op begins, whose duration will be asked for.
    fn time_op(&self) -> OpClock {
        OpClock::of_host()
    }

    /// Waits until the op is done that began then; how long it took, in nanoseconds.
    ///
    /// # Errors
    /// As [`Self::settle`].
    fn end_op(&self, clock: OpClock) -> Result<u64, RuntimeError> {
        self.settle().map(|()| elapsed_ns(clock.began))
    }

    /// Copies bytes to `to`.
    ///
    /// # Safety
    /// The range lies in the ground, and no op uses it.
    unsafe fn load(&self, from: NonNull<u8>, to: &mut [u8]) -> Result<(), RuntimeError>;

    /// Copies `from` there.
    ///
    /// # Safety
    /// As [`Self::load`].
    unsafe fn store(&self, to: NonNull<u8>, from: &[u8]) -> Result<(), RuntimeError>;

    /// Copies bytes within the ground; the ranges may overlap.
    ///
    /// # Safety
    /// As [`Self::load`], for both.
    unsafe fn shift(
        &self,
        from: NonNull<u8>,
        to: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), RuntimeError>;

    /// Fills a range with zeroes.
    ///
    /// # Safety
    /// As [`Self::load`].
    unsafe fn zero(&self, at: NonNull<u8>, bytes: usize) -> Result<(), RuntimeError>;

    /// Memory beside the ground that ops could use, for what [`Self::copy_in_turn`] saves.
    ///
    /// # Errors
    /// If the machine does not have it.
    fn scratch(&self, bytes: usize) -> Result<Scratch, RuntimeError>;

    /// Copies bytes within the ground, or between it and a scratch, in the order of ops: after
    /// those that were begun before, and before those that come.
    ///
    /// # Safety
    /// The ranges are alive until then, do not overlap, and nobody else uses them.
    unsafe fn copy_in_turn(
        &self,
        from: NonNull<u8>,
        to: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), RuntimeError>;

    /// What copies between a tier and this ground, or memory of the host.
    ///
    /// # Errors
    /// If the machine refuses memory or files.
    fn copier(&self, tier: &Arc<Tier>) -> Result<Box<dyn Copier>, RuntimeError>;

    /// The host's arena, if this is it.
    fn arena(&self) -> Option<&Arc<Arena>>;

    /// Whether the host, too, may follow its addresses.
    fn on_host(&self) -> bool {
        self.arena().is_some()
    }
}

/// When an op began.
pub(crate) struct OpClock {
    /// As the host saw it.
    pub(crate) began: Instant,
    /// Whether a device has noted it, too.
    pub(crate) on_device: bool,
}

impl OpClock {
    /// Now.
    pub(crate) fn of_host() -> Self {
        Self {
            began: Instant::now(),
            on_device: false,
        }
    }
}

/// Memory that is given back when it is dropped.
pub(crate) struct Scratch {
    pub(crate) start: NonNull<u8>,
    /// What owns it.
    _memory: Box<dyn Send + Sync>,
}

// SAFETY: an address; who follows it when is said at `Ground::copy_in_turn`.
unsafe impl Send for Scratch {}
// SAFETY: as above.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Memory that begins there for as long as its owner is not dropped.
    pub(crate) fn new(start: NonNull<u8>, memory: impl Send + Sync + 'static) -> Self {
        Self {
            start,
            _memory: Box::new(memory),
        }
    }
}

/// The host's memory: an arena, with addresses for all of it.
pub(crate) struct HostGround {
    arena: Arc<Arena>,
    /// The arena in one piece; `None` if it is empty.
    view: Option<Region>,
}

impl HostGround {
    /// Maps an arena.
    ///
    /// # Errors
    /// If there are no addresses for it.
    pub(crate) fn new(arena: Arena) -> Result<Self, RuntimeError> {
        let map = |bytes| Region::of_file(bytes, &arena);
        let view = NonZeroUsize::new(to_usize(arena.bytes())).map(map);
        let view = view.transpose();
        Ok(Self {
            view: view.map_err(RuntimeError::system("map the arena"))?,
            arena: Arc::new(arena),
        })
    }

    pub(crate) const fn own(&self) -> &Arc<Arena> {
        &self.arena
    }
}

impl Ground for HostGround {
    fn bytes(&self) -> u64 {
        self.arena.bytes()
    }

    fn address(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        let view = self.view.as_ref().expect("a block lies in an arena");
        view.pointer(offset, bytes)
    }

    fn claim(&self, start: u64, end: u64) -> Result<(), RuntimeError> {
        self.arena.claim(start, end)
    }

    fn release(&self, start: u64, end: u64) -> Result<(), RuntimeError> {
        self.arena.release(start, end)
    }

    fn allocated(&self) -> Result<Bytes, RuntimeError> {
        self.arena.allocated()
    }

    fn settle(&self) -> Result<(), RuntimeError> {
        // An op of the host is over when its call returns.
        Ok(())
    }

    unsafe fn load(&self, from: NonNull<u8>, to: &mut [u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller vouches for the source; the target is borrowed.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    unsafe fn store(&self, to: NonNull<u8>, from: &[u8]) -> Result<(), RuntimeError> {
        // SAFETY: the caller vouches for the target; the source is borrowed.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    unsafe fn shift(
        &self,
        from: NonNull<u8>,
        to: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), RuntimeError> {
        // SAFETY: the caller vouches for both.
        unsafe { ptr::copy(from.as_ptr(), to.as_ptr(), bytes) };
        Ok(())
    }

    unsafe fn zero(&self, at: NonNull<u8>, bytes: usize) -> Result<(), RuntimeError> {
        // SAFETY: the caller vouches for the range.
        unsafe { ptr::write_bytes(at.as_ptr(), 0, bytes) };
        Ok(())
    }

    fn scratch(&self, bytes: usize) -> Result<Scratch, RuntimeError> {
        let mut memory = PrivateBuffer::new(bytes)?;
        Ok(Scratch::new(NonNull::from(&mut *memory).cast(), memory))
    }

    unsafe fn copy_in_turn(
        &self,
        from: NonNull<u8>,
        to: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), RuntimeError> {
        // SAFETY: the caller vouches for both.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes) };
        Ok(())
    }

    fn copier(&self, tier: &Arc<Tier>) -> Result<Box<dyn Copier>, RuntimeError> {
        Ok(Box::new(TierCopier::new(tier)?))
    }

    fn arena(&self) -> Option<&Arc<Arena>> {
        Some(&self.arena)
    }
}
