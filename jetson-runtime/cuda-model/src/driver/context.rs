//! The device and its primary context.

use super::call::{current, set_current};
use super::{Driver, new_handle, was_handle};
use crate::status::Status;

/// The primary context.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// 0 while nobody retains it.
    handle: u64,
    retained: u64,
}

impl Context {
    pub(super) const fn retained(&self) -> u64 {
        self.retained
    }
}

impl Driver {
    /// `cuInit`.
    pub(crate) fn init(&mut self, flags: u32) -> Result<(), Status> {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        self.initialised = true;
        Ok(())
    }

    /// Checks the ordinal of a device; there is one.
    pub(crate) fn device(&mut self, ordinal: i32) -> Result<(), Status> {
        if ordinal == 0 {
            return Ok(());
        }
        let text = format!("device {ordinal} of 1");
        Err(self.misuse("bad-device", Status::INVALID_DEVICE, text))
    }

    /// `cuDeviceGetAttribute`.
    pub(crate) fn attribute(&mut self, number: i32, device: i32) -> Result<i32, Status> {
        self.device(device)?;
        self.profile.attribute(number).ok_or(Status::INVALID_VALUE)
    }

    /// `cuDevicePrimaryCtxRetain`.
    pub(crate) fn retain(&mut self, device: i32) -> Result<u64, Status> {
        self.device(device)?;
        if self.context.retained == 0 {
            self.context.handle = new_handle();
            self.start_default_stream()?;
        }
        self.context.retained += 1;
        Ok(self.context.handle)
    }

    /// `cuDevicePrimaryCtxRelease`: with the last one goes all that the context held.
    pub(crate) fn release(&mut self, device: i32) -> Result<(), Status> {
        self.device(device)?;
        if self.context.retained == 0 {
            let text = "the primary context is not retained".to_owned();
            return Err(self.misuse("context-release", Status::INVALID_CONTEXT, text));
        }
        self.context.retained -= 1;
        if self.context.retained == 0 {
            self.context.handle = 0;
            self.abandon();
        }
        Ok(())
    }

    /// `cuCtxSetCurrent`; 0 for none.
    pub(crate) fn make_current(&mut self, handle: u64) -> Result<(), Status> {
        if handle != 0 && handle != self.context.handle {
            let text = format!("context {handle:#x} {}", gone_or_wild(handle));
            return Err(self.misuse("wrong-context", Status::INVALID_CONTEXT, text));
        }
        set_current(handle);
        Ok(())
    }

    /// Whether the context of this thread is the one that there is.
    pub(super) fn check_current(&mut self, name: &str) -> Result<(), Status> {
        let current = current();
        if current == 0 {
            let text = format!("{name} on a thread without a current context");
            return Err(self.misuse("no-context", Status::INVALID_CONTEXT, text));
        }
        if current != self.context.handle {
            let text = format!("{name}: context {current:#x} {}", gone_or_wild(current));
            return Err(self.misuse("wrong-context", Status::CONTEXT_IS_DESTROYED, text));
        }
        Ok(())
    }
}

fn gone_or_wild(handle: u64) -> &'static str {
    match was_handle(handle) {
        true => "was released",
        false => "was never given out",
    }
}
