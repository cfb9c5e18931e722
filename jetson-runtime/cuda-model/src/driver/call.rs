//! One call: counted, refused, failed on cue, or let through.

use std::cell::Cell;

use super::Driver;
use crate::faults::Fate;
use crate::status::Status;

thread_local! {
    /// The handle of the context that is current to this thread; 0 for none.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// What must be there before a call is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// `cuInit` was called.
    Init,
    /// `cuInit` was called, and the device is not lost.
    Device,
    /// A context is current to the calling thread, and not lost.
    Context,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) need: Need,
    /// The handle or address that the call gives back, if it does that.
    pub(crate) gives_back: Option<u64>,
}

/// The context that is current to this thread.
pub(crate) fn current() -> u64 {
    CURRENT.get()
}

/// Makes a context current to this thread.
pub(super) fn set_current(handle: u64) {
    CURRENT.set(handle);
}

impl Driver {
    /// Begins a call: whether it is let through.
    pub(crate) fn begin(&mut self, call: Call) -> Result<(), Status> {
        self.elided = false;
        self.late = None;
        let fate = self.faults.call(call.name);
        let refused = self.fated(fate).and_then(|()| self.needs(call));
        if refused.is_err()
            && let Some(key) = call.gives_back
        {
            self.excused.insert(key);
        }
        refused
    }

    fn fated(&mut self, fate: Option<Fate>) -> Result<(), Status> {
        match fate {
            Some(Fate::Fails(status)) => return Err(status),
            Some(Fate::LosesContext(status)) => {
                self.hardware.failure.lose(status);
                return Err(status);
            }
            Some(Fate::FailsLate(status)) => self.late = Some(status),
            Some(Fate::Elided) => self.elided = true,
            None => (),
        }
        Ok(())
    }

    fn needs(&mut self, call: Call) -> Result<(), Status> {
        if call.need == Need::Nothing {
            return Ok(());
        }
        if !self.initialised {
            let text = format!("{} before cuInit", call.name);
            return Err(self.misuse("not-initialised", Status::NOT_INITIALIZED, text));
        }
        let failed = match call.need {
            Need::Nothing | Need::Init => None,
            Need::Device => self.hardware.failure.lost(),
            Need::Context => {
                self.check_current(call.name)?;
                self.hardware.failure.take()
            }
        };
        failed.map_or(Ok(()), Err)
    }

    /// Ends a call: a failure that nothing was enqueued for is told by the next one.
    pub(crate) fn end(&mut self) {
        if let Some(status) = self.late.take() {
            self.hardware.failure.report(status);
        }
        self.elided = false;
    }
}
