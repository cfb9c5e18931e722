//! What asynchronous work reports to later calls.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::status::{SUCCESS, Status};

/// The failures of a context that no call has answered yet, and the one that lost it.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    lost: AtomicI32,
    late: AtomicI32,
}

impl Failure {
    /// Asynchronous work failed.
    pub(crate) fn report(&self, status: Status) {
        let cell = match status.loses_context() {
            true => &self.lost,
            false => &self.late,
        };
        // The first failure is the one that is reported.
        let _ = cell.compare_exchange(SUCCESS, status.0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Loses the context, whatever the code.
    pub(crate) fn lose(&self, status: Status) {
        self.lost.store(status.0, Ordering::Release);
    }

    /// What lost the context: every later call answers it.
    pub(crate) fn lost(&self) -> Option<Status> {
        let code = self.lost.load(Ordering::Acquire);
        (code != SUCCESS).then_some(Status(code))
    }

    /// The failure that the next call answers.
    pub(crate) fn take(&self) -> Option<Status> {
        self.lost().or_else(|| {
            let code = self.late.swap(SUCCESS, Ordering::AcqRel);
            (code != SUCCESS).then_some(Status(code))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_failure_is_told_once_and_a_lost_context_for_ever() {
        let failure = Failure::default();
        assert_eq!(failure.take(), None);
        failure.report(Status::OUT_OF_MEMORY);
        failure.report(Status::UNKNOWN);
        assert_eq!(failure.take(), Some(Status::OUT_OF_MEMORY));
        assert_eq!(failure.take(), None);
        failure.report(Status::LAUNCH_FAILED);
        failure.report(Status::ILLEGAL_ADDRESS);
        for _ in 0..2 {
            assert_eq!(failure.take(), Some(Status::LAUNCH_FAILED));
        }
    }
}
