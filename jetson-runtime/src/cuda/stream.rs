//! Streams and events: the order of what a GPU does.
//!
//! Guarantees: a stream that was made here is destroyed with its owner, one of the application's
//! is left alone; events are made before they are needed, and destroyed together. Not here: which
//! event is waited for when (see `waits`, `frozen`).

use std::ptr;

use super::device::Device;
use super::error::CudaError;
use super::status::Status;
use super::symbols::Handle;

/// Does not wait for the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// An event without a clock: cheaper, and all that order needs.
const DISABLE_TIMING: u32 = 2;
/// A host that waits for the event sleeps.
const BLOCKING_SYNC: u32 = 1;
/// Looks before a host that waits goes to sleep.
const LOOKS: u32 = 200;

/// A queue of work.
#[derive(Debug)]
pub(crate) struct Stream {
    device: Device,
    raw: Handle,
    owned: bool,
}

// SAFETY: a stream may be used from any thread that has its context.
unsafe impl Send for Stream {}
// SAFETY: the driver locks what it must.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self, CudaError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the target is a local; `drop` destroys what is made here.
        unsafe { device.calls()?.stream_create(&raw mut raw, NON_BLOCKING, 0) }?;
        Ok(Self {
            device: device.clone(),
            raw,
            owned: true,
        })
    }

    /// A stream of the application.
    ///
    /// # Safety
    /// `raw` is a stream of the device's primary context, which outlives the value.
    pub(crate) unsafe fn of_application(device: &Device, raw: Handle) -> Self {
        Self {
            device: device.clone(),
            raw,
            owned: false,
        }
    }

    pub(crate) const fn raw(&self) -> Handle {
        self.raw
    }

    /// Waits on the host until all work is done.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        unsafe { self.device.calls()?.stream_synchronize(self.raw) }
    }

    /// Brings the stream to rest before what it uses goes: as [`Device::rest`].
    pub(crate) fn rest(&self) {
        if self.synchronize().is_err() {
            let _ = self.synchronize();
        }
    }

    /// Lets later work of this stream wait for what the event recorded last.
    #[inline]
    pub(crate) fn wait(&self, event: Handle) -> Result<(), CudaError> {
        // SAFETY: stream and event are alive: both end with the program that uses them.
        unsafe {
            self.device
                .driver()
                .symbols()
                .stream_wait(self.raw, event, 0)
        }
    }

    /// Lets the event stand for all work so far.
    #[inline]
    pub(crate) fn record(&self, event: Handle) -> Result<(), CudaError> {
        // SAFETY: stream and event are alive: both end with the program that uses them.
        unsafe { self.device.driver().symbols().event_record(event, self.raw) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // SAFETY: the stream was made here, and nobody uses it any more.
        let destroyed = unsafe { self.device.last_calls().stream_destroy(self.raw) };
        if let Err(error) = destroyed {
            tracing::warn!(%error, "a stream was not destroyed");
        }
    }
}

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventUse {
    /// Streams wait for it.
    Order,
    /// The host waits for it.
    Host,
    /// Its moment is asked for.
    Time,
}

/// Events that are made and destroyed together.
#[derive(Debug)]
pub(crate) struct Events {
    device: Device,
    raw: Vec<Handle>,
}

// SAFETY: an event may be used from any thread that has its context.
unsafe impl Send for Events {}
// SAFETY: the driver locks what it must.
unsafe impl Sync for Events {}

impl Events {
    pub(crate) fn new(device: &Device, count: usize, kind: EventUse) -> Result<Self, CudaError> {
        let flags = match kind {
            EventUse::Order => DISABLE_TIMING,
            EventUse::Host => DISABLE_TIMING | BLOCKING_SYNC,
            EventUse::Time => 0,
        };
        // What was made is destroyed by `drop` if a later one fails.
        let mut events = Self {
            device: device.clone(),
            raw: Vec::with_capacity(count),
        };
        let calls = device.calls()?;
        for _ in 0..count {
            let mut raw = ptr::null_mut();
            // SAFETY: the target is a local.
            unsafe { calls.event_create(&raw mut raw, flags) }?;
            events.raw.push(raw);
        }
        Ok(events)
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Handle {
        self.raw[index]
    }

    /// Whether what the event recorded last is done.
    pub(crate) fn done(&self, index: usize) -> Result<bool, CudaError> {
        // SAFETY: the event is alive.
        match unsafe { self.device.calls()?.event_query(self.raw[index]) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Some(Status::NOT_READY) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits on the host until it is done: looks a while, then sleeps. Answers whether it was done
    /// at the first look.
    pub(crate) fn wait(&self, index: usize) -> Result<bool, CudaError> {
        for look in 0..LOOKS {
            if self.done(index)? {
                return Ok(look == 0);
            }
            std::hint::spin_loop();
        }
        self.sleep(index)?;
        Ok(false)
    }

    /// Waits on the host until it is done, asleep: for a thread that has nothing else to do.
    pub(crate) fn sleep(&self, index: usize) -> Result<(), CudaError> {
        // SAFETY: the event is alive.
        unsafe { self.device.calls()?.event_synchronize(self.raw[index]) }
    }
}

impl Events {
    /// Seconds from one event to another, both of which are done.
    pub(crate) fn seconds(&self, start: usize, end: usize) -> Result<f64, CudaError> {
        let mut milliseconds = 0.0;
        let (start, end) = (self.raw[start], self.raw[end]);
        let calls = self.device.calls()?;
        // SAFETY: both events are alive, and the target is a local.
        unsafe { calls.event_elapsed(&raw mut milliseconds, start, end) }?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let calls = self.device.last_calls();
        for raw in self.raw.drain(..) {
            // SAFETY: the event was made here, and nobody uses it any more.
            if let Err(error) = unsafe { calls.event_destroy(raw) } {
                tracing::warn!(%error, "an event was not destroyed");
            }
        }
    }
}
