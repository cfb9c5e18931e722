//! Tests of the whole runtime on plans made by hand.
#![allow(clippy::cast_possible_truncation)]

// Shared with the integration tests, each of which needs a part.
#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "../../tests/support/model.rs"]
mod model;
#[allow(clippy::cast_possible_truncation, dead_code, unreachable_pub)]
#[path = "../../tests/support/plans.rs"]
pub(crate) mod plans;

mod failures;
mod limits;
mod order;
mod replay;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;

use crate::{Frozen, Options, Planned, RuntimeError};

/// What takes so long hangs.
const HANGS: Duration = Duration::from_secs(600);

/// Freezes a plan with the contents that a [`model::Model`] expects.
fn freeze(plan: &Plan, options: &Options) -> Result<Frozen, RuntimeError> {
    let fill = |tensor, offset, bytes: &mut [u8]| model::fill(tensor, 0, offset, bytes);
    let verified = VerifiedPlan::new(plan.clone()).expect("plans made by hand hold");
    Planned::new(verified, options.clone())?.freeze(fill)
}

/// Fails the test rather than to hang with it. A machine may be slow, and busy with other things.
pub(crate) fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = body();
        // The receiver is gone only if the test failed already.
        let _ = sender.send(());
        result
    });
    if receiver.recv_timeout(HANGS) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("still running after {HANGS:?}");
    }
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A directory on a disk: that of temporary files may be in memory.
pub(crate) fn disk() -> std::path::PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().into()
}
